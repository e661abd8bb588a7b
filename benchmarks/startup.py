"""How long a command takes before it does anything: median of 11 fresh processes, in ms. Limit: 500 ms each on 2 cores.

.venv/bin/python benchmarks/startup.py
"""

import statistics
import subprocess
import sys
import time

REPEATS = 11
COMMANDS = (
    ["--help"],
    ["pretrain", "--help"],
    ["recipes"],
    ["pretrain", "recipes/base.yaml", "--dry-run"],
)


def main() -> None:
    """Print one line a command."""
    for arguments in ([], *COMMANDS):
        command = [sys.executable, "-m", "bertctl", *arguments] if arguments else [sys.executable, "-c", "pass"]
        seconds = []
        for _ in range(REPEATS):
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds.append(time.perf_counter() - began)
        name = " ".join(["bertctl", *arguments]) if arguments else "python -c pass"
        print(f"{name:<45} {1000 * statistics.median(seconds):6.0f} ms  (fastest {1000 * min(seconds):.0f})")


if __name__ == "__main__":
    main()
