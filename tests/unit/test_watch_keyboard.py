"""Keys of a terminal."""

import os
import pty
import sys
from collections.abc import Iterator

import pytest

from pgdyno.watch.views import Keys


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        yield ours
    os.close(ours)


@pytest.mark.parametrize(
    ("pressed", "keys"),
    [
        (b"pq", "pq"),
        # F1, F2 and F5, cursor up, Ctrl and cursor right, Alt and q
        (b"\x1bOP", ""),
        (b"\x1bOQ", ""),
        (b"\x1b[15~", ""),
        (b"\x1b[A", ""),
        (b"\x1b[1;5C", ""),
        (b"\x1bq", ""),
        (b"\x1b[B\x1bOQt+", "t+"),
    ],
)
def test_function_keys_are_no_letters(typed: int, pressed: bytes, keys: str) -> None:
    with Keys() as keyboard:
        os.write(typed, pressed)
        assert keyboard.wait(1.0) == keys
