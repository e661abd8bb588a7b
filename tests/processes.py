"""What the system says of processes."""


def children_of(pid: int) -> list[str]:
    """Those that the first thread of a process has started and that are not gone."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return file.read().split()
