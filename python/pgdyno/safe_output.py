"""Escapes output, so that names and messages from servers and files cannot control the terminal.

All output passes `visible`: `print` through the streams that `guard_streams` installs, and rich through
`pgdyno.console`.
"""

import atexit
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, TextIO

from pgdyno.errors import ExitCode, StoreError

STANDARD_ERROR = 2
UNLIMITED = 100_000
"""Width of a file or a pipe."""

_STEERING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)"  # control characters, including the second table of ISO 6429
    "|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # Unicode's controls of the reading direction
    "|[\u2028\u2029\ud800-\udfff]"  # line breaks that only some programs recognise, and surrogates
)


def visible(text: str) -> str:
    """Replace each character that controls a terminal or the reading direction by U+FFFD."""
    return _STEERING.sub("\N{REPLACEMENT CHARACTER}", text)


@contextmanager
def output_errors(stream: IO[str]) -> Iterator[None]:
    """End the program with success if the reader of its output, such as `head`, has closed the pipe.

    Raises StoreError if output cannot be written, for instance to a full disk. Nothing that happens to standard error
    ends the program. Libraries would exit with the code of an error.
    """
    try:
        yield
    except OSError as error:
        # the interpreter's last flush must not fail, either
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        if stream.fileno() == STANDARD_ERROR:
            return
        if isinstance(error, BrokenPipeError):
            raise SystemExit(ExitCode.OK) from None
        reason = (error.strerror or str(error)).lower()
        raise StoreError(f"cannot write to standard output: {reason}") from error


def flush_output() -> None:
    """Write what is buffered for standard output. Raises as `output_errors`."""
    if isinstance(sys.stdout, _Guarded):
        sys.stdout.flush()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, _Guarded):
            with suppress(SystemExit, OSError, ValueError, StoreError):
                stream.flush()


class _Guarded:
    """A text stream whose writes pass `visible`."""

    def __init__(self, stream: TextIO) -> None:
        # rich looks for this name to find the underlying stream, to which it writes colours
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        with output_errors(self.rich_proxied_file):
            self.rich_proxied_file.write(visible(text))
        return len(text)

    def flush(self) -> None:
        with output_errors(self.rich_proxied_file):
            self.rich_proxied_file.flush()

    def writelines(self, lines: Iterable[str]) -> None:
        for each in lines:
            self.write(each)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a stream has
        # click would write its messages there, unguarded, if the encoding is ASCII
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.rich_proxied_file, name)


def guard_streams() -> None:
    """Make standard output and error write `visible` text, and escape characters that their encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or isinstance(stream, _Guarded):
            continue
        atexit.register(_flush)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, _Guarded(stream))


def print_lines(lines_in: Callable[[int], Iterable[tuple[str, str | None]]]) -> None:
    """Print lines and their styles, which `lines_in` returns for a width; only a terminal has them, and needs rich."""
    if sys.stdout.isatty() or any(os.environ.get(name) for name in ("FORCE_COLOR", "TTY_COMPATIBLE")):
        from pgdyno.console import Console

        console = Console()
        for text, style in lines_in(console.room):
            console.print(text, style=style, soft_wrap=True)
    else:
        for text, _ in lines_in(UNLIMITED):
            print(text)


def print_data(text: str) -> None:
    """Write JSON or CSV as UTF-8 whatever the terminal's encoding: escapes for other encodings are no JSON."""
    print_utf8([text.encode()])


def print_json(value: object, *, indent: int | None = None) -> None:
    """Write `value` and a line feed, as `json_text`."""
    print_data(f"{json_text(value, indent=indent)}\n")


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return JSON in which characters that `visible` would replace are escaped, so that a program reads them."""
    # imported here: help texts need none
    import json

    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_utf8(pieces: Iterable[bytes]) -> None:
    """Write text as UTF-8 whatever the terminal's encoding, through `visible`."""
    sys.stdout.flush()
    stream = getattr(sys.stdout, "rich_proxied_file", sys.stdout)
    with output_errors(stream):
        for each in pieces:
            stream.buffer.write(visible(each.decode()).encode())
        stream.buffer.flush()
