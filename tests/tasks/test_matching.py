"""Answers find their examples by id in any order, and everything that cannot be matched is told at once."""

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertctl.tasks.config import DataSection
from bertctl.tasks.matching import Said, matched
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import TextExample


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


# task -> (gold record, predicted record) of example n; the answer says which one it is
RECORDS = {
    "classification": lambda n: ({"text": "t", "label": f"c{n}"}, {"label": f"c{n}"}),
    "multi_label": lambda n: ({"text": "t", "labels": [f"c{n}"]}, {"labels": [f"c{n}"]}),
    "regression": lambda n: ({"text": "t", "text_pair": "u", "score": n}, {"value": n}),
    "multiple_choice": lambda n: (
        {"context": "c", "choices": list("abcdefgh"), "label": n},
        {"choice": n},
    ),
    "ner": lambda n: ({"tokens": ["w", f"w{n}"], "ner_tags": ["O", f"B-T{n}"]}, {"tags": ["O", f"B-T{n}"]}),
    "pos": lambda n: ({"tokens": ["w", f"w{n}"], "upos": ["O", f"T{n}"]}, {"tags": ["O", f"T{n}"]}),
    "embedding": lambda n: ({"sentence1": "a", "sentence2": "b", "score": n}, {"cosine": n / 10}),
}


@pytest.fixture
def read(tmp_path):
    """(task, gold rows, predicted rows) -> (examples, predictions, problems)."""

    def read(task, gold, said, **data):
        places = tmp_path / "gold.jsonl", tmp_path / "said.jsonl"
        for place, rows in zip(places, (gold, said), strict=True):
            place.write_text(lines(rows))
        section, problems = DataSection(**data), []
        examples = TASKS[task].read_file(places[0], section, True, problems)
        assert problems == []
        found = TASKS[task].submission(places[1], examples, section, problems)
        return examples, found, [problem.replace(f"{tmp_path}/", "") for problem in problems]

    return read


def both(task, name="id", count=6):
    pairs = [RECORDS[task](n) for n in range(count)]
    gold = [{name: f"x{n}", **pair[0]} for n, pair in enumerate(pairs)]
    said = [{name: f"x{n}", **pair[1]} for n, pair in enumerate(pairs)]
    if task in ("ner", "pos"):
        said = [{**row, "tokens": one["tokens"]} for row, one in zip(said, gold, strict=True)]
    return gold, said


@pytest.mark.parametrize("task", sorted(RECORDS))
@pytest.mark.parametrize("name", ["id", "idx"])
def test_answers_with_ids_may_come_in_any_order(read, task, name):
    gold, said = both(task, name)
    _, in_order, _ = read(task, gold, [{k: v for k, v in row.items() if k != name} for row in said])
    shuffled = random.Random(3).sample(said, len(said))
    assert shuffled != said
    assert read(task, gold, shuffled)[1:] == (in_order, [])


def test_ids_of_numbers_and_of_text_are_the_same(read):
    gold = [{"id": n, "text": "t", "label": f"c{n}"} for n in range(3)]
    said = [{"id": str(n), "label": f"c{n}"} for n in (2, 0, 1)]
    assert [row["label"] for row in read("classification", gold, said)[1]] == ["c0", "c1", "c2"]


@pytest.mark.parametrize("task", sorted(RECORDS))
def test_everything_that_does_not_match_is_told_at_once(read, task):
    gold, said = both(task)
    wrong = [*said[:3], said[1], {**said[4], "id": "y"}, {key: v for key, v in said[5].items() if key != "id"}]
    assert read(task, gold, wrong)[2] == [
        "said.jsonl:4: got the id 'x1' more than once, expected distinct ids",
        "said.jsonl:6: got a record without id, expected one as in others of this file",
        "said.jsonl:5: got the id 'y', expected ids of the data, such as 'x0'",
        "said.jsonl: got no prediction for 3 of 6 examples, such as 'x3' (gold.jsonl:4), expected one each",
    ]


@pytest.mark.parametrize("rows", [2, 4])
def test_without_ids_the_number_must_fit(read, rows):
    gold, said = both("classification", count=3)
    said = [{"label": row["label"]} for row in (said * 2)[:rows]]
    expected = "expected 3 in order, or an id with each here and in the data"
    assert read("classification", gold, said)[2] == [f"said.jsonl: got {rows} predictions, {expected}"]


@pytest.mark.parametrize("gold_ids", [[None, None], ["a", "a"], ["a", None]])
def test_ids_that_tell_nothing_apart_are_left_aside_with_a_word(read, gold_ids, capsys):
    gold = [{"text": "t", "label": f"c{n}", "id": name} for n, name in enumerate(gold_ids)]
    found = read("classification", gold, [{"id": "b", "label": "c0"}, {"id": "a", "label": "c1"}])
    assert [row["label"] for row in found[1]] == ["c0", "c1"]
    assert "read in order, whatever its ids" in capsys.readouterr().err


def test_answers_beyond_a_sample_are_no_problem(read):
    gold, said = both("classification")
    found = read("classification", gold[:3], said, test_examples=3)
    assert [row["label"] for row in found[1]] == ["c0", "c1", "c2"]
    assert found[2] == []
    assert len(read("classification", gold[:3], said)[2]) == 3


def test_words_of_a_sentence_found_by_id_must_be_those_of_the_data(read):
    gold, said = both("ner", count=3)
    said[0] = said[0] | {"tokens": ["w", "v"]}
    said[2] = said[2] | {"tokens": ["w"], "tags": ["O"]}
    assert read("ner", gold, said[::-1])[2] == [
        "said.jsonl:3: got the word 'v', expected 'w0' as in gold.jsonl:1",
        "said.jsonl: got no more words, expected 'w2' as in gold.jsonl:3",
    ]


def test_sentences_of_conllu_are_found_by_sent_id(tmp_path):
    def sentence(name, word, tag):
        return f"# sent_id = {name}\n# text = {word}\n1\t{word}\t_\t{tag}\t_\t_\t0\troot\t_\t_\n\n"

    gold, said, problems = tmp_path / "gold.conllu", tmp_path / "said.conllu", []
    gold.write_text(sentence("a-1", "go", "VERB") + sentence("a-2", "I", "PRON"))
    said.write_text(sentence("a-2", "I", "NOUN") + sentence("a-1", "go", "X"))
    task = TASKS["pos"]
    examples = task.read_file(gold, DataSection(), True, problems)
    assert [one.id for one in examples] == ["a-1", "a-2"]
    assert [row["tags"] for row in task.submission(said, examples, DataSection(), problems)] == [["X"], ["NOUN"]]
    assert problems == []


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.sampled_from("abc") | st.none(), max_size=4), st.lists(st.sampled_from("abcd") | st.none(), max_size=5)
)
def test_either_every_example_has_an_answer_or_there_is_a_problem(gold, said):
    examples = [TextExample("t", None, "x", f"g:{n}", name) for n, name in enumerate(gold)]
    answers = [Said(name, f"s:{n}", n) for n, name in enumerate(said)]
    problems = []
    found = matched("s", answers, examples, problems, all_known=True, all_said=True)
    complete = len(found) == len(examples) and None not in found
    assert complete or problems
    if sorted(map(str, gold)) == sorted(map(str, said)) and None not in gold and len(set(gold)) == len(gold):
        assert [said[n] for n in found] == gold
        assert problems == []
