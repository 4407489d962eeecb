"""`pgdyno report`: one page of a run, one of several runs, or one for each of many runs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from pgdyno.store import RunFolder


def report(
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Runs, local or at s3://bucket/folder; the first is compared with the others.",
            autocompletion=options.complete_runs,
        ),
    ] = None,
    runs: options.Runs = options.DEFAULT_RUNS,
    html: Annotated[
        str | None,
        typer.Option(
            metavar="LOCATION",
            help="Write the HTML report to this file; with --each, to this folder.  [default: in the run folder]",
        ),
    ] = None,
    pdf: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a PDF to this file: two pages and an appendix.")
    ] = None,
    md: Annotated[Path | None, typer.Option(metavar="FILE", help="Write Markdown of 80 columns to this file.")] = None,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the trials as CSV to this file; with --each, those of all runs."),
    ] = None,
    price: Annotated[Path | None, typer.Option(metavar="FILE", help="Read each target's price from this file.")] = None,
    language: Annotated[Literal["en", "ko", "ja", "zh"], typer.Option(help="Language of the report.")] = "en",
    each: Annotated[
        bool, typer.Option("--each", help="Write one report per run; RUN may be a folder or a pattern.")
    ] = False,
    cluster: options.Cluster = None,
) -> ExitCode:
    """Write the report of one or several runs.

    One HTML file that works offline and compares several runs.
    """
    from pgdyno.commands.support import report_pages
    from pgdyno.commands.support.print_page import find_browser, print_page
    from pgdyno.commands.support.report_files import (
        below,
        is_standard_output,
        read_prices,
        write_report_at,
        write_report_file,
    )
    from pgdyno.console import Console
    from pgdyno.report.export import to_csv
    from pgdyno.report.full_report import whole_report
    from pgdyno.report.translation import Language
    from pgdyno.store import find_run, load_run
    from pgdyno.store.find_runs import find_bisection

    what, tongue = named or ["latest"], Language(language)
    if (bisection := find_bisection(what[0], runs)) is not None:
        is_alone = len(what) == 1 and not (pdf or md or csv or price or each)
        return _write_bisection(bisection, html, is_alone=is_alone)
    if each:
        if pdf or md:
            raise UsageError("--each writes one HTML file per run and one CSV file", hint="remove --pdf and --md")
        prices = None if price is None else read_prices(price)
        asked = report_pages.Asked(prices, tongue, html, csv is not None)
        return report_pages.write_each(what, runs, asked, csv, cluster or ())
    if cluster:
        raise UsageError("--cluster needs several reports", hint="use --each")
    folders = [find_run(name, runs) for name in what]
    _check_several(what, folders, is_one_file=html is not None and csv is None)
    data = [load_run(folder) for folder in folders]
    if pdf is not None:
        find_browser()
    prices = None if price is None else read_prices(price)
    page = html or below(folders[0].location, report_pages.PAGE)
    written = whole_report(data, prices, tongue)
    # what is written to standard output stands alone there
    console = Console(stderr=any(map(is_standard_output, (page, pdf, md, csv))))
    text = written.html()
    write_report_at(page, text)
    if not is_standard_output(page):
        console.print(page, soft_wrap=True)
    further: list[tuple[Path | None, Callable[[], str | bytes]]] = [
        (pdf, lambda: print_page(text)),
        (md, written.markdown),
        (csv, lambda: to_csv(data[0])),
    ]
    for path, made in further:
        if path is None:
            continue
        write_report_file(path, made())
        if not is_standard_output(path):
            console.print(str(path), soft_wrap=True)
    return ExitCode.OK


def _write_bisection(folder: Path, html: str | None, *, is_alone: bool) -> ExitCode:
    from pgdyno.bisection.journal import JournalFile
    from pgdyno.commands.bisection.bisect_report import bisection_page
    from pgdyno.commands.support.report_files import is_standard_output, write_report_at
    from pgdyno.console import Console
    from pgdyno.store.find_runs import REPORT

    if not is_alone:
        raise UsageError(f"{folder} is a bisection, which has an HTML page", hint="name it alone, with --html")
    page = html or str(folder / REPORT)
    write_report_at(page, bisection_page(JournalFile.open(str(folder), folder.parent)))
    if not is_standard_output(page):
        Console().print(page, soft_wrap=True)
    return ExitCode.OK


def _check_several(named: Sequence[str], folders: "Sequence[RunFolder]", *, is_one_file: bool) -> None:
    """Raise UsageError if two names stand for one run, which would be compared with itself, or options need one run."""
    from pgdyno.store.object_storage.address import is_remote

    if len(folders) > 1 and not is_one_file:
        hint = "pgdyno report RUN OTHER --html FILE, or --each for one report per run"
        raise UsageError("a report of several runs needs a path, and has no CSV", hint=hint)
    seen: dict[str, str] = {}
    for name, folder in zip(named, folders, strict=True):
        place = folder.location if is_remote(folder.location) else str(folder.path.resolve())
        if place in seen:
            raise UsageError(f"{seen[place]} and {name} are the same run: {place}", hint="name each run once")
        seen[place] = name
