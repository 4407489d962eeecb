"""The way out of the process: names and messages come from servers and files, and none of them steers a terminal.

Everything that pgdyno prints passes `visible`: what `print` writes in the streams that `guard_streams` puts in place,
and what rich draws in `pgdyno.console`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO

_STEERING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)"  # control characters, those of ISO 6429's second table, too
    "|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # the order of what is read: Unicode's bidirectional controls
    "|[\u2028\u2029\ud800-\udfff]"  # line breaks that only some programs see, and halves of characters
)


def visible(text: str) -> str:
    """`text` with U+FFFD for each character that steers a terminal or turns the direction of reading."""
    return _STEERING.sub("\N{REPLACEMENT CHARACTER}", text)


class _Guarded:
    """A stream of text whose writes are `visible`; all else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        # the name by which rich finds the stream below, to which it writes its colours
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for each in lines:
            self.write(each)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a stream has
        # click writes its messages into that, past us, where the encoding is ASCII
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.rich_proxied_file, name)


def guard_streams() -> None:
    """Standard output and error write `visible` text from here on, and escape what their encoding does not have."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or isinstance(stream, _Guarded):
            continue
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, _Guarded(stream))


def print_utf8(pieces: Iterable[bytes]) -> None:
    """Writes text that is UTF-8 whatever the terminal's encoding, `visible` too."""
    sys.stdout.flush()
    binary = getattr(sys.stdout, "rich_proxied_file", sys.stdout).buffer
    for each in pieces:
        binary.write(visible(each.decode()).encode())
    binary.flush()
