"""Downloaded runs that a command uses until it ends."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from functools import cache

from pgdyno.store.folder import RunFolder
from pgdyno.store.remote.runs import opened


@cache
def _until_the_end() -> ExitStack:
    stack = ExitStack()
    # also after an error, Ctrl-C and SIGTERM
    atexit.register(stack.close)
    return stack


def borrowed(place: str) -> RunFolder:
    """Return the run at the address `place`; the download is removed when this process ends. Raises StoreError and
    UsageError.
    """
    return _until_the_end().enter_context(opened(place))
