"""Asks for a password on a terminal."""

import getpass
import sys
from collections.abc import Callable


def password_prompt() -> Callable[[], str] | None:
    """Return what asks the user for a password; None without a terminal."""
    return getpass.getpass if sys.stdin is not None and sys.stdin.isatty() else None
