"""The same work done by peers, with their best settings: transformers' Trainer and pipeline, sentence-transformers,
tokenizers and datasets."""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from shared import (
    BATCH,
    DROPOUT,
    SIZES,
    TOKENS,
    WARM_UP,
    Marks,
    bf16,
    helped,
    labelled,
    lines,
    places,
    run,
    tokens_a_step,
)


def arguments(out: str, **more: Any) -> Any:
    """Trainer's arguments without anything that costs time: no log, no checkpoint, no report."""
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=out,
        per_device_train_batch_size=BATCH,
        use_cpu=True,
        bf16=bf16(),
        optim="adamw_torch_fused",
        learning_rate=1e-4,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        seed=0,
        **more,
    )


def marked(marks: Marks) -> Any:
    from transformers import TrainerCallback

    class Mark(TrainerCallback):
        def on_step_end(self, *positional: Any, **named: Any) -> None:
            marks.mark()

    return Mark()


def tokenizer(work: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(work / "tiny")


def trainer_pretrain(options: dict[str, Any], work: Path) -> dict[str, Any]:
    """Trainer with its collator for masked language modelling on the same packed rows."""
    import numpy as np
    from transformers import BertConfig, BertForMaskedLM, DataCollatorForLanguageModeling, Trainer

    from bertctl.artifacts.shards import TokenShards

    tok, marks, steps = tokenizer(work), Marks(), WARM_UP + options["steps"]
    shard = TokenShards(work / "tokenize").shards[0].tokens
    rows = [
        {"input_ids": [tok.cls_token_id, *np.asarray(shard[a:b]).tolist(), tok.sep_token_id]} for a, b in places(work)
    ]
    layers, width, heads = SIZES[options["size"]]
    config = BertConfig(
        vocab_size=len(tok),
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        hidden_dropout_prob=DROPOUT,
        attention_probs_dropout_prob=DROPOUT,
    )
    with tempfile.TemporaryDirectory() as out:
        Trainer(
            model=BertForMaskedLM(config),
            args=arguments(out, max_steps=steps),
            train_dataset=rows,
            data_collator=DataCollatorForLanguageModeling(tok, mlm_probability=0.15, pad_to_multiple_of=8),
            callbacks=[marked(marks)],
        ).train()
    return {"rate": marks.rate(tokens_a_step(work), WARM_UP, steps), "unit": "tokens/s"}


def trainer_finetune(options: dict[str, Any], work: Path, **more: Any) -> dict[str, Any]:
    from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding, Trainer

    rows = labelled(work)
    names, tok, marks = sorted({row["label"] for row in rows}), tokenizer(work), Marks()
    data = [
        {**tok(row["text"], truncation=True, max_length=TOKENS), "labels": names.index(row["label"])} for row in rows
    ]
    epoch = len(rows) // BATCH
    model = AutoModelForSequenceClassification.from_pretrained(work / options["size"], num_labels=len(names))
    with tempfile.TemporaryDirectory() as out:
        Trainer(
            model=model,
            args=arguments(out, num_train_epochs=2, **more),
            train_dataset=data,
            data_collator=DataCollatorWithPadding(tok, pad_to_multiple_of=8),
            callbacks=[marked(marks)],
        ).train()
    return {"rate": marks.rate(BATCH, epoch, 2 * epoch), "unit": "examples/s"}


def trainer_padded(options: dict[str, Any], work: Path) -> dict[str, Any]:
    """Random batches, each padded to its longest."""
    return trainer_finetune(options, work)


def trainer_grouped(options: dict[str, Any], work: Path) -> dict[str, Any]:
    """Batches of like length."""
    return trainer_finetune(options, work, train_sampling_strategy="group_by_length")


def pipeline_label(options: dict[str, Any], work: Path) -> dict[str, Any]:
    from transformers import pipeline

    texts = lines(work / f"{options['order']}.txt")
    ask = pipeline("text-classification", model=str(work / "classifier"), device="cpu", top_k=None)
    began = time.perf_counter()
    answers = sum(1 for _ in ask(texts, batch_size=BATCH, truncation=True, max_length=TOKENS))
    return {"rate": answers / (time.perf_counter() - began), "unit": "texts/s"}


def sentence_transformers_embed(options: dict[str, Any], work: Path) -> dict[str, Any]:
    from ours import minilm
    from sentence_transformers import SentenceTransformer

    texts = lines(work / f"{options['order']}.txt")
    model = SentenceTransformer(str(minilm()), device="cpu")
    model.max_seq_length = TOKENS
    began = time.perf_counter()
    vectors = model.encode(texts, batch_size=BATCH, show_progress_bar=False)
    return {"rate": len(vectors) / (time.perf_counter() - began), "unit": "texts/s"}


def documents(work: Path) -> list[str]:
    return [json.loads(line)["text"] for line in lines(work / "corpus.jsonl")]


def tokenizers_raw(options: dict[str, Any], work: Path) -> dict[str, Any]:
    """The library alone, on texts in memory, nothing written: the limit."""
    from tokenizers import Tokenizer

    tok, texts = Tokenizer.from_file(str(work / "tiny" / "tokenizer.json")), documents(work)
    tok.no_padding()
    tok.no_truncation()
    began = time.perf_counter()
    for start in range(0, len(texts), 1000):
        tok.encode_batch(texts[start : start + 1000], add_special_tokens=False)
    return {"rate": (work / "corpus.jsonl").stat().st_size / 1e6 / (time.perf_counter() - began), "unit": "MB/s"}


def datasets_map(options: dict[str, Any], work: Path) -> dict[str, Any]:
    """What tutorials do: load the file, map the tokenizer over batches, save."""
    import datasets

    tok = tokenizer(work)
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        data = datasets.load_dataset("json", data_files=str(work / "corpus.jsonl"), split="train", cache_dir=out)
        data = data.map(lambda rows: tok(rows["text"], add_special_tokens=False), batched=True, remove_columns=["text"])
        data.save_to_disk(f"{out}/tokens")
        seconds = time.perf_counter() - began
    return {"rate": (work / "corpus.jsonl").stat().st_size / 1e6 / seconds, "unit": "MB/s"}


def datasets_group(options: dict[str, Any], work: Path) -> dict[str, Any]:
    """What examples of masked language modelling do with tokens: join those of a thousand documents, cut them into
    rows, save. The tokens are there when the clock starts."""
    from itertools import chain

    import datasets

    tok = tokenizer(work)
    datasets.disable_progress_bars()

    def grouped(rows: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        joined = {name: list(chain.from_iterable(column)) for name, column in rows.items()}
        total = len(joined["input_ids"]) // TOKENS * TOKENS
        return {name: [ids[i : i + TOKENS] for i in range(0, total, TOKENS)] for name, ids in joined.items()}

    with tempfile.TemporaryDirectory() as out:
        data = datasets.load_dataset("json", data_files=str(work / "corpus.jsonl"), split="train", cache_dir=out)
        data = data.map(
            lambda rows: tok(rows["text"], return_special_tokens_mask=True), batched=True, remove_columns=["text"]
        )
        tokens = sum(map(len, data["input_ids"]))
        began = time.perf_counter()
        data.map(grouped, batched=True).save_to_disk(f"{out}/rows")
        seconds = time.perf_counter() - began
    return {"rate": tokens / 1e6 / seconds, "unit": "M tokens/s"}


def transformers_start_up(options: dict[str, Any], work: Path) -> dict[str, Any]:
    return helped([str(Path(sys.executable).with_name("transformers")), "--help"])


if __name__ == "__main__":
    functions = (trainer_pretrain, trainer_padded, trainer_grouped, pipeline_label, sentence_transformers_embed)
    functions += (tokenizers_raw, datasets_map, datasets_group, transformers_start_up)
    run({f.__name__: f for f in functions})
