"""The memory of a capture does not grow with the log, whatever its format."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.unit.capture_log_sample import Entry, csvlog, done, jsonlog, stderr

ROOT = Path(__file__).parents[2]
WRITERS: dict[str, Callable[[Sequence[Entry]], str]] = {
    "csvlog": csvlog,
    "jsonlog": jsonlog,
    "stderr": lambda entries: stderr(entries, "{stamp} [{pid}] {user}@{database} "),
}
_CAPTURE = """
import re, sys
from pathlib import Path
from pgdyno.capture.logs.capture_logs import capture_logs
from tests.unit.capture_log_sample import KEPT
print(capture_logs([Path(sys.argv[1])], Path(sys.argv[2]), KEPT).calls)
# ru_maxrss would start at the size of the process that started this one
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""
STATEMENTS, TEXT = 1_000, 4_000
"""Statements of a piece of the log, and characters of each: a piece has 4 MB."""


def piece(number: int) -> list[Entry]:
    """Statements with texts of their own: what DuckDB holds of them cannot be a text that repeats."""
    places = range(number * STATEMENTS, (number + 1) * STATEMENTS)
    return [
        done(f"SELECT '{place:x>{TEXT}}'", pid=100 + place % 8, vxid=f"{place % 8}/0", ms=place) for place in places
    ]


# what DuckDB takes for a log of lines scatters by 50 MB, so a longer one must show that it does not grow
@pytest.mark.long
@pytest.mark.parametrize(("form", "longer"), [("csvlog", 48), ("jsonlog", 48), ("stderr", 112)])
def test_memory_does_not_grow_with_the_log(form: str, longer: int, tmp_path: Path) -> None:
    def peak_kb(pieces: int) -> int:
        log = tmp_path / f"{pieces}.log"
        with log.open("w") as file:
            for number in range(pieces):
                file.write(WRITERS[form](piece(number)))
        command = [sys.executable, "-c", _CAPTURE, str(log), str(tmp_path / str(pieces))]
        out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        log.unlink()
        assert int(out[0]) == pieces * STATEMENTS
        return int(out[1])

    # a block of the log has 16 MB
    few, many = peak_kb(16), peak_kb(longer)
    assert many - few < 0.7 * 4_000 * (longer - 16)
