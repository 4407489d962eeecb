"""`pgdyno report --each`: a page for each of many runs, in one process or several."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from pgdyno.analyse.price import PriceList
from pgdyno.commands.support.each_run import Unread, each_run, executor_for, say_unread
from pgdyno.commands.support.report_files import (
    below,
    is_standard_output,
    write_pieces,
    write_report_at,
    write_report_file,
)
from pgdyno.console import Console
from pgdyno.errors import ExitCode, StoreError, UsageError
from pgdyno.report.export import csv_head, to_csv
from pgdyno.report.full_report import whole_report
from pgdyno.report.translation import Language
from pgdyno.safe_output import visible
from pgdyno.store import load_run
from pgdyno.store.find_runs import named_runs
from pgdyno.store.object_storage.address import is_remote
from pgdyno.store.object_storage.runs import open_run

PAGE = "report.html"


@dataclass(frozen=True, slots=True)
class Asked:
    """The options that apply to each run."""

    prices: PriceList | None
    language: Language
    folder: str | None
    """A path or an address; None stands for the run folder."""
    rows: bool
    """Include the trials as CSV."""


@dataclass(frozen=True, slots=True)
class Page:
    place: str
    """Where to write the page."""
    content: bytes | None
    """The page's content for a local folder; None if the worker wrote it: not all pass one process."""
    rows: bytes
    """Rows of the CSV."""


def write_each(named: Sequence[str], runs: Path, asked: Asked, csv: Path | None, cluster: Sequence[str]) -> ExitCode:
    """Write a page for each run and print the locations; report unreadable runs afterwards.

    The exit code is that of the first failure. Raises PgdynoError.
    """
    if asked.folder is not None and not is_remote(asked.folder):
        try:
            Path(asked.folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot create the folder {asked.folder}: {(error.strerror or '').lower()}") from error
    found = named_runs(named, runs)
    if asked.folder is not None:
        _distinct_names(found.places)
    unread: list[Unread] = []
    with executor_for(cluster) as way:
        console = Console(stderr=is_standard_output(csv))
        rows = _write_pages(each_run(way, partial(page_of, asked), found.places), unread, console)
        if csv is None:
            deque(rows, maxlen=0)
        else:
            write_pieces(csv, chain([csv_head().encode()], rows))
    say_unread(unread)
    return unread[0].exit_code if unread else ExitCode.OK


def _write_pages(pages: Iterator[tuple[str, Page | Unread]], unread: list[Unread], console: Console) -> Iterator[bytes]:
    for _, page in pages:
        if isinstance(page, Unread):
            unread.append(page)
            continue
        if page.content is not None:
            write_report_file(Path(page.place), page.content)
        console.print(page.place, soft_wrap=True)
        yield page.rows


def _distinct_names(places: Sequence[str]) -> None:
    counts = Counter(place.rpartition("/")[2] for place in places)
    twice = [place for place in places if counts[place.rpartition("/")[2]] > 1]
    if twice:
        raise UsageError(
            f"two runs have the same page name: {', '.join(twice[:2])}", hint="write their reports separately"
        )


def page_of(asked: Asked, place: str) -> Page:
    """Return the page of the run at `place`; write it if it belongs on object storage. Raises StoreError."""
    with open_run(place) as run:
        where = below(run.location, PAGE) if asked.folder is None else below(asked.folder, f"{run.name}.html")
        data = load_run(run)
        content = whole_report([data], asked.prices, asked.language).html().encode()
        rows = visible(to_csv(data)).partition("\n")[2].encode() if asked.rows else b""
    if not is_remote(where):
        return Page(where, content, rows)
    write_report_at(where, content)
    return Page(where, None, rows)
