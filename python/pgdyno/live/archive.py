"""The pages of stored runs, and of one metric over the runs of a folder."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from pgdyno.analyse.history import FEWEST_RUNS, History, histories
from pgdyno.analyse.pairs import Metric
from pgdyno.errors import PgdynoError, StoreError, UsageError
from pgdyno.live import run_views
from pgdyno.live.archive_index import Entry, Index, Key, Search
from pgdyno.live.control import is_running
from pgdyno.live.pages import METRICS, archive_row, metric_of, page
from pgdyno.records import Manifest
from pgdyno.report import numbers
from pgdyno.report.analysis import differing
from pgdyno.report.answers.comparison import percent
from pgdyno.report.charts.history import history_chart
from pgdyno.report.charts.page_figures import Figure, drawn_figure
from pgdyno.report.export import to_csv
from pgdyno.report.full_report import report_html
from pgdyno.report.run_notes import disturbance_lines
from pgdyno.store import RunData, load_run
from pgdyno.store.find_runs import is_not_valid, read_validity
from pgdyno.store.safe_files import files_below, storing
from pgdyno.units import counted, format_size

MOST_EVENTS = 20
"""Events and ledgers on the page of a run."""
MOST = 2_000
"""Largest number of files that a page lists."""


def list_files(run: Path) -> tuple[list[tuple[str, int]], bool]:
    """Return paths within `run` and sizes of its files, by path; and whether there are more. Raises StoreError."""
    with storing("list", run):
        found = ((path, path.stat().st_size) for path in files_below(run))
        rows = list(islice(found, MOST + 1))
    return [(str(path.relative_to(run)), size) for path, size in rows[:MOST]], len(rows) > MOST


def file_of(run: Path, path: str) -> Path | None:
    """Return the file `path` of `run`; None for hidden files, links, and files elsewhere."""
    whole = run / path
    parts = Path(path).parts
    if not parts or any(part == ".." or part.startswith(".") for part in parts) or Path(path).is_absolute():
        return None
    try:
        inside = whole.resolve(strict=True).is_relative_to(run.resolve())
    except (OSError, ValueError):
        return None
    return whole if inside and whole.is_file() else None


REPORTS_KEPT = 8
REPORT_POLICY = "sandbox allow-scripts allow-downloads allow-popups; frame-ancestors 'none'"
"""A report has its own policy, with hashes of its script and style; the sandbox also separates it from other pages."""


class Archive:
    """Answers requests for runs of one folder; each in its own thread."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._reports: OrderedDict[tuple[str, object], str] = OrderedDict()
        # one report at a time, because they need memory
        self._writing = threading.Lock()

    def routes(self) -> list[Route]:
        run = "/run/{name}"
        return [
            Route("/", self.runs),
            Route("/compare", self.compare),
            Route(run, self.run),
            Route(f"{run}/report", self.report),
            Route(f"{run}/trials.csv", self.csv),
            Route(f"{run}/files/{{path:path}}", self.file),
        ]

    def read_ahead(self) -> None:
        """Read what the list needs before the first request: for a thousand runs, most of a second."""
        with suppress(PgdynoError):
            for each in self._index.runs():
                archive_row(each, running=False)

    def runs(self, request: Request) -> Response:
        every = self._index.runs()
        problem, search, found = None, Search(), every
        try:
            search = Search.of(request.query_params)
            found = search.found(every)
        except UsageError as error:
            problem = f"{error.message}: {error.hint}"
        running = [each for each in every if not each.ended and is_running(self._index.path(each.name))]
        versions = {version for each in every for version in each.versions}
        context = {
            "heading": _heading(len(found), len(every)),
            "folder": str(self._index.parent),
            "problem": problem,
            "search": search,
            "narrowed": search != Search(),
            "query": urlencode(request.query_params),
            "workloads": sorted({each.workload for each in every if each.workload}),
            "versions": sorted(versions | {version.partition(".")[0] for version in versions}, key=_by_number),
            "rows": [archive_row(each, running=each in running) for each in found],
            "running": running,
        }
        return HTMLResponse(page("archive", **context))

    def run(self, request: Request) -> Response:
        entry, run = self._requested_run(request)
        files, more = list_files(run.folder.path)
        others = [each for each in self._index.runs() if each.name != entry.name and not each.problem]
        context = {
            "entry": entry,
            "running": not entry.ended and is_running(run.folder.path),
            "facts": [*run_views.facts(run.manifest), ("Trials", f"{entry.trials} of {entry.planned}")],
            "notes": run.manifest.shown_notes,
            "validity": read_validity(run.folder.path),
            "events": disturbance_lines(run.trials)[:MOST_EVENTS],
            "metrics": METRICS,
            "trials": run_views.trial_rows(run),
            "others": sorted(others, key=lambda each: each.fingerprint != entry.fingerprint),
            "files": [(path, format_size(size)) for path, size in files],
            "more_files": more,
        }
        return HTMLResponse(page("run", **context))

    def report(self, request: Request) -> Response:
        entry, run = self._requested_run(request)
        with self._writing:
            text = self._reports.get((entry.name, entry.key))
            if text is None:
                text = report_html([run])
                self._reports[entry.name, entry.key] = text
                if len(self._reports) > REPORTS_KEPT:
                    self._reports.popitem(last=False)
        return HTMLResponse(text, headers={"content-security-policy": REPORT_POLICY})

    def csv(self, request: Request) -> Response:
        entry, run = self._requested_run(request)
        return Response(to_csv(run), media_type="text/csv", headers=_download(f"{entry.name}.csv"))

    def file(self, request: Request) -> Response:
        """Return a file of a run as a download."""
        entry = self._entry(request.path_params["name"])
        found = file_of(self._index.path(entry.name), request.path_params["path"])
        if found is None:
            raise HTTPException(404, "The run has no such file.")
        return FileResponse(found, media_type="application/octet-stream", filename=found.name)

    def compare(self, request: Request) -> Response:
        """Compare two runs; the older one is the baseline unless the address says otherwise."""
        asked = request.query_params
        names = [asked["base"], asked["other"]] if {"base", "other"} <= asked.keys() else asked.getlist("run")
        if len(names) != 2:
            raise UsageError("a comparison needs two runs", hint="select two in the list")
        entries = [self._entry(name) for name in names]
        if "base" not in asked:
            entries.sort(key=lambda each: each.started_at)
        base, other = (load_run(self._index.path(each.name)) for each in entries)
        metric = metric_of(asked)
        found = run_views.compare_runs(base, other, metric)
        context = {name: getattr(found, name) for name in found.__slots__}
        names = [each.name for each in entries]
        return HTMLResponse(
            page("compare", base=names[0], other=names[1], metric=metric.value, metrics=METRICS, **context)
        )

    def _requested_run(self, request: Request) -> tuple[Entry, RunData]:
        entry = self._entry(request.path_params["name"])
        return entry, load_run(self._index.path(entry.name))

    def _entry(self, name: str) -> Entry:
        entry = self._index.get(name)
        if entry is None:
            raise HTTPException(404, "There is no such run.")
        return entry


