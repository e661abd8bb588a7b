"""Which file is which split, what train must know of the others, and what is held out."""

from collections import Counter
from pathlib import Path

import pytest

from bertctl.errors import BertctlError
from bertctl.tasks.config import ColumnsSection, DataSection
from bertctl.tasks.label_checks import unknown_labels
from bertctl.tasks.splits import at_most, find_files, hold_out, training_data
from bertctl.tasks.splits import test_data as evaluation_data
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import TextExample

TASK, NER = TASKS["classification"], TASKS["ner"]
ROWS = "text,label\na,x\nb,y\n"


def texts(count: int, labels: str = "xy") -> list[TextExample]:
    return [TextExample(f"text {i}", None, labels[i % len(labels)], f"f:{i}") for i in range(count)]


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


@pytest.mark.parametrize("task", ["classification", "regression", "multi_label"])
@pytest.mark.parametrize("first", ["train", "dev"])
def test_pairs_in_one_split_and_single_texts_in_another_are_refused(task, first, tmp_path):
    pairs, single = "sentence1,sentence2,label\na,b,1\nc,d,2\n", "text,label\na,1\nb,2\n"
    train, dev = (pairs, single) if first == "train" else (single, pairs)
    write(tmp_path, train__csv=train, dev__csv=dev, test__csv=train)
    with pytest.raises(BertctlError) as caught:
        training_data(TASKS[task], DataSection(path=tmp_path, label_separator=";"), seed=0)
    got = (
        "got one text, but train has pairs of texts"
        if first == "train"
        else "got two texts, but train has single texts"
    )
    assert caught.value.problems == (f"{tmp_path}/dev.csv:2: {got}",)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["train.csv", "dev.csv", "test.csv"], {"train": "train.csv", "dev": "dev.csv", "test": "test.csv"}),
        (["train.jsonl", "validation.jsonl"], {"train": "train.jsonl", "dev": "validation.jsonl"}),
        (["wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"], {"test": "emerging.test.annotated"}),
        (["en_ewt-ud-train.conllu", "train.filelist.txt"], {"train": "en_ewt-ud-train.conllu"}),
        (["eng.train", "eng.testa", "eng.testb"], {"train": "eng.train", "dev": "eng.testa", "test": "eng.testb"}),
        (["SICK_train.txt", "SICK_trial.txt", "README.txt", ".train.swp"], {"dev": "SICK_trial.txt"}),
    ],
)
def test_files_are_found_by_how_people_name_them(tmp_path: Path, names: list[str], expected: dict[str, str]) -> None:
    write(tmp_path, **dict.fromkeys(names, ROWS))
    problems: list[str] = []
    found = find_files(DataSection(path=tmp_path), "train", problems)
    assert problems == []
    assert expected.items() <= {split: files[0].name for split, files in found.items() if files}.items()


def test_parts_of_a_split_are_read_together(tmp_path: Path) -> None:
    names = ["train-00000-of-00002.csv", "train-00001-of-00002.csv", "dev.csv"]
    write(tmp_path, **dict.fromkeys(names, ROWS))
    assert len(training_data(TASK, DataSection(path=tmp_path), seed=0).train) == 4


def test_two_files_for_one_split_are_refused_unless_one_is_named(tmp_path: Path) -> None:
    write(tmp_path, train__csv=ROWS, in_dev__csv=ROWS, out_dev__csv=ROWS)
    with pytest.raises(BertctlError, match=r"got in_dev.csv, out_dev.csv for dev") as caught:
        training_data(TASK, DataSection(path=tmp_path), seed=0)
    assert "`data.dev`" in caught.value.problems[0]
    data = DataSection(path=tmp_path, dev=str(tmp_path / "out_dev.csv"))
    assert training_data(TASK, data, seed=0).dev[0].where.endswith("out_dev.csv:2")


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"notes__txt": "x"}, "got notes.txt, expected files named train"),
        ({}, "got no files, expected files named train"),
        ({"dev__csv": ROWS}, "got no training data"),
        ({"train__csv": "text,label\na,pos\nb,pos\nc,pos\n"}, r"got only one class \('pos', 3 times\)"),
        ({"train__csv": ROWS + "c\n", "dev__csv": "text,label\na\n"}, "train.csv:4: got 1 columns"),
    ],
)
def test_data_that_cannot_be_trained_on(tmp_path: Path, files: dict[str, str], problem: str) -> None:
    with pytest.raises(BertctlError, match=problem):
        training_data(TASK, DataSection(path=write(tmp_path, **files)), seed=0)


def test_problems_of_all_files_come_together(tmp_path: Path) -> None:
    write(tmp_path, train__csv=ROWS + "c\n", dev__csv=ROWS + "d,,\n", test__csv="text,label\ne,\n")
    with pytest.raises(BertctlError) as caught:
        training_data(TASK, DataSection(path=tmp_path), seed=0)
    assert [problem.split(": ")[0].rpartition("/")[2] for problem in caught.value.problems] == [
        "train.csv:4",
        "dev.csv:4",
        "test.csv:2",
    ]


def test_hidden_labels_of_a_test_file_are_unknown_labels(tmp_path: Path) -> None:
    write(tmp_path, train__csv="text,label\na,0\nb,1\n", dev__csv="text,label\nc,0\n", test__csv="text,label\nd,-1\n")
    with pytest.raises(BertctlError, match=r"test.csv:2: got the label '-1', which train does not have.*0, 1"):
        training_data(TASK, DataSection(path=tmp_path), seed=0)


def test_an_unknown_entity_type_is_named_with_the_line_of_its_word(tmp_path: Path) -> None:
    write(tmp_path, train__txt="Ann B-PER\nsaw O\nBob O\n", dev__txt="Ann B-PER\nin O\nRome B-LOC\n")
    with pytest.raises(BertctlError, match=r"dev.txt:3: got the label 'B-LOC'"):
        training_data(NER, DataSection(path=tmp_path), seed=0)


