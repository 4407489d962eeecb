"""Where the programs are that the wheel brings beside pgdyno."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from pgdyno.errors import EngineError


def locate(program: str, environment: str, what: str) -> Path:
    """The program that the variable `environment` names, else the one beside this Python, else on the PATH.

    `what` says what it is for ("the load engine"). Raises EngineError when there is none.
    """
    named = os.environ.get(environment)
    if named:
        if not os.access(named, os.X_OK):
            raise EngineError(
                f"{environment} names {named}, which cannot be run", hint=f"correct or unset {environment}"
            )
        return Path(named)
    beside = Path(sys.executable).parent / program
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which(program)
    if found is None:
        raise EngineError(
            f"{what} {program} is not installed",
            hint=f"pgdyno's wheel brings it; in a checkout run make build, or set {environment} to its path",
        )
    return Path(found)
