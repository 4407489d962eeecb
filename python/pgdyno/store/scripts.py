"""Copies a plan's script files into the run folder, so that later changes are noticed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from difflib import unified_diff
from itertools import islice
from pathlib import Path

from pgdyno.records import KeptScript
from pgdyno.store.storing import storing, sync, write_durably

FOLDER = "scripts"
DIFF_LINES = 12
"""Displayed lines of a difference."""


def keep_scripts(run: Path, plan_folder: Path, names: Iterable[str]) -> list[KeptScript]:
    """Copy the files `names`, relative to `plan_folder`, into the run folder. Raises StoreError."""
    kept = []
    for number, name in enumerate(dict.fromkeys(names), start=1):
        with storing("read", plan_folder / name):
            content = (plan_folder / name).read_bytes()
        # two files of different folders may have the same name
        copy = f"{FOLDER}/{number}-{Path(name).name}"
        with storing("write", run / copy):
            (run / FOLDER).mkdir(exist_ok=True)
            write_durably(run / copy, content)
        kept.append(KeptScript(name=name, kept=copy, sha256=hashlib.sha256(content).hexdigest()))
    if kept:
        with storing("write", run / FOLDER):
            sync(run / FOLDER)
    return kept


def changed_script(run: Path, plan_folder: Path, kept: Sequence[KeptScript]) -> str | None:
    """Return what has changed since the start of the run, with the difference; None if nothing has."""
    for script in kept:
        path = plan_folder / script.name
        try:
            now = path.read_bytes()
        except OSError as error:
            return f"the script {path} cannot be read any more: {(error.strerror or str(error)).lower()}"
        if hashlib.sha256(now).hexdigest() != script.sha256:
            # the manifest may name a path outside the run folder
            kept_here = run / FOLDER / Path(script.kept).name
            return f"the script {path} is not what the run began with:\n{_difference(kept_here, now)}"
    return None


def _difference(kept: Path, now: bytes) -> str:
    with storing("read", kept):
        before = kept.read_bytes()
    old, new = (content.decode("utf-8", "replace").splitlines() for content in (before, now))
    lines = list(islice(unified_diff(old, new, "then", "now", n=1, lineterm=""), DIFF_LINES + 1))
    if len(lines) > DIFF_LINES:
        lines[-1] = "..."
    return "\n".join(f"    {line}" for line in lines) or "    white space at the ends of its lines"
