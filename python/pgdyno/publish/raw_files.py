"""The raw files of a run as one tar file, whose SHA-256 names its page: equal wherever and whenever it is made.

It has what figures are read from: records, tables, profiles, and the scripts of the plan; no logs, and nothing that
pgdyno derives. `repeat/` has the plan as a file with its scripts. Settings, variables and options of connections that
may be secret are masked, as in reports: a manifest keeps them for a resume, and tables of earlier versions had them.
"""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Protocol

from pgdyno.errors import StoreError
from pgdyno.records.secret_values import masked_plan
from pgdyno.report.plan_toml import plan_toml
from pgdyno.store import RunData, load_run
from pgdyno.store.parquet import write_tables
from pgdyno.store.run_folder import kept_text
from pgdyno.store.safe_files import DAMAGED, files_below, open_regular, parse_json, read_record, store_errors

_KEPT = re.compile(
    r"manifest\.json|capture\.json|(?:scripts|profiles)/[^/]+|trials/[^/]+/(?:[a-z_]+\.(?:json|parquet)|phases\.toml)"
)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
DIGITS = 12
PAGE_NAME = re.compile(rf"[a-z0-9-]{{1,60}}-[0-9a-f]{{{DIGITS}}}")
_CHUNK = 1 << 20


class _Writer(Protocol):
    def write(self, content: bytes, /) -> object: ...


class _Digest:
    def __init__(self) -> None:
        self.found = hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.found.update(content)
        return len(content)


class RawFiles:
    """Reads the run's files; every method raises StoreError."""

    def __init__(self, run: RunData) -> None:
        self._run = run
        self.folder = _UNSAFE.sub("-", run.manifest.run).lstrip(".")[:100] or "run"
        """The folder in the tar file."""

    @cached_property
    def page_name(self) -> str:
        """Return the plan's name, and the first digits of the SHA-256 of the tar file."""
        digest = _Digest()
        self.write_to(digest)
        plan = re.sub(r"[^a-z0-9]+", "-", str(self._run.manifest.plan.get("name")).lower())[:40].strip("-") or "run"
        return f"{plan}-{digest.found.hexdigest()[:DIGITS]}"

    @cached_property
    def plan(self) -> str | None:
        """Return the plan as a file; None for an imported run."""
        manifest = self._run.manifest
        return plan_toml(masked_plan(manifest.plan)) if manifest.imported is None else None

    def write_to(self, file: _Writer) -> None:
        # compressed, the same content would differ between versions of a library
        with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
            for name, path in sorted(self._stored().items()):
                content = self._masked(name, path)
                if content is None:
                    with store_errors("read", path), open_regular(path) as source:
                        _add(tar, f"{self.folder}/{name}", source, path.stat().st_size)
                else:
                    _add(tar, f"{self.folder}/{name}", io.BytesIO(content), len(content))
            for name, text in self._repeat():
                _add(tar, f"{self.folder}/repeat/{name}", io.BytesIO(text.encode()), len(text.encode()))

    def extract(self, into: Path) -> RunData:
        """Return the run as others read it, from its files in a new folder in `into`."""
        with store_errors("write", into, None):
            with (into / "raw.tar").open("wb") as file:
                self.write_to(file)
            with tarfile.open(into / "raw.tar") as tar:
                tar.extractall(into, filter="data")
        return load_run(into / self.folder)

    def _stored(self) -> dict[str, Path]:
        root = self._run.folder.path
        with store_errors("list", root):
            found = {str(path.relative_to(root)): path for path in files_below(root)}
        return {name: path for name, path in found.items() if _KEPT.fullmatch(name)}

    def _masked(self, name: str, path: Path) -> bytes | None:
        if name.endswith(".json"):
            content = read_record(path)
            try:
                found: Any = parse_json(content)
            except ValueError as error:
                raise StoreError(f"cannot read {path}: it is not JSON: {error}", hint=DAMAGED) from error
            masked = masked_plan(found) if isinstance(found, Mapping) else found
            return None if masked == found else json.dumps(masked, ensure_ascii=False, indent=1).encode()
        return self._settings.get(path)

    @cached_property
    def _settings(self) -> dict[Path, bytes]:
        found = {}
        unmasked = self._run.unmasked_settings()
        for trial in (each for each in self._run.trials if each.number in unmasked):
            with TemporaryDirectory(prefix="pgdyno-settings-") as folder:
                write_tables(Path(folder), {"settings": self._run.settings(trial.number)})
                path = self._run.folder.trials_path / trial.slug / "settings.parquet"
                found[path] = Path(folder, "settings.parquet").read_bytes()
        return found

    def _repeat(self) -> Iterator[tuple[str, str]]:
        if self.plan is not None:
            yield "plan.toml", self.plan
            for script in self._run.manifest.scripts or ():
                place = PurePosixPath(script.name)
                is_below = not place.is_absolute() and ".." not in place.parts and script.name.isprintable()
                if is_below and place.name not in ("", "plan.toml"):
                    yield str(place), kept_text(self._run.folder.path, script)


def _add(tar: tarfile.TarFile, name: str, content: BinaryIO, size: int) -> None:
    about = tarfile.TarInfo(name)
    about.size, about.mode = size, 0o644
    tar.addfile(about, content)
