"""The side of transformers' Trainer in time_to_quality.py: masked language modelling as its examples do it.

Reads a job as JSON on the command line; the last line of its output is the processor time after each step. The model
is then in the job's folder `out`, with the tokenizer, as the Trainer saves it.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

SIZES = {"mini": (4, 256, 4), "small": (4, 512, 8)}
BATCH, TOKENS = 32, 128


def rows(work: Path, tok: Any) -> list[dict[str, list[int]]]:
    """The training rows that the other side reads, each between [CLS] and [SEP]."""
    from bertctl.artifacts.examples import Examples
    from bertctl.artifacts.shards import TokenShards

    columns = Examples(next((work / "pairs").glob("examples-*-train.safetensors"))).columns
    shards = [shard.tokens for shard in TokenShards(work / "tokens").shards]
    places = zip(*(columns[name].tolist() for name in ("a_shard", "a_start", "a_stop")), strict=True)
    return [{"input_ids": [tok.cls_token_id, *shards[n][a:b].tolist(), tok.sep_token_id]} for n, a, b in places]


def model(job: dict[str, Any], vocab_size: int) -> Any:
    """A BERT of the job's size, with the library's own dropout and initial weights."""
    from transformers import BertConfig, BertForMaskedLM

    layers, width, heads = SIZES[job["size"]]
    config = BertConfig(
        vocab_size=vocab_size,
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=TOKENS,
    )
    return BertForMaskedLM(config)


def arguments(job: dict[str, Any]) -> Any:
    """No log, no checkpoint, no report: only training is timed. Batches of like length, as the other side's."""
    from transformers import TrainingArguments

    from bertctl.training.runtime import start

    with start("auto") as runtime:
        bf16 = str(runtime.dtype) == "torch.bfloat16"
    return TrainingArguments(
        output_dir=job["out"],
        per_device_train_batch_size=BATCH,
        max_steps=job["steps"],
        learning_rate=job["rate"],
        weight_decay=0.01,
        lr_scheduler_type="linear",
        warmup_steps=round(0.1 * job["steps"]),
        train_sampling_strategy="group_by_length",
        optim="adamw_torch_fused",
        use_cpu=True,
        bf16=bf16,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        seed=1,
    )


def run(job: dict[str, Any]) -> list[float]:
    """Processor seconds from the first batch to the end of each step."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.set_seed(1)  # of the weights, before the Trainer sets it again
    tok = transformers.AutoTokenizer.from_pretrained(Path(job["work"]) / "tokens")
    times: list[float] = []

    class Marks(transformers.TrainerCallback):
        def on_train_begin(self, *positional: Any, **named: Any) -> None:
            self.began = time.process_time()

        def on_step_end(self, *positional: Any, **named: Any) -> None:
            times.append(time.process_time() - self.began)

    trainer = transformers.Trainer(
        model=model(job, len(tok)),
        args=arguments(job),
        train_dataset=rows(Path(job["work"]), tok),
        data_collator=transformers.DataCollatorForLanguageModeling(tok, mlm_probability=0.15, pad_to_multiple_of=8),
        callbacks=[Marks()],
    )
    trainer.train()
    trainer.save_model()
    tok.save_pretrained(job["out"])
    return times


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
