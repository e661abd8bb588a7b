"""Forward and backward time of each attention kernel by sequence length, interleaved A B A B; prints the ratio.

    python benchmarks/attention_kernels.py [--dtype bf16|float32] [--repeats 7]

`encoder/kernels.py` chooses by these numbers.
"""

import argparse
import statistics
import time

import torch

from bertctl.encoder.kernels import KERNELS

HEADS, HEAD_SIZE, TOKENS_A_BATCH = 4, 64, 8192


def seconds(kernel, tokens, dtype):
    batch = TOKENS_A_BATCH // tokens
    q, k, v = (torch.randn(batch, HEADS, tokens, HEAD_SIZE, dtype=dtype, requires_grad=True) for _ in range(3))
    mask = torch.arange(tokens)[None] < torch.randint(tokens // 2, tokens + 1, (batch, 1))
    began = time.perf_counter()
    KERNELS[kernel](q, k, v, mask, None, 0.0).float().sum().backward()
    return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", choices=("bf16", "float32"), default="bf16")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32
    print(f"{options.dtype}, {torch.get_num_threads()} threads, {TOKENS_A_BATCH} tokens, {HEADS} heads of {HEAD_SIZE}")
    for tokens in (32, 64, 128, 256, 512, 1024, 2048):
        times = {name: [] for name in KERNELS}
        for _ in range(options.repeats + 1):
            for name in KERNELS:
                times[name].append(seconds(name, tokens, dtype))
        medians = {name: statistics.median(values[1:]) for name, values in times.items()}
        ratio = medians["fused"] / medians["explicit"]
        shown = "  ".join(f"{name} {value * 1e3:8.1f} ms" for name, value in medians.items())
        print(f"{tokens:5d} tokens  {shown}  fused/explicit {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