def explain(_request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return HTMLResponse(page("message", heading="Not found", text=error.detail, hint=None), error.status_code)
    assert isinstance(error, PgdynoError)
    text = f"{error.message[:1].upper()}{error.message[1:]}."
    return HTMLResponse(page("message", heading="This page cannot be shown", text=text, hint=error.hint), 409)


EXPLAINED: dict[type[Exception] | int, Callable[[Request, Exception], Response]] = {
    HTTPException: explain,
    PgdynoError: explain,
}


def _heading(found: int, every: int) -> str:
    return counted(every, "run") if found == every else f"{found:,} of {counted(every, 'run')}"


def _by_number(version: str) -> tuple[list[int], str]:
    return [int(part[:9]) for part in version.split(".") if part.isdecimal()], version


def _download(name: str) -> dict[str, str]:
    plain = "".join(each if each.isalnum() or each in "-_." else "_" for each in name)
    return {"content-disposition": f'attachment; filename="{plain}"'}


MOST_RUNS = 400
"""The newest runs; the records of all their trials are read."""
MOST_SHOWN = 24


@dataclass(frozen=True, slots=True)
class ChangeRow:
    run: str
    started_at: str
    change: str
    before: str
    after: str
    differences: Sequence[str]


@dataclass(frozen=True, slots=True)
class Shown:
    figure: Figure
    said: str
    changes: Sequence[ChangeRow]


class Histories:
    def __init__(self, index: Index) -> None:
        self._index = index
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[Key, RunData]] = OrderedDict()

    def routes(self) -> list[Route]:
        return [Route("/history", self.page)]

    def page(self, request: Request) -> Response:
        """Return the histories of the runs that match a search. Raises UsageError and StoreError."""
        search, metric = Search.of(request.query_params), metric_of(request.query_params)
        entries = [each for each in search.found(self._index.runs()) if not each.problem][:MOST_RUNS]
        runs = self._load_runs(entries)
        manifests = {name: run.manifest for name, run in runs.items()}
        found = histories(runs, metric)
        links = {value: "/history?" + urlencode({**request.query_params, "metric": value}) for value, _ in METRICS}
        prints = {each.fingerprint for each in entries}
        context = {
            "heading": f"{metric.words[:1].upper()}{metric.words[1:]} over {counted(len(runs), 'run')}",
            "metric": metric.value,
            "metrics": [(value, name, links[value]) for value, name in METRICS],
            "machines": len(prints) if len(prints) > 1 else 0,
            "shown": [_history_row(each, metric, at, manifests) for at, each in enumerate(found[:MOST_SHOWN])],
            "not_valid": [each.name for each in entries if is_not_valid(self._index.path(each.name))],
            "left_out": max(len(found) - MOST_SHOWN, 0),
            "narrowed": search != Search(),
        }
        return HTMLResponse(page("history", **context))

    def _load_runs(self, entries: Sequence[Entry]) -> dict[str, RunData]:
        runs = {}
        with self._lock:
            for each in entries:
                known = self._known.get(each.name)
                if known is None or known[0] != each.key:
                    try:
                        known = each.key, load_run(self._index.path(each.name))
                    except StoreError:
                        # it was removed or damaged after it was listed
                        continue
                self._known[each.name] = known
                self._known.move_to_end(each.name)
                runs[each.name] = known[1]
            while len(self._known) > MOST_RUNS:
                self._known.popitem(last=False)
        return runs


