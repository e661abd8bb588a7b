"""The command `bertctl`, and `python -m bertctl`, which torchrun needs."""

import sys

from bertctl import memory


def main() -> None:
    """Load the command line and run it; a Ctrl-C while it loads ends without a traceback, as later."""
    try:
        memory.settle(sys.argv[1:])
        from bertctl.cli import app
    except KeyboardInterrupt:
        print("bertctl: stopped by SIGINT", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    app.main()


if __name__ == "__main__":
    main()