def test_an_inside_tag_that_train_happens_not_to_have_is_no_unknown_label(tmp_path: Path) -> None:
    write(tmp_path, train__txt="Ann B-PER\nsaw O\n", dev__txt="Ann B-PER\nLee I-PER\n")
    splits = training_data(NER, DataSection(path=tmp_path), seed=0)
    assert splits.dev[0].scheme == "BIO"


def test_without_dev_a_stratified_share_is_held_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"text {i},{'rare' if i % 10 == 0 else 'often'}\n" for i in range(200))
    path = write(tmp_path, data__csv="text,label\n" + rows) / "data.csv"
    splits = training_data(TASK, DataSection(path=path, dev_share=0.1), seed=3)
    assert Counter(e.label for e in splits.dev) == {"rare": 2, "often": 18}
    assert len(splits.train) == 180
    assert "held out 20 of 200 training examples (seed 3)" in capsys.readouterr().err
    again = training_data(TASK, DataSection(path=path, dev_share=0.1), seed=3)
    other = training_data(TASK, DataSection(path=path, dev_share=0.1), seed=4)
    assert splits.dev == again.dev != other.dev
    assert splits.train == [e for e in splits.train + splits.dev if e not in splits.dev]


def test_what_is_held_out_shares_no_text_and_no_only_label_with_train() -> None:
    train = [
        TextExample(f"Same  text {i // 4}".upper() if i % 2 else f"same text {i // 4}", None, "xy"[i // 20], "")
        for i in range(40)
    ]
    train.append(TextExample("alone", None, "z", ""))
    for seed in range(20):
        rest, dev = hold_out(TASK, train + texts(40), 0.3, seed)
        assert not {e.text.casefold().split()[-1] for e in dev if e.text.lower().startswith("same")} & {
            e.text.casefold().split()[-1] for e in rest if e.text.lower().startswith("same")
        }
        assert {e.label for e in dev} <= {e.label for e in rest}
        assert len(rest) + len(dev) == 81


def test_too_few_examples_to_hold_out() -> None:
    with pytest.raises(BertctlError, match="too few to hold out"):
        hold_out(TASK, texts(2), 0.5, 0)


def test_at_most_so_many_stratified_and_in_order() -> None:
    some = at_most(TASK, texts(100), 30, 1)
    assert Counter(e.label for e in some) == {"x": 15, "y": 15}
    assert some == sorted(some, key=lambda e: int(e.where[2:]))
    assert at_most(TASK, texts(5), 9, 1) == texts(5)


def test_limits_of_the_recipe_and_a_label_they_would_lose(tmp_path: Path) -> None:
    rows = "".join(f"text {i},{'abc'[i % 3]}\n" for i in range(60))
    write(tmp_path, train__csv="text,label\n" + rows, dev__csv="text,label\n" + rows)
    splits = training_data(TASK, DataSection(path=tmp_path, train_examples=12, dev_examples=6), seed=0)
    assert (len(splits.train), len(splits.dev)) == (12, 6)
    with pytest.raises(BertctlError, match=r"train_examples: 2 leaves out the label"):
        training_data(TASK, DataSection(path=tmp_path, train_examples=2), seed=0)


def test_evaluation_takes_test_or_the_file_itself_or_says_that_it_takes_dev(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, train__csv=ROWS, dev__csv=ROWS)
    assert evaluation_data(TASK, DataSection(path=tmp_path), labels=["x", "y"], seed=0)[0] == "dev"
    assert "no test data, so dev is scored" in capsys.readouterr().err
    write(tmp_path, test__csv=ROWS)
    assert evaluation_data(TASK, DataSection(path=tmp_path), labels=["x", "y"], seed=0)[0] == "test"
    split, examples = evaluation_data(TASK, DataSection(path=tmp_path / "dev.csv"), labels=["x", "y"], seed=0)
    assert (split, len(examples)) == ("dev", 2)
    assert "no test data" not in capsys.readouterr().err
    (tmp_path / "mine.csv").write_text(ROWS)
    assert evaluation_data(TASK, DataSection(path=tmp_path / "mine.csv"), labels=["x", "y"], seed=0)[0] == "test"


def test_evaluation_refuses_labels_that_the_model_does_not_have(tmp_path: Path) -> None:
    write(tmp_path, test__csv=ROWS)
    with pytest.raises(BertctlError, match=r"test.csv:3: got the label 'y', which the model does not have"):
        evaluation_data(TASK, DataSection(path=tmp_path), labels=["x", "z"], seed=0)


def test_unknown_labels_are_all_listed_but_not_without_end() -> None:
    assert unknown_labels(TASK, texts(3000), ["x"], "train") == [
        "f:1: got the label 'y' (1,500 times: lines 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, ...), which train does not "
        "have; expected one of x"
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (DataSection(), "data: got nothing"),
        (DataSection(path=Path("no/such/file.csv")), "no/such/file.csv: no such file"),
        (DataSection(train="no.csv", dev="none.csv"), "no.csv: no such file"),
        (DataSection(name="python_docs", subset="no"), "subset: got 'no'"),
    ],
)
def test_data_that_is_not_there(data: DataSection, problem: str) -> None:
    with pytest.raises(BertctlError, match=problem):
        training_data(TASK, data, seed=0)


def test_headerless_files_by_position(tmp_path: Path) -> None:
    path = write(tmp_path, train__tsv="good\t1\nbad\t0\n", dev__tsv="fine\t1\n")
    data = DataSection(path=path, columns=ColumnsSection(text=1, label=2))
    assert [e.text for e in training_data(TASK, data, seed=0).train] == ["good", "bad"]
