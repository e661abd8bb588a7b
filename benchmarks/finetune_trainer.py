"""The side of transformers' Trainer in finetune_peers.py, written as the examples of transformers are.

Classification, regression, token labels (loss on the first piece of a word, cut at max_length) and questions with
answers (overlapping windows, the best of 20 x 20 spans up to 30 pieces). Scores by scikit-learn, scipy, seqeval and the
rules of SQuAD.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]
WORDS = {"ner", "pos"}
BEST, LONGEST = 20, 30  # spans looked at and their pieces


def read(job: Row, split: str) -> list[Row]:
    lines = (Path(job["data"]) / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def encode(job: Row, rows: list[Row], names: list[str], tok: Any) -> list[Row]:
    """Features with labels; those of questions also say whose they are and which pieces are of the context."""
    if job["kind"] == "qa":
        return encode_questions(job, rows, tok)
    if job["kind"] in WORDS:
        return [encode_words(job, row, names, tok) for row in rows]
    features = []
    for row in rows:
        encoded = tok(row["text"], row.get("text_pair"), truncation=True, max_length=job["max_length"])
        label = names.index(row["label"]) if names else float(row["score"])
        features.append({**encoded, "labels": label})
    return features


def encode_words(job: Row, row: Row, names: list[str], tok: Any) -> Row:
    encoded = tok(row["tokens"], is_split_into_words=True, truncation=True, max_length=job["max_length"])
    labels, last = [], None
    for word in encoded.word_ids():
        labels.append(names.index(row["tags"][word]) if word is not None and word != last else -100)
        last = word
    return {**encoded, "labels": labels}


def encode_questions(job: Row, rows: list[Row], tok: Any) -> list[Row]:
    """Windows that overlap by 128 pieces, as bertctl's; the answer, or [CLS] where it is not inside."""
    encoded = tok(
        [row["question"].strip() for row in rows],
        [row["context"] for row in rows],
        truncation="only_second",
        max_length=job["max_length"],
        stride=128,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    features = []
    for place, row in enumerate(encoded["overflow_to_sample_mapping"]):
        offsets, owners = encoded["offset_mapping"][place], encoded.sequence_ids(place)
        spans = [span if owner == 1 else None for span, owner in zip(offsets, owners, strict=True)]
        [answer] = rows[row]["answers"]
        begin, end = answer["answer_start"], answer["answer_start"] + len(answer["text"])
        first = next((i for i, span in enumerate(spans) if span and span[0] <= begin < span[1]), 0)
        last = next((i for i, span in enumerate(spans) if span and span[0] < end <= span[1]), 0)
        inside = first > 0 and last > 0
        features.append(
            {name: encoded[name][place] for name in ("input_ids", "token_type_ids", "attention_mask")}
            | {"start_positions": first if inside else 0, "end_positions": last if inside else 0}
            | {"row": row, "spans": spans}
        )
    return features


def predictions(job: Row, logits: Any, features: list[Row], rows: list[Row], names: list[str]) -> list[Any]:
    """One an example: a label, a number, tags, or a text."""
    if job["kind"] == "qa":
        return best_answers(logits, features, rows)
    if job["kind"] == "regression":
        return [float(value) for value in np.asarray(logits).reshape(-1)]
    chosen = np.asarray(logits).argmax(-1)
    if job["kind"] not in WORDS:
        return [names[label] for label in chosen]
    said = []
    for line, feature, row in zip(chosen, features, rows, strict=True):
        tags = [names[line[i]] for i, label in enumerate(feature["labels"]) if label != -100]
        said.append(tags + ["O"] * (len(row["tags"]) - len(tags)))  # words that were cut off
    return said


def best_answers(logits: Any, features: list[Row], rows: list[Row]) -> list[str]:
    starts, ends = logits
    best: list[tuple[float, str]] = [(float("-inf"), "")] * len(rows)
    for start, end, feature in zip(starts, ends, features, strict=True):
        spans, context = feature["spans"], rows[feature["row"]]["context"]
        for i in np.argsort(start)[::-1][:BEST]:
            for j in np.argsort(end)[::-1][:BEST]:
                inside = i <= j < min(i + LONGEST, len(spans)) and spans[i] and spans[j]
                if inside and start[i] + end[j] > best[feature["row"]][0]:
                    best[feature["row"]] = (float(start[i] + end[j]), context[spans[i][0] : spans[j][1]])
    return [text for _, text in best]


def score(job: Row, said: list[Any], rows: list[Row]) -> float:
    if job["kind"] == "qa":
        from bertctl.metrics.span import answer_scores  # SQuAD's rules, tested against the published scripts' values

        pairs = [([answer["text"] for answer in row["answers"]], text) for row, text in zip(rows, said, strict=True)]
        return float(np.mean([answer_scores(text, gold, "1.1")[1] for gold, text in pairs]))
    if job["kind"] == "regression":
        from scipy.stats import pearsonr

        return float(pearsonr(said, [row["score"] for row in rows]).statistic)
    if job["kind"] == "ner":
        from seqeval.metrics import f1_score
        from seqeval.scheme import IOB2

        return float(f1_score([row["tags"] for row in rows], said, mode="strict", scheme=IOB2))
    from sklearn.metrics import accuracy_score

    if job["kind"] == "pos":
        return float(
            accuracy_score([tag for row in rows for tag in row["tags"]], [tag for tags in said for tag in tags])
        )
    return float(accuracy_score([row["label"] for row in rows], said))


def build(job: Row, names: list[str]) -> Any:
    import transformers

    kinds = {"ner": "TokenClassification", "pos": "TokenClassification", "qa": "QuestionAnswering"}
    maker = getattr(transformers, f"AutoModelFor{kinds.get(job['kind'], 'SequenceClassification')}")
    if job["kind"] == "qa":
        return maker.from_pretrained(job["model"])
    kind = (
        {"problem_type": "regression", "num_labels": 1} if job["kind"] == "regression" else {"num_labels": len(names)}
    )
    return maker.from_pretrained(job["model"], **kind)


def arguments(job: Row, steps: int) -> Any:
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=job["out"],
        per_device_train_batch_size=job["batch_size"],
        per_device_eval_batch_size=2 * job["batch_size"],
        num_train_epochs=job["epochs"],
        learning_rate=job["lr"],
        weight_decay=0.01,
        adam_epsilon=1e-6,
        optim="adamw_torch_fused",
        lr_scheduler_type="linear",
        warmup_steps=round(0.1 * steps),
        train_sampling_strategy="group_by_length" if job["by_length"] else "random",
        eval_strategy="epoch",
        save_strategy="epoch",
        save_only_model=True,
        load_best_model_at_end=True,
        metric_for_best_model="score",
        greater_is_better=True,
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=job["seed"],
    )


