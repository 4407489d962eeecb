"""What `pgdyno show` prints of a run, kept in its folder: printing it again needs no tables, numpy or DuckDB.

It is valid for the version of pgdyno that wrote it and for the same records; otherwise the report is computed again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Span, Text

from pgdyno import __version__
from pgdyno.errors import StoreError
from pgdyno.report.terminal.text_drawing import UNLIMITED
from pgdyno.store.safe_files import parse_json, read_record, replace_durably, store_errors

if TYPE_CHECKING:
    from rich.console import Console

FILE = "summary.json"


@dataclass(frozen=True, slots=True)
class Layout:
    width: int | None = None
    """None: a file or a pipe, whose lines have no limit."""
    unicode: bool = True

    @property
    def room(self) -> int:
        return self.width or UNLIMITED

    @property
    def pictures(self) -> bool:
        return self.width is not None and self.unicode

    @classmethod
    def for_console(cls, console: Console) -> Layout:
        encoding = console.encoding.lower().replace("-", "")
        return cls(console.width if console.is_terminal else None, encoding.startswith("utf"))


def print_lines(lines: Iterable[Text], console: Console) -> None:
    for line in lines:
        console.print(line, soft_wrap=True, no_wrap=True, highlight=False)


def write_summary(run: Path, layouts: Mapping[Layout, Sequence[Text]]) -> None:
    """Keep the lines of each layout in the run folder `run`. Raises StoreError."""
    found = {"version": __version__, "records": _digest(run), "layouts": {}}
    found["layouts"] = {str(of): [_as_json(line) for line in lines] for of, lines in layouts.items()}
    with store_errors("write", run / FILE):
        replace_durably(run / FILE, json.dumps(found, ensure_ascii=False).encode())


def read_summary(run: Path, layout: Layout) -> list[Text] | None:
    """Return the lines of `layout`; None if the folder `run` has none that are valid."""
    try:
        found = parse_json(read_record(run / FILE))
        if (found["version"], found["records"]) != (__version__, _digest(run)):
            return None
        return [_text(line) for line in found["layouts"][str(layout)]]
    except (StoreError, OSError, ValueError, KeyError, TypeError):
        # the records themselves are read next, with errors that say what is wrong
        return None


def _digest(run: Path) -> str:
    """Return the SHA-256 of the records, with the names and sizes of all other files that the report reads."""
    found = hashlib.sha256(read_record(run / "manifest.json"))
    for trial in sorted((run / "trials").iterdir()):
        found.update(read_record(trial / "trial.json"))
        sizes = sorted((each.name, each.lstat().st_size) for each in trial.iterdir())
        found.update(repr((trial.name, sizes)).encode())
    return found.hexdigest()


def _as_json(line: Text) -> list[Any]:
    return [line.plain, str(line.style), *([span.start, span.end, str(span.style)] for span in line.spans)]


def _text(line: Sequence[Any]) -> Text:
    plain, style, *spans = line
    return Text(str(plain), str(style), spans=[Span(int(start), int(end), str(of)) for start, end, of in spans])
