"""Code that may not read every folder, also where the tests run as root."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

CAPABILITY_VERSION = 0x20080522
DAC = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: with them, modes of files mean nothing."""


@contextmanager
def unprivileged() -> Iterator[None]:
    """Gives up root's rights to files of any mode within; the user, who alone may read the checkout, stays."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    # effective, permitted and inheritable ones, in two words each
    before, less = (ctypes.c_uint32 * 6)(), (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    for capabilities in (before, less):
        _check(libc.capget(header, capabilities))
    less[0] &= ~DAC
    _check(libc.capset(header, less))
    try:
        yield
    finally:
        _check(libc.capset(header, before))


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
