"""The console for commands: rich without markup. Only this module creates a rich console; a test checks that."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

from rich import console as rich_console
from rich.cells import cell_len
from rich.segment import Segment
from rich.text import Text

from pgdyno.safe_output import UNLIMITED, output_errors, visible

if TYPE_CHECKING:
    from rich.status import Status
    from rich.table import Table


class Console(rich_console.Console):
    """rich's console without markup, emoji and highlighting; text passes `visible`, and rich's own styles stay."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        super().__init__(stderr=stderr, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)

    @property
    def room(self) -> int:
        """Return the width for prose: the terminal's; a file or a pipe has no lines to fit into."""
        return self.width if self.is_terminal else UNLIMITED

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 - rich's own options
        """Print as rich does, but wraps no text in a file or a pipe, and with `soft_wrap` by words in a terminal.

        With `no_wrap`, the lines stay as they are.
        """
        if not self.is_terminal and all(isinstance(each, str | Text) for each in objects):
            options.setdefault("soft_wrap", True)
        if self.is_terminal and options.get("soft_wrap", self.soft_wrap) and not options.get("no_wrap"):
            objects = tuple(
                wrap_words(Text(each) if isinstance(each, str) else each, self.width)
                if isinstance(each, str | Text)
                else each
                for each in objects
            )
        super().print(*objects, **options)

    def print_table(self, table: Table) -> None:
        """Print `table` in the terminal's width; to a file or a pipe, each row is one line and no name is broken."""
        if self.is_terminal:
            self.print(table)
            return
        self.width = UNLIMITED
        with self.capture() as captured:
            self.print(table)
        for line in captured.get().splitlines():
            self.print(line.rstrip(), soft_wrap=True)

    @contextmanager
    def page_output(self) -> Iterator[None]:
        """Show what the block prints with the program in PAGER, if it is longer than the terminal.

        PAGER="" or "cat" shows it directly, as do pipes and files.
        """
        pager = shlex.split(os.environ.get("PAGER", "less"))
        if not (self.is_terminal and sys.stdin.isatty()) or self.is_dumb_terminal or pager in ([], ["cat"]):
            yield
            return
        with self.capture() as captured:
            yield
        text = captured.get()
        if text.count("\n") < self.height or not _shown_by(pager, text):
            self.file.write(text)
            self.file.flush()

    @property
    def file(self) -> IO[str]:
        """rich replaces the stream during a live display; its own stream then precedes the guarded one."""
        found = super().file
        while hasattr(found, "rich_proxied_file"):
            found = found.rich_proxied_file
        return found

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def _check_buffer(self) -> None:
        # rich's own code writes to the raw stream, past the guard that reports a full disk
        with output_errors(self.file):
            super()._check_buffer()

    def on_broken_pipe(self) -> None:
        """rich would exit with 1."""
        raise BrokenPipeError

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - rich's own options
        return super().render_str(visible(text), **options)

    def render(
        self, renderable: rich_console.RenderableType, options: rich_console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for each in super().render(renderable, options):
            yield each if each.control else Segment(visible(each.text), each.style)

    def status(self, status: rich_console.RenderableType, **options: Any) -> Status:  # noqa: ANN401 - likewise
        """A status line that does not parse markup."""
        return super().status(Text(status) if isinstance(status, str) else status, **options)


_WORD = re.compile(r"(?<=: )pgdyno (?:ab|capture|compare|list|reap|run|show|target) .*|\S+")
"""A command is one, so that it can be copied."""
_HANGING = 4


def wrap_words(text: Text, width: int) -> Text:
    """Return `text` with its lines broken between words; longer words, such as paths, stay whole."""
    return Text("\n").join(part for line in text.split("\n", allow_blank=True) for part in _wrap_line(line, width))


def _wrap_line(line: Text, width: int) -> Iterator[Text]:
    if line.cell_len <= width:
        yield line
        return
    words = list(_WORD.finditer(line.plain))
    indent, begin, end = Text(), 0, 0
    for word in words:
        if end and cell_len(line.plain[begin : word.end()]) > width - len(indent):
            yield indent + line[begin:end]
            begin = word.start()
            indent = Text(" " * (words[0].start() + _HANGING))
        end = word.end()
    yield indent + line[begin:]


def _shown_by(pager: list[str], text: str) -> bool:
    """Return whether the program `pager` could be started; it may end before it has read all of `text`."""
    environment = {"LESS": "FRX", "LV": "-c"} | os.environ
    try:
        process = subprocess.Popen(pager, stdin=subprocess.PIPE, env=environment, encoding="utf-8", errors="replace")
    except OSError:
        return False
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as stream:
        stream.write(text)
    while True:
        # Ctrl-C belongs to the pager
        with suppress(KeyboardInterrupt):
            process.wait()
            return True
