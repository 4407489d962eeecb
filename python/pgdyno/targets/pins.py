"""Digests of archives of embedded servers that pgdyno was released with.

A checksum that stands beside an archive on the same server shows only that the archive came whole: whoever can
replace the one can replace the other. A digest of the list in this package shows that it is the archive that
pgdyno's authors fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

PINS = Path(__file__).with_name("pins.txt")
"""As sha256sum writes it; `make pins` adds to it."""


@cache
def read_pins() -> Mapping[str, str]:
    """SHA-256 in hexadecimal digits, by an archive's file name."""
    if not PINS.is_file():
        return {}
    lines = (line.split() for line in PINS.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {name: digits for digits, name in lines}
