"""Escapes output, so that names and messages from servers and files cannot control the terminal.

All output passes `visible`: `print` through the streams that `guard_streams` installs, and rich through
`pgdyno.console`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO

_STEERING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)"  # control characters, including the second table of ISO 6429
    "|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # Unicode's controls of the reading direction
    "|[\u2028\u2029\ud800-\udfff]"  # line breaks that only some programs recognise, and surrogates
)


def visible(text: str) -> str:
    """Replaces each character that controls a terminal or the reading direction by U+FFFD."""
    return _STEERING.sub("\N{REPLACEMENT CHARACTER}", text)


class _Guarded:
    """A text stream whose writes pass `visible`."""

    def __init__(self, stream: TextIO) -> None:
        # rich looks for this name to find the underlying stream, to which it writes colours
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for each in lines:
            self.write(each)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a stream has
        # click would write its messages there, unguarded, if the encoding is ASCII
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.rich_proxied_file, name)


def guard_streams() -> None:
    """Makes standard output and error write `visible` text, and escape characters that their encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or isinstance(stream, _Guarded):
            continue
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, _Guarded(stream))


def print_utf8(pieces: Iterable[bytes]) -> None:
    """Writes text as UTF-8 whatever the terminal's encoding, through `visible`."""
    sys.stdout.flush()
    binary = getattr(sys.stdout, "rich_proxied_file", sys.stdout).buffer
    for each in pieces:
        binary.write(visible(each.decode()).encode())
    binary.flush()
