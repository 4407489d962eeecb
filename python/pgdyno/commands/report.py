"""`pgdyno report`: one page of a run, one of several runs, or one for each of many runs."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from pgdyno.analyse.price import PriceList
from pgdyno.commands.support.cluster_and_generator_hosts import Unread, each_run, over, say_unread
from pgdyno.commands.support.print_page import find_browser, print_page
from pgdyno.commands.support.report_files import (
    below,
    is_standard_output,
    read_prices,
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
from pgdyno.store import RunFolder, find_run, load_run
from pgdyno.store.find_runs import named_runs
from pgdyno.store.object_storage.address import is_remote
from pgdyno.store.object_storage.runs import open_run

PAGE = "report.html"


@dataclass(frozen=True, slots=True)
class Forms:
    """The files to write; None omits a file."""

    html: str | None
    """A path or an address; with `each`, the folder of the pages. None stands for the run folder."""
    pdf: Path | None = None
    md: Path | None = None
    csv: Path | None = None


def write_report(
    named: Sequence[str],
    runs: Path,
    forms: Forms,
    *,
    price: Path | None,
    language: Language = Language.ENGLISH,
) -> None:
    """Writes the report of one or several runs and prints its location. Raises StoreError and UsageError."""
    folders = [find_run(name, runs) for name in named]
    _check_different(named, folders)
    data = [load_run(folder) for folder in folders]
    if forms.pdf is not None:
        find_browser()
    prices = None if price is None else read_prices(price)
    if len(data) > 1 and (forms.html is None or forms.csv is not None):
        is_homeless = forms.html is None
        what = "a report of several runs needs a path" if is_homeless else "--csv takes one run"
        raise UsageError(what, hint="pgdyno report RUN OTHER --html FILE, or --each for one report per run")
    page = forms.html or below(folders[0].location, PAGE)
    report = whole_report(data, prices, language)
    # what is written to standard output stands alone there
    console = Console(stderr=any(map(is_standard_output, (page, forms.pdf, forms.md, forms.csv))))
    html = report.html()
    write_report_at(page, html)
    if not is_standard_output(page):
        console.print(page, soft_wrap=True)
    further: list[tuple[Path | None, Callable[[], str | bytes]]] = [
        (forms.pdf, lambda: print_page(html)),
        (forms.md, report.markdown),
        (forms.csv, lambda: to_csv(data[0])),
    ]
    for path, made in further:
        if path is None:
            continue
        write_report_file(path, made())
        if not is_standard_output(path):
            console.print(str(path), soft_wrap=True)


def _check_different(named: Sequence[str], folders: Sequence[RunFolder]) -> None:
    """Raises UsageError if two names stand for one run, which would be compared with itself."""
    seen: dict[str, str] = {}
    for name, folder in zip(named, folders, strict=True):
        place = folder.location if is_remote(folder.location) else str(folder.path.resolve())
        if place in seen:
            raise UsageError(f"{seen[place]} and {name} are the same run: {place}", hint="name each run once")
        seen[place] = name


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
    """The page's content for a folder on the first host; None if the worker has written it, so that pages do not pass
    through one host.
    """
    rows: bytes
    """Rows of the CSV."""


def write_each(
    named: Sequence[str],
    runs: Path,
    forms: Forms,
    *,
    price: Path | None,
    language: Language,
    cluster: Sequence[str],
) -> ExitCode:
    """Writes a page for each run and prints the locations; reports unreadable runs afterwards.

    The exit code is that of the first failure. Raises PgdynoError.
    """
    if forms.pdf or forms.md:
        raise UsageError("--each writes one HTML file per run and one CSV file", hint="remove --pdf and --md")
    if forms.html is not None and not is_remote(forms.html):
        try:
            Path(forms.html).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot create the folder {forms.html}: {(error.strerror or '').lower()}") from error
    asked = Asked(None if price is None else read_prices(price), language, forms.html, forms.csv is not None)
    found = named_runs(named, runs)
    if forms.html is not None:
        _distinct_names(found.places)
    unread: list[Unread] = []
    with over(cluster) as way:
        console = Console(stderr=is_standard_output(forms.csv))
        rows = _written(each_run(way, partial(page_of, asked), found.places), unread, console)
        if forms.csv is None:
            deque(rows, maxlen=0)
        else:
            write_pieces(forms.csv, chain([csv_head().encode()], rows))
    say_unread(unread)
    return unread[0].exit_code if unread else ExitCode.OK


def _written(pages: Iterator[tuple[str, Page | Unread]], unread: list[Unread], console: Console) -> Iterator[bytes]:
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
    """Returns the page of the run at `place`; writes it if it belongs on object storage. Raises StoreError."""
    with open_run(place) as run:
        where = below(run.location, PAGE) if asked.folder is None else below(asked.folder, f"{run.name}.html")
        data = load_run(run)
        content = whole_report([data], asked.prices, asked.language).html().encode()
        rows = visible(to_csv(data)).partition("\n")[2].encode() if asked.rows else b""
    if not is_remote(where):
        return Page(where, content, rows)
    write_report_at(where, content)
    return Page(where, None, rows)
