"""The journal of settings that a search changes on a server that pgdyno did not start.

It says what the settings were, and is on disk before the first change. It is in pgdyno's home, by the server's system
identifier, where every later command finds it; a copy is in the run folder, in case the home is lost. Both are removed
once the settings are restored.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from filelock import Timeout
from pydantic import BaseModel, Field

from pgdyno.errors import TargetError
from pgdyno.store.safe_files import read_model, replace_durably, store_errors
from pgdyno.targets import Home
from pgdyno.targets.cluster.settings import quote
from pgdyno.targets.home import ensure_folder

FOLDER = "changed-settings"
COPY = "changed-settings.json"
RESTORE = "pgdyno target restore"
"""The command that restores what journals name."""
Values = Mapping[str, str | None]
"""Values of settings in postgresql.auto.conf; None for those that are not there."""


class Journal(BaseModel):
    """What a search changes on one server."""

    identifier: Annotated[str, Field(pattern=r"^\d+$")]
    """The server's system identifier."""
    run: str
    """The path of the run folder."""
    name: str
    """The target's name."""
    target: dict[str, Any]
    """The target in the plan, which has no password."""
    plan_folder: str
    """The working directory of the restart command."""
    file: str
    """The path of postgresql.auto.conf on the server's host."""
    originals: dict[str, str | None]
    """The values before the search, by name in lower case."""
    current: dict[str, str | None]
    """The values that the last change wrote, or was about to write."""

    def write(self, home: Home) -> None:
        """Write both files; they are on disk on return. Raises StoreError, TargetError."""
        ensure_folder(home.root / FOLDER, 0o700)
        for path in self._paths(home):
            with store_errors("write", path):
                replace_durably(path, self.model_dump_json(indent=2).encode())

    def remove(self, home: Home) -> None:
        """Remove both files, once the settings are restored. Raises StoreError."""
        for path in self._paths(home):
            with store_errors("remove", path):
                path.unlink(missing_ok=True)

    def _paths(self, home: Home) -> list[Path]:
        run = Path(self.run)
        return [home.root / FOLDER / f"{self.identifier}.json", *([run / COPY] if run.is_dir() else [])]

    def put_back(self, text: str) -> str | None:
        """Return the content `text` of postgresql.auto.conf with the original values.

        None if it does not have the current values: it is then another server's, or another process changed it.
        """
        (removed, added), lines = self._changed_lines(), text.splitlines()
        if not removed <= set(lines):
            return None
        return "\n".join([*(line for line in lines if line not in removed), *sorted(added)]) + "\n"

    def by_hand(self) -> str:
        """Return what to do on the server's host if the server does not start."""
        removed, added = (", ".join(sorted(lines)) for lines in self._changed_lines())
        edits = [*([f"remove {removed}"] if removed else []), *([f"add {added}"] if added else [])]
        inside = f"in {self.file}, {' and '.join(edits)}; " if edits else ""
        return f"{inside}start the server; then: {RESTORE}"

    def _changed_lines(self) -> tuple[set[str], set[str]]:
        current, originals = set(_lines(self.current)), set(_lines(self.originals))
        return current - originals, originals - current


def _lines(values: Values) -> list[str]:
    return [f"{name} = {quote(value)}" for name, value in values.items() if value is not None]


def read_journal(path: Path) -> Journal | None:
    """Return the journal at `path`; None without one. Raises StoreError."""
    return read_model(path, Journal) if path.exists() else None


def journal_of(home: Home, identifier: str) -> Journal | None:
    """Return the journal of a server in the home; None without one. Raises StoreError."""
    return read_journal(home.root / FOLDER / f"{identifier}.json")


def journals(home: Home) -> list[Journal]:
    """Return all journals of the home. Raises StoreError."""
    return [read_model(path, Journal) for path in sorted((home.root / FOLDER).glob("*.json"))]


@contextmanager
def journal_locked(home: Home, identifier: str) -> Iterator[None]:
    """Hold the server's journal for the block. Raises TargetError if another process has it."""
    lock = home.lock(f"settings-{identifier}")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        message = "another pgdyno process changes the settings of this server"
        raise TargetError(message, hint="wait until it ends, or stop it") from error
    try:
        yield
    finally:
        lock.release()
