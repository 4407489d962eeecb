"""The page of one metric over the runs of a folder."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from pgdyno.analyse.history import FEWEST_RUNS, History, histories
from pgdyno.analyse.pairs import Metric
from pgdyno.errors import StoreError
from pgdyno.live.pages import METRICS, metric_of, page
from pgdyno.live.run_index import Index, Key
from pgdyno.publish.run_entry import Entry
from pgdyno.records import Manifest
from pgdyno.report import numbers
from pgdyno.report.analysis import fingerprint_changes
from pgdyno.report.answers.comparison import percent
from pgdyno.report.charts.history import history_chart
from pgdyno.report.charts.page_figures import Figure, drawn_figure
from pgdyno.store import RunData, load_run
from pgdyno.units import quantity

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

    def routes(self) -> list[Route]:
        return [Route("/history", self.page)]

    def page(self, request: Request) -> Response:
        """Return the histories of the runs of a workload and a fingerprint. Raises UsageError and StoreError."""
        metric = metric_of(request.query_params)
        asked = {name: request.query_params.get(name, "") for name in ("workload", "fingerprint")}
        fitting = [each for each in self._index.runs() if not each.problem and _fits(each, asked)]
        entries = fitting[:MOST_RUNS]
        runs = self._load_runs(entries)
        manifests = {name: run.manifest for name, run in runs.items()}
        found = histories(runs, metric)
        links = {value: "/history?" + urlencode({**request.query_params, "metric": value}) for value, _ in METRICS}
        prints = {each.fingerprint for each in entries}
        context = {
            "heading": f"{metric.words[:1].upper()}{metric.words[1:]} over {quantity(len(runs), 'run')}",
            "metric": metric.value,
            "metrics": [(value, name, links[value]) for value, name in METRICS],
            "machines": len(prints) if len(prints) > 1 else 0,
            "shown": [_history_row(each, metric, at, manifests) for at, each in enumerate(found[:MOST_SHOWN])],
            "not_valid": [each.name for each in entries if each.is_not_valid],
            "left_out": max(len(found) - MOST_SHOWN, 0),
            "narrowed": any(asked.values()),
        }
        return HTMLResponse(page("history", **context))

    def _load_runs(self, entries: Sequence[Entry]) -> dict[str, RunData]:
        runs = {}
        keyed = self._index.keyed_runs()
        for each in entries:
            # it may be removed or damaged after it was listed
            with suppress(StoreError, KeyError):
                runs[each.name] = _load(self._index.path(each.name), keyed[each.name][0])
        return runs


@lru_cache(MOST_RUNS)
def _load(run: Path, _key: Key) -> RunData:
    """Return a run, which is read again when its key has changed."""
    return load_run(run)


def _fits(entry: Entry, asked: dict[str, str]) -> bool:
    return all(value in ("", getattr(entry, name)) for name, value in asked.items())


def _history_row(of: History, metric: Metric, at: int, manifests: dict[str, Manifest]) -> Shown:
    figures = [point.figure for point in of.points]
    span = f"{_figure(min(figures), metric)} to {_figure(max(figures), metric)}"
    if of.changes is None:
        said = f"{span}; fewer than {FEWEST_RUNS} runs are too few for change points"
    elif not of.changes:
        said = f"{span}; its level did not change"
    else:
        often = "once" if len(of.changes) == 1 else quantity(len(of.changes), "time")
        said = f"{span}; its level changed {often}"
    title = f"{of.workload}, {of.label}: {said}"
    rows = [
        ChangeRow(
            run=of.points[each.at].run,
            started_at=of.points[each.at].started_at.isoformat(),
            change=percent(each.ratio),
            before=_figure(each.before, metric),
            after=_figure(each.after, metric),
            differences=fingerprint_changes(*(manifests[point.run] for point in of.points[each.at - 1 : each.at + 1])),
        )
        for each in of.changes or ()
    ]
    figure = drawn_figure(f"history-{at}", title, lambda layout: history_chart(of, metric, title, layout))
    return Shown(figure, said, rows)


def _figure(value: float, metric: Metric) -> str:
    return f"{numbers.ms(value) if metric.is_latency else numbers.round_text(value)} {metric.unit}"
