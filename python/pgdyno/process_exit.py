"""The end of the process while libpq still connects in a thread.

libpq may compute the proof of a password for minutes. A usual exit runs OpenSSL's clean-up meanwhile, and the thread
then crashes the process with a segmentation fault.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn

CONNECT_THREAD = "connect"
"""Name of the threads in which libpq connects."""


def leave(code: int) -> NoReturn:
    """Ends the process with this exit code; threads that still connect end with it."""
    if all(thread.name != CONNECT_THREAD for thread in threading.enumerate()):
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # a stream whose reader is gone, or that was closed
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)
