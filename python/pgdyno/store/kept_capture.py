"""The capture of a run: its capture.json in the run folder, and whether the capture is still what the run began with.

A run keeps no copy of the statements, which may be many gigabytes, but their checksum.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.errors import StoreError
from pgdyno.messages import Message
from pgdyno.records import KeptCapture
from pgdyno.records.capture import CAPTURE_FILE, STATEMENTS_FILE
from pgdyno.store.safe_files import read_model, store_errors, write_durably

if TYPE_CHECKING:
    from pgdyno.records.capture import Capture


def read_capture_in(plan_folder: Path, name: str, *, is_replayed: bool) -> Capture:
    """Return the capture that a plan in `plan_folder` names, as for `keep_capture`. Raises StoreError."""
    # imported here: most runs have none
    from pgdyno.records.capture import Capture

    return read_model(_capture_json(plan_folder, name, is_replayed=is_replayed), Capture)


def _capture_json(plan_folder: Path, name: str, *, is_replayed: bool) -> Path:
    return plan_folder / name / CAPTURE_FILE if is_replayed else plan_folder / name


def keep_capture(run: Path, plan_folder: Path, name: str, *, is_replayed: bool) -> KeptCapture:
    """Copy a capture.json into the run folder `run`.

    `name`, relative to `plan_folder`, is the file, or the folder of a capture that the run replays. Raises StoreError.
    """
    source = _capture_json(plan_folder, name, is_replayed=is_replayed)
    with store_errors("read", source):
        content = source.read_bytes()
    with store_errors("write", run / CAPTURE_FILE):
        write_durably(run / CAPTURE_FILE, content)
    statements = _checksum(plan_folder / name / STATEMENTS_FILE) if is_replayed else None
    return KeptCapture(name=name, sha256=hashlib.sha256(content).hexdigest(), statements_sha256=statements)


def changed_capture(plan_folder: Path, kept: KeptCapture) -> Message | None:
    """Return what has changed in a capture that the run replays; None if nothing has, or nothing is replayed."""
    if kept.statements_sha256 is None:
        return None
    folder = plan_folder / kept.name
    for path, known in ((folder / CAPTURE_FILE, kept.sha256), (folder / STATEMENTS_FILE, kept.statements_sha256)):
        try:
            now = _checksum(path)
        except StoreError as error:
            return Message("capture-unreadable", "the capture can no longer be read: {why}", why=error.message)
        if now != known:
            return Message("capture-changed", "{file} has changed since the run began", file=str(path))
    return None


def read_capture_of(run: Path) -> Capture | None:
    """Return the capture of the run folder `run`; None without one. Raises StoreError."""
    path = run / CAPTURE_FILE
    if not path.exists() and not path.is_symlink():
        return None
    # imported here: most runs have none
    from pgdyno.records.capture import Capture

    return read_model(path, Capture)


def _checksum(path: Path) -> str:
    with store_errors("read", path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
