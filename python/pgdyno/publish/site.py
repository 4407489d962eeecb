"""A published folder: written file by file, each whole under its name, the index last, and what vanished removed then.

Whatever ends pgdyno, the index that is there names pages that are complete.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from filelock import FileLock, Timeout

from pgdyno import __version__
from pgdyno.errors import StoreError, UsageError
from pgdyno.publish.index_page import index_page
from pgdyno.publish.picture import has_fonts, picture
from pgdyno.publish.raw_files import PAGE_NAME, RawFiles
from pgdyno.publish.run_entry import Entry, entry_of
from pgdyno.publish.run_page import CSV, PAGE, PICTURE, RAW, run_page
from pgdyno.report.export import to_csv
from pgdyno.report.full_report import whole_report
from pgdyno.safe_output import visible
from pgdyno.store import RunData
from pgdyno.store.find_runs import ReportHead
from pgdyno.store.safe_files import open_new, open_regular, parse_json, read_record, store_errors

MARKER = "pgdyno-site.json"
RUNS = "runs"
_OPTION = "--into"


@dataclass(frozen=True, slots=True)
class Made:
    """The page of a run, not yet written."""

    entry: Entry
    raw: RawFiles
    files: Mapping[str, bytes]
    """Empty if the folder has them already."""


class Site:
    def __init__(self, folder: Path, url: str | None = None) -> None:
        """`url` is where the folder will be. Raises UsageError for a folder with other content, StoreError."""
        self.folder, self.url = folder, url
        self._known = self._read()

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Create the folder if needed, and lock it for the block. Raises StoreError."""
        with store_errors("write", self.folder, _OPTION):
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.folder / ".lock", thread_local=False)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                raise StoreError(
                    f"another pgdyno publishes into {self.folder}", hint="wait until it has ended"
                ) from None
        try:
            if not (self.folder / MARKER).exists():
                # what an interrupted start leaves is a published folder
                self._write_marker([])
            yield
        finally:
            lock.release()

    def make(self, run: RunData) -> Made:
        """Return the page of `run`. Raises StoreError if its files cannot be read."""
        raw = RawFiles(run)
        known, at = self._known.get(raw.page_name), self.folder / RUNS / raw.page_name
        names = [PAGE, RAW, CSV, *([PICTURE] if has_fonts() else [])]
        if known is not None and all((at / name).is_file() for name in names):
            return Made(known, raw, {})
        # from what others get: what is masked there is nowhere on the page, either
        with TemporaryDirectory(prefix="pgdyno-publish-") as folder:
            return self._made(raw.extract(Path(folder)), raw)

    def _made(self, run: RunData, raw: RawFiles) -> Made:
        report = whole_report([run], location=raw.folder)
        page = run_page(report, raw, url=self.url, has_picture=has_fonts())
        entry = entry_of(raw.page_name, run, ReportHead.parse(page))
        files = {PAGE: page.encode(), CSV: visible(to_csv(run)).encode()}
        if has_fonts():
            files[PICTURE] = picture(report.draft, entry.machine)
        return Made(entry, raw, files)

    def write(self, made: Made) -> bool:
        """Write the page; return whether anything changed. Raises StoreError."""
        at = self.folder / RUNS / made.entry.name
        with store_errors("write", at, _OPTION):
            at.mkdir(parents=True, exist_ok=True)
            changed = bool(made.files) and not (at / RAW).is_file()
            if changed:
                _replace(at / RAW, made.raw.write_to)
            return any([changed, *(_changed(at / name, content) for name, content in made.files.items())])

    def finish(self, entries: list[Entry]) -> list[str]:
        """Write the index of `entries` and remove the pages of other runs. Returns their names. Raises StoreError."""
        with store_errors("write", self.folder, _OPTION):
            _changed(self.folder / PAGE, index_page(entries).encode())
            self._write_marker(entries)
            names = {each.name for each in entries}
            pages = [each for each in (self.folder / RUNS).iterdir() if PAGE_NAME.fullmatch(each.name)]
            gone = [each for each in pages if each.name not in names]
            for each in gone:
                shutil.rmtree(each)
        return [each.name for each in gone]

    def _read(self) -> dict[str, Entry]:
        """Return the runs of the folder that this version of pgdyno has written for the same address."""
        with store_errors("read", self.folder, _OPTION):
            if not self.folder.exists() or not any(each.name != ".lock" for each in self.folder.iterdir()):
                return {}
            if not (self.folder / MARKER).is_file():
                raise UsageError(
                    f"{self.folder} has other content than what pgdyno publish writes",
                    hint="name a new or an empty folder with --into",
                )
        try:
            kept = parse_json(read_record(self.folder / MARKER))
            if (kept["pgdyno"], kept["url"]) != (__version__, self.url):
                return {}
            return {each["name"]: Entry.model_validate(each) for each in kept["runs"]}
        except (StoreError, ValueError, KeyError, TypeError):
            # then every page is made again
            return {}

    def _write_marker(self, entries: list[Entry]) -> None:
        runs = [each.model_dump(mode="json") for each in entries]
        _changed(self.folder / MARKER, json.dumps({"pgdyno": __version__, "url": self.url, "runs": runs}).encode())


def _changed(path: Path, content: bytes) -> bool:
    """Write `content` unless the file has it already; return whether it was written. Raises OSError."""
    with suppress(OSError, StoreError), open_regular(path) as file:
        if file.read() == content:
            return False
    _replace(path, lambda file: file.write(content))
    return True


def _replace(path: Path, write: Callable[[BinaryIO], object]) -> None:
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open_new(partial) as file:
            write(file)
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
