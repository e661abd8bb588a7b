"""metrics.jsonl: one JSON object a line, appended while a run trains, cut back when it is resumed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from bertctl.artifacts.folder import environment_faults, write_whole


class MetricsLog:
    """The file, opened with the first line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one JSON object. Errors: EnvironmentFault."""
        with environment_faults(self.path):
            self._file = self._file or self.path.open("a", encoding="utf-8")
            self._file.write(json.dumps(line, allow_nan=False) + "\n")
            self._file.flush()

    def cut(self, step: int | None) -> None:
        """Keep the lines up to `step`; none if there is no checkpoint. A last line torn by a crash goes too."""
        if not self.path.exists():
            return
        text = self.path.read_text(encoding="utf-8", errors="replace")
        kept = []
        for line in text.splitlines(keepends=True):
            if step is None or not line.endswith("\n") or not _is_by(line, step):
                break
            kept.append(line)
        if "".join(kept) != text:
            write_whole(self.path, "".join(kept))

    def close(self) -> None:
        """Close the file, if it was opened."""
        if self._file is not None:
            self._file.close()


def _is_by(line: str, step: int) -> bool:
    try:
        return bool(json.loads(line).get("step", 0) <= step)
    except (ValueError, AttributeError, TypeError):
        return False
