"""CoNLL columns: every word and tag once, document marks are no sentences, and what is wrong is named with its line."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertctl.errors import BertctlError
from bertctl.tasks.config import ColumnsSection, DataSection
from bertctl.tasks.conll import looks_like_conllu, read_conll, read_conllu
from bertctl.tasks.task import TokenExample

HC_23 = "-DOCSTART- -X- -X- O\r\n\r\nEU NNP B-NP B-ORG\r\nrejects VBZ B-VP O\r\n\r\nPeter NNP B-NP B-PER"
CONLLU = """# newdoc id = a
# sent_id = 1
# text = Don't stop
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
2.1\tx\tx\tVERB\tVB\t_\t_\t_\t_\t_
3\tstop\tstop\tVERB\tVB\t_\t0\troot\t_\t_

1\t#\t#\tSYM\tNN\t_\t0\troot\t_\t_
"""


def read(path: Path, text: str | bytes, *, labelled: bool = True, meant: bool = True, **columns: object) -> tuple:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    problems: list[str] = []
    data = DataSection(columns=ColumnsSection(**columns))
    return read_conll(path, data, labelled, problems, last_is_meant=meant), problems


def pairs(examples: list[TokenExample]) -> list[list[tuple[str, str]]]:
    return [list(zip(example.words, example.tags or (), strict=True)) for example in examples]


@pytest.mark.parametrize("text", [HC_23, HC_23.replace("\r", "") + "\n", HC_23.replace(" ", "\t"), "\ufeff" + HC_23])
def test_line_ends_marks_and_separators_make_no_difference(tmp_path: Path, text: str) -> None:
    examples, problems = read(tmp_path / "t.txt", text)
    assert problems == []
    assert pairs(examples) == [[("EU", "B-ORG"), ("rejects", "O")], [("Peter", "B-PER")]]
    assert examples[1].place() == f"{tmp_path}/t.txt:6"


def test_columns_by_position(tmp_path: Path) -> None:
    examples, _ = read(tmp_path / "t.txt", HC_23, tags=2, meant=False)
    assert pairs(examples)[0] == [("EU", "NNP"), ("rejects", "VBZ")]


def test_words_alone_can_be_read_without_tags(tmp_path: Path) -> None:
    examples, problems = read(tmp_path / "t.txt", "a\nb\n\nc\n", labelled=False)
    assert problems == []
    assert [(example.words, example.tags) for example in examples] == [(("a", "b"), None), (("c",), None)]


def test_a_word_that_looks_like_a_comment_or_holds_odd_spaces_is_a_word(tmp_path: Path) -> None:
    examples, problems = read(tmp_path / "t.txt", "# O\n\u00a0x O\n\nNew York\tB-LOC\n".replace(" O", "\tO"))
    assert problems == []
    assert pairs(examples) == [[("#", "O"), ("\u00a0x", "O")], [("New York", "B-LOC")]]


def test_a_file_without_a_blank_line_is_said_to_be_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples, _ = read(tmp_path / "t.txt", "a O\nb O\nc O\n")
    assert len(examples) == 1
    assert "1 sentence of 3 words" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a O\nb X O\n", "t.txt:2: got 3 columns, expected 2, parted by blanks as in line 1"),
        ("a\nb\n", "t.txt:1: got one column, expected a word and its tag a line, parted by a tab or blanks"),
        ("Ann,B-PER\nsaw,O\n", "t.txt:1: got one column, expected a word and its tag a line"),
        ("Ann saw Bob .\nIt was .\nA nice film it was .\n", "t.txt:1: got running text, of as many words a line as"),
        ("text\tlabel\na fine film\tpos\na dull film\tneg\n", "t.txt:1: got a whole text in a line, expected one word"),
        ("a\tO\n\tO\n", "t.txt:2: got an empty word"),
        ("a\tO\n \tO\n", "t.txt:2: got an empty word"),
        ("a\tO\nb\t\n", "t.txt:2: got an empty tag"),
        ("-DOCSTART- O\n\n-DOCSTART- O\n", "t.txt:1: got no sentence"),
        ("", "t.txt:1: got no sentence"),
        ("a\tO\nb O\n", "t.txt:2: got 1 columns, expected 2, parted by tabs"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    _, problems = read(tmp_path / "t.txt", text)
    assert len(problems) == 1
    assert problem in problems[0]


def test_of_several_columns_the_meant_one_is_not_guessed(tmp_path: Path) -> None:
    _, problems = read(tmp_path / "t.txt", HC_23, meant=False)
    assert "expected `columns.tags` to say which one is meant" in problems[0]


@pytest.mark.parametrize("columns", [{"tags": 9}, {"tokens": 9}, {"tags": "xpos"}, {"tags": 1}])
def test_columns_that_are_not_there(tmp_path: Path, columns: dict[str, object]) -> None:
    _, problems = read(tmp_path / "t.txt", HC_23, **columns)
    assert "got 4 columns parted by tabs or blanks, expected a word and its tag" in problems[0]


@pytest.mark.parametrize(("column", "tags"), [(None, ["AUX", "PART", "VERB"]), ("xpos", ["VBP", "RB", "VB"])])
def test_conllu_skips_multiword_tokens_and_empty_nodes(tmp_path: Path, column: str | None, tags: list[str]) -> None:
    path = tmp_path / "t.conllu"
    path.write_text(CONLLU)
    problems: list[str] = []
    examples = read_conllu(path, DataSection(columns=ColumnsSection(tags=column)), True, problems)
    assert problems == []
    assert pairs(examples)[0] == list(zip(["Do", "n't", "stop"], tags, strict=True))
    assert examples[1].words == ("#",)
    assert examples[0].place(2) == f"{path}:8"
    assert looks_like_conllu(path)


def test_conllu_with_a_broken_line_or_an_unknown_column(tmp_path: Path) -> None:
    path = tmp_path / "t.conllu"
    path.write_text(CONLLU.replace("2\tn't\tnot\t", "2\tn't\t"))
    problems: list[str] = []
    read_conllu(path, DataSection(), True, problems)
    read_conllu(path, DataSection(columns=ColumnsSection(tags="pos")), True, problems)
    assert "t.conllu:6: got 9 columns, expected 10" in problems[0]
    assert "columns.tags: got 'pos', expected one of form, lemma, upos" in problems[1]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=80), st.text(alphabet="ab#O \t\n\r-\u00a0\u2028", max_size=60).map(str.encode)))
@pytest.mark.filterwarnings("ignore")
def test_any_bytes_give_sentences_or_problems(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "t.conllu"
    try:
        examples, problems = read(path, raw)
        more: list[str] = []
        read_conllu(path, DataSection(), True, more)
    except BertctlError as error:
        problems, examples = list(error.problems), []
    assert problems or all(len(e.words) == len(e.tags or ()) == len(e.lines) > 0 for e in examples)
    assert all(problem.startswith(str(path)) for problem in problems)