def _history_row(of: History, metric: Metric, at: int, manifests: dict[str, Manifest]) -> Shown:
    figures = [point.figure for point in of.points]
    span = f"{_figure(min(figures), metric)} to {_figure(max(figures), metric)}"
    if of.changes is None:
        said = f"{span}; fewer than {FEWEST_RUNS} runs are too few for change points"
    elif not of.changes:
        said = f"{span}; its level did not change"
    else:
        often = "once" if len(of.changes) == 1 else counted(len(of.changes), "time")
        said = f"{span}; its level changed {often}"
    title = f"{of.workload}, {of.label}: {said}"
    rows = [
        ChangeRow(
            run=of.points[each.at].run,
            started_at=of.points[each.at].started_at.isoformat(),
            change=percent(each.ratio),
            before=_figure(each.before, metric),
            after=_figure(each.after, metric),
            differences=differing(*(manifests[point.run] for point in of.points[each.at - 1 : each.at + 1])),
        )
        for each in of.changes or ()
    ]
    figure = drawn_figure(f"history-{at}", title, lambda layout: history_chart(of, metric, title, layout))
    return Shown(figure, said, rows)


def _figure(value: float, metric: Metric) -> str:
    return f"{numbers.ms(value) if metric.is_latency else numbers.rounded(value)} {metric.unit}"
