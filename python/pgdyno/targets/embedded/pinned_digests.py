"""The digests of embedded servers' archives that the package pins."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

PINS = Path(__file__).with_name("pins.txt")
"""In the format of sha256sum; `make pins` adds lines."""


@cache
def read_pins() -> Mapping[str, str]:
    """Returns pinned SHA-256 digests in hexadecimal by the archive's file name."""
    if not PINS.is_file():
        return {}
    lines = (line.split() for line in PINS.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {name: digits for digits, name in lines}
