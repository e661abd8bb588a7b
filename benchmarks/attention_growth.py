"""Time and memory of one attention layer against the length of the text: full, local and linear; prints the growth.

    python benchmarks/attention_growth.py [--longest 8192] [--dtype float32|bf16] [--repeats 5] [--threads 1]

Forward and backward of one text of 12 heads of 64, the kernel that `choose_kernel` names, no padding. Time is that of
the processor, so that a busy machine disturbs it less; the least of the repeats. Memory is what the process grew by at
its peak, measured in a process of its own. The short form is `--longest 1024 --repeats 1`. To leave out the time in
which the system hands out fresh pages, set GLIBC_TUNABLES as bertctl/memory.py does.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import torch

from bertctl.encoder.kernels import KERNELS, choose_kernel
from bertctl.encoder.patterns import Pattern
from bertctl.encoder.scope import Scope

HEADS, HEAD_SIZE = 12, 64
PATTERNS = {kind: Pattern(kind) for kind in ("full", "local", "local_global", "linear", "causal_linear")}


def seconds(kind, tokens, dtype):
    pattern = PATTERNS[kind]
    kernel = KERNELS[choose_kernel("cpu", dtype, tokens, pattern)]
    q, k, v = (torch.randn(1, HEADS, tokens, HEAD_SIZE, dtype=dtype, requires_grad=True) for _ in range(3))
    mask = torch.ones(1, tokens, dtype=torch.bool)
    began = time.process_time()
    kernel(q, k, v, Scope(mask, pattern)).float().sum().backward()
    return time.process_time() - began


def peak_mib():
    """Most memory this process has had, from Linux."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def grown_mib(kind, tokens, dtype):
    """Peak memory of one forward and backward in a fresh process, above what was there before."""
    program = (
        "import torch; from benchmarks.attention_growth import peak_mib, seconds\n"
        f"seconds({kind!r}, 64, {dtype}); before = peak_mib()\n"
        f"seconds({kind!r}, {tokens}, {dtype}); print(peak_mib() - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--longest", type=int, default=8192)
    parser.add_argument("--dtype", choices=("float32", "bf16"), default="float32")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32
    print(f"{options.dtype}, {options.threads} threads, {HEADS} heads of {HEAD_SIZE}, window of 128 tokens")
    for kind in PATTERNS:
        before = None
        for tokens in (2**n for n in range(7, options.longest.bit_length())):
            seconds(kind, tokens, dtype)
            now = min(seconds(kind, tokens, dtype) for _ in range(options.repeats))
            growth = "" if before is None else f"  x{now / before:4.2f}"
            memory = grown_mib(kind, tokens, dtype)
            print(f"{kind:13s} {tokens:5d} tokens {now * 1e3:9.1f} ms{growth:7s} {memory:8.0f} MiB", flush=True)
            before = now


if __name__ == "__main__":
    main()
