"""`python -m bertctl`, which torchrun needs."""

from bertctl.cli.app import main

if __name__ == "__main__":
    main()
