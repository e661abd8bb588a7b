"""Time of a training step with the padding of its batch left out, in ratio to the same step with it.

    python benchmarks/padding.py [--size mini|minilm] [--dtype bf16|float32] [--texts FILE] [--batches 8] [--repeats 5]

Batches of 32 texts, forward and backward of the encoder and a loss of the first tokens, dropout 0.1, one thread, the
two kinds of step in turn, processor time, medians. First texts of one length with a given share of padding, then (with
--texts, one a line) real ones in random order and in the batches of like length that fine-tuning makes.
`encoder/unpadding.py` chooses by these numbers.
"""

import argparse
import statistics
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch

from bertctl.encoder import unpadding
from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.encoder import Encoder
from bertctl.training.batching import bucketed_epoch

BATCH, VOCABULARY, MULTIPLE = 32, 30522, 8
SIZES = {"mini": (4, 256, 4), "minilm": (6, 384, 12)}


def encoder(size):
    layers, width, heads = SIZES[size]
    sizes = {"num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": 4 * width}
    return Encoder(EncoderConfig(vocab_size=VOCABULARY, hidden_size=width, **sizes)).train()


def seconds(model, mask, dtype, *, padded):
    unpadding.LEAST_PADDING = 1.0 if padded else 0.0
    ids = torch.randint(5, VOCABULARY, mask.shape)
    began = time.process_time()
    with torch.autocast("cpu", dtype) if dtype == torch.bfloat16 else nullcontext():
        model(ids, mask).last_hidden_state[:, 0].float().square().sum().backward()
    took = time.process_time() - began
    model.zero_grad(set_to_none=True)
    return took


def compare(name, model, masks, dtype, repeats):
    """Both kinds of step in turn over all masks; prints the medians."""
    times = {False: [], True: []}
    for mask in masks:
        for _ in range(repeats):
            for padded in times:
                times[padded].append(seconds(model, mask, dtype, padded=padded))
    without, with_it = (statistics.median(times[padded]) for padded in (False, True))
    share = 1 - sum(mask.sum().item() for mask in masks) / sum(mask.numel() for mask in masks)
    print(
        f"{name:>24}  padding {share:5.1%}  padded {with_it * 1e3:7.1f} ms  left out {without * 1e3:7.1f} ms"
        f"  x{statistics.median(a / b for a, b in zip(times[False], times[True], strict=True)):.2f}",
        flush=True,
    )


def mask_of(lengths):
    width = -(-max(lengths) // MULTIPLE) * MULTIPLE
    return torch.arange(width) < torch.as_tensor(lengths)[:, None]


def with_share(tokens, share):
    """Texts of `tokens`, the last ones shorter until `share` of all places are padding."""
    missing, lengths = round(BATCH * tokens * share), [tokens] * BATCH
    for place in range(missing):
        lengths[-1 - place % (BATCH - 1)] -= 1
    return mask_of(lengths)


def real_batches(path, count):
    """Lengths as a WordPiece vocabulary of this size gives them: about 1.2 pieces a word, and two more."""
    words = [len(line.split()) for line in path.read_text(encoding="utf-8").splitlines()]
    lengths = np.array([round(1.2 * n) + 2 for n in words if n], dtype=np.int64).clip(max=512)
    order = np.random.default_rng(0).permutation(len(lengths))
    shuffled = [order[begin : begin + BATCH] for begin in range(0, count * BATCH, BATCH)]
    like = [ids for ids in bucketed_epoch(lengths, BATCH, seed=0, epoch=0) if len(ids) == BATCH][:count]
    return {"random order": shuffled, "like lengths": like}, lengths


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="mini")
    parser.add_argument("--dtype", choices=("bf16", "float32"), default="bf16")
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32
    model = encoder(options.size)
    seconds(model, with_share(32, 0.1), dtype, padded=False)
    for tokens in (16, 32, 128):
        for share in (0.01, 0.02, 0.05, 0.1, 0.3):
            masks = [with_share(tokens, share)]
            compare(f"{tokens} tokens", model, masks, dtype, 3 * options.repeats)
    if options.texts:
        orders, lengths = real_batches(options.texts, options.batches)
        for name, batches in orders.items():
            masks = [mask_of(lengths[ids]) for ids in batches]
            compare(name, model, masks, dtype, options.repeats)


if __name__ == "__main__":
    main()
