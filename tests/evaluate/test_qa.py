"""Questions from a model folder of transformers to scores and files; the answers are found by another route too."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from bertctl.evaluate.config import EvaluateSection
from bertctl.evaluate.predict import predict
from bertctl.evaluate.run import run
from bertctl.recipe.load import build_recipe
from bertctl.text.tokenizer import Tokenizer

CONTEXT = "The cat sat on the mat, and the dog ran to the old house. Ann saw Bob in Rome! A long day; it was very good."
FAMILIES = {
    "bert": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48},
}


@pytest.fixture(params=FAMILIES)
def theirs(request, tokenizer: Tokenizer, tmp_path: Path):
    """(model, folder): a random ...ForQuestionAnswering that reads 40 pieces."""
    torch.manual_seed(3)
    shared = {"vocab_size": tokenizer.vocab_size, "max_position_embeddings": 40, "initializer_range": 0.4}
    config = transformers.AutoConfig.for_model(request.param, **shared, **FAMILIES[request.param])
    model = transformers.AutoModelForQuestionAnswering.from_config(config).eval()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save(tmp_path / "model")
    return model, tmp_path / "model"


def squad(path: Path, questions: list[tuple[str, str | None]], version: str) -> Path:
    """A SQuAD file on one context."""
    asked = []
    for number, (question, answer) in enumerate(questions):
        answers = [] if answer is None else [{"text": answer, "answer_start": CONTEXT.index(answer)}]
        extra = {"is_impossible": answer is None} if version == "v2.0" else {}
        asked.append({"id": f"q{number}", "question": question, "answers": answers, **extra})
    data = [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": asked}]}]
    path.write_text(json.dumps({"version": version, "data": data}))
    return path


QUESTIONS = [("Who saw Bob?", "Ann"), ("Where?", "Rome"), ("What sat on the mat?", "cat"), ("How old?", "old house")]


@torch.no_grad()
def answers_by_pairs(model, folder: Path, question: str) -> tuple[str, float]:
    """The best span over the windows that transformers' own tokenizer cuts, every pair of positions tried in turn; and
    the least score of [CLS]."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    room = 40 - 3 - len(tokenizer(question, add_special_tokens=False).input_ids)
    encoded = tokenizer(
        question,
        CONTEXT,
        max_length=40,
        truncation="only_second",
        stride=room // 2,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    best, null = (-math.inf, ""), math.inf
    for window, ids in enumerate(encoded.input_ids):
        given = {"input_ids": torch.tensor([ids])}
        if "token_type_ids" in encoded and model.config.model_type == "bert":
            given["token_type_ids"] = torch.tensor([encoded.token_type_ids[window]])
        output = model(**given)
        starts, ends = output.start_logits[0].tolist(), output.end_logits[0].tolist()
        null = min(null, starts[0] + ends[0])
        places = [i for i, part in enumerate(encoded.sequence_ids(window)) if part == 1]
        offsets = encoded.offset_mapping[window]
        for i in places:
            for j in places:
                if i <= j < i + 30:
                    best = max(best, (starts[i] + ends[j], CONTEXT[offsets[i][0] : offsets[j][1]]))
    return best[1], null - best[0]


def test_a_folder_of_transformers_is_scored_without_a_recipe(theirs, tmp_path: Path) -> None:
    model, folder = theirs
    data = squad(tmp_path / "gold.json", QUESTIONS, "1.1")
    values = {"model": str(folder), "task": "qa", "data": {"path": str(data)}}
    result = run(build_recipe(values, EvaluateSection), out=tmp_path / "out", seed=0)
    rows = [json.loads(line) for line in (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()]
    expected = [answers_by_pairs(model, folder, question) for question, _ in QUESTIONS]
    assert [row["answer"] for row in rows] == [answer for answer, _ in expected]
    assert [row["null_difference"] for row in rows] == pytest.approx([null for _, null in expected], abs=1e-4)
    assert [CONTEXT[row["start"] : row["end"]] for row in rows] == [answer for answer, _ in expected]
    assert [row["gold"] for row in rows] == [[answer] for _, answer in QUESTIONS]
    assert len({answer for answer, _ in expected}) > 1
    assert json.loads((tmp_path / "out" / "squad-predictions.json").read_text()) == {
        f"q{number}": answer for number, (answer, _) in enumerate(expected)
    }
    shares = json.loads((tmp_path / "out" / "squad-no-answer.json").read_text())
    assert list(shares.values()) == pytest.approx([1 / (1 + np.exp(-null)) for _, null in expected], abs=1e-5)
    assert (result["squad_version"], result["split"], result["truncated"]) == ("1.1", "test", 0)


def test_version_two_answers_nothing_where_the_score_of_cls_is_above_the_best(theirs, tmp_path: Path) -> None:
    model, folder = theirs
    data = squad(tmp_path / "gold.json", [*QUESTIONS, ("When?", None)], "v2.0")
    values = {"model": str(folder), "data": {"path": str(data)}}  # the head tells the task
    result = run(build_recipe(values, EvaluateSection), out=tmp_path / "out", seed=0)
    rows = [json.loads(line) for line in (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()]
    for row, (question, _) in zip(rows, [*QUESTIONS, ("When?", None)], strict=True):
        answer, difference = answers_by_pairs(model, folder, question)
        assert row["answer"] == ("" if difference > 0 else answer)
    assert rows[-1]["gold"] == []
    assert (result["task"], result["squad_version"], result["without_answer"]) == ("qa", "2.0", 1)
    assert {"exact", "f1", "has_answer_f1", "no_answer_f1"} <= result["metrics"].keys()


def test_predict_answers_lines_of_objects(theirs) -> None:
    model, folder = theirs
    lines = [json.dumps({"question": question, "context": CONTEXT}) for question, _ in QUESTIONS]
    rows = list(predict(folder, lines))
    assert [row["answer"] for row in rows] == [
        answers_by_pairs(model, folder, question)[0] for question, _ in QUESTIONS
    ]
    assert all(row["n_best"][0]["text"] == row["answer"] for row in rows)


def test_a_misfit_is_named_and_scored_by_its_text(theirs, tmp_path: Path, capsys) -> None:
    _, folder = theirs
    data = squad(tmp_path / "gold.json", QUESTIONS, "1.1")
    content = json.loads(data.read_text())
    content["data"][0]["paragraphs"][0]["qas"][1]["answers"][0]["answer_start"] += 3
    data.write_text(json.dumps(content))
    values = {"model": str(folder), "data": {"path": str(data)}}
    result = run(build_recipe(values, EvaluateSection), out=tmp_path / "out", seed=0)
    assert (result["misfits"], result["examples"]) == (1, 4)
    said = capsys.readouterr().err
    assert f"{data}: question q1: got the answer 'Rome' at" in said
    assert "off by 3; were blanks before it stripped?" in said