def run(job: Row) -> Row:
    """{"value", "seconds", "cpu_seconds"}."""
    import transformers
    from torch.utils.data import SequentialSampler

    began, busy = time.perf_counter(), time.process_time()
    transformers.set_seed(job["seed"])  # of the new head, before Trainer sets it again
    tok = transformers.AutoTokenizer.from_pretrained(job["model"])
    tok.model_max_length = job["max_length"]
    splits = {split: read(job, split) for split in ("train", "dev", "test")}
    train = splits["train"]
    labels = (
        {tag for row in train for tag in row["tags"]} if job["kind"] in WORDS else {row.get("label") for row in train}
    )
    names = [] if job["kind"] in ("qa", "regression") else sorted(labels)
    features = {split: encode(job, rows, names, tok) for split, rows in splits.items()}
    kept = ("input_ids", "token_type_ids", "attention_mask", "labels", "start_positions", "end_positions")
    inputs = {split: [{k: v for k, v in f.items() if k in kept} for f in found] for split, found in features.items()}
    collators = {"ner": "DataCollatorForTokenClassification", "pos": "DataCollatorForTokenClassification"}
    collator = getattr(transformers, collators.get(job["kind"], "DataCollatorWithPadding"))(tok, pad_to_multiple_of=8)

    def judged(found: Any) -> dict[str, float]:
        said = predictions(job, found.predictions, features["dev"], splits["dev"], names)
        return {"score": score(job, said, splits["dev"])}

    trainer = transformers.Trainer(
        model=build(job, names),
        args=arguments(job, job["epochs"] * -(-len(inputs["train"]) // job["batch_size"])),
        train_dataset=inputs["train"],
        eval_dataset=inputs["dev"],
        data_collator=collator,
        compute_metrics=judged,
    )
    # by length, the Trainer would also predict in an order of its own, and scores would compare other rows' labels
    trainer._get_eval_sampler = SequentialSampler
    trainer.train()
    trainer.compute_metrics = None  # test is judged below
    logits = trainer.predict(inputs["test"]).predictions
    said = predictions(job, logits, features["test"], splits["test"], names)
    value = score(job, said, splits["test"])
    return {"value": value, "seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - busy}


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
