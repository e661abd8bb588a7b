"""Forward and backward time of each attention kernel by sequence length, interleaved A B A B; prints each
in ratio to the first.

    python benchmarks/attention_kernels.py [--dtype bf16|float32] [--kind full|causal|local] [--repeats 7]

`encoder/kernels.py` chooses by these numbers.
"""

import argparse
import statistics
import time

import torch

from bertctl.encoder.kernels import KERNELS, KERNELS_OF
from bertctl.encoder.patterns import Pattern
from bertctl.encoder.scope import Scope

HEADS, HEAD_SIZE, TOKENS_A_BATCH = 4, 64, 8192


def seconds(kernel, pattern, tokens, dtype):
    batch = TOKENS_A_BATCH // tokens
    q, k, v = (torch.randn(batch, HEADS, tokens, HEAD_SIZE, dtype=dtype, requires_grad=True) for _ in range(3))
    mask = torch.arange(tokens)[None] < torch.randint(tokens // 2, tokens + 1, (batch, 1))
    began = time.perf_counter()
    KERNELS[kernel](q, k, v, Scope(mask, pattern)).float().sum().backward()
    return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", choices=("bf16", "float32"), default="bf16")
    parser.add_argument("--kind", choices=("full", "causal", "local"), default="full")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32
    print(f"{options.dtype}, {torch.get_num_threads()} threads, {TOKENS_A_BATCH} tokens, {HEADS} heads of {HEAD_SIZE}")
    for tokens in (32, 64, 128, 256, 512, 1024, 2048):
        times = {name: [] for name in KERNELS_OF[options.kind]}
        for _ in range(options.repeats + 1):
            for name in times:
                times[name].append(seconds(name, Pattern(options.kind), tokens, dtype))
        medians = {name: statistics.median(values[1:]) for name, values in times.items()}
        first = medians["explicit"]
        shown = "  ".join(f"{name} {now * 1e3:8.1f} ms (x{now / first:.2f})" for name, now in medians.items())
        print(f"{tokens:5d} tokens  {shown}", flush=True)


if __name__ == "__main__":
    main()
