"""The page of a running experiment, its event stream, its requests, and earlier runs to compare with."""

from pathlib import Path
from urllib.parse import quote

from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from pgdyno.analyse.price import prices_of
from pgdyno.errors import PgdynoError, UsageError
from pgdyno.live.control import Ask, ask
from pgdyno.live.pages import page
from pgdyno.live.run_index import Index
from pgdyno.live.run_journal import JOURNAL
from pgdyno.live.run_reader import Baseline, Json, Watched, mean_of
from pgdyno.live.server.request_guard import body_of, may_ask
from pgdyno.live.viewers import Hub
from pgdyno.publish.run_entry import Entry
from pgdyno.records import Outcome, TrialRecord
from pgdyno.report.sentences import question
from pgdyno.store import RunFolder, load_run
from pgdyno.store.safe_files import parse_json


def earlier(index: Index, run: Path) -> Baseline:
    """Search the last finished run of the same plan, and of the same fingerprint if both have one."""
    known: dict[str, list[TrialRecord]] = {}

    def at(slug: str, _arm: str, _clients: int) -> Json | None:
        try:
            before = _previous_run(index.runs(), run.name)
            if before is None:
                return None
            if before.name not in known:
                known[before.name] = list(load_run(index.path(before.name)).trials)
        except PgdynoError:
            # the comparison is optional: an error must not break the page
            return None
        trials = [each for each in known[before.name] if _point(each.slug) == _point(slug)]
        found = mean_of([_result(each) for each in trials])
        return found and {**found, "of": before.name}

    return at


def _previous_run(runs: list[Entry], name: str) -> Entry | None:
    this = next((each for each in runs if each.name == name), None)
    if this is None:
        return None
    for each in runs:
        alike = (each.plan, each.workload) == (this.plan, this.workload) and str(each.started_at) < str(this.started_at)
        if alike and each.outcome is Outcome.FINISHED and each.fingerprint == this.fingerprint:
            return each
    return None


def _point(slug: str) -> str:
    return slug.partition("-")[2]


def _result(trial: TrialRecord) -> Json:
    summary = trial.summary
    latency = summary.latency_ns if summary else None
    p99_ms = latency.p99 / 1e6 if latency and latency.p99 is not None else None
    return {"outcome": trial.outcome.value, "tps": summary.rate_tps if summary else None, "p99": p99_ms}


PING_S = 15
STRIPS = [
    ("tps", "Throughput, tps"),
    ("p99", "p99 latency of each second, ms"),
    ("waits", "Active sessions by what they wait for"),
    ("cpu", "CPU of the host"),
    ("disk", "Disk"),
    ("wal", "WAL"),
]
"""Charts of a trial, by their position on the page."""


class Experiments:
    """Answers requests for running experiments in one folder."""

    def __init__(self, index: Index, form_token: str) -> None:
        """`form_token` is what a page needs to send a request to a run."""
        self._index = index
        self._form_token = form_token
        self.hub = Hub(lambda run: Watched(run, earlier(index, run)))

    def routes(self) -> list[Route]:
        return [
            Route("/live/{name}", self.page, methods=["GET"]),
            Route("/live/{name}/stream", self.stream, methods=["GET"]),
            Route("/live/{name}/ask", self.ask, methods=["POST"]),
        ]

    def page(self, request: Request) -> Response:
        """Return the page; for a run without a journal, that of its report."""
        name = self._name(request)
        if not (self._index.path(name) / JOURNAL).is_file():
            return RedirectResponse(f"/runs/{quote(name)}/index.html", 303)
        manifest = RunFolder.open(self._index.path(name)).manifest
        host, prices = manifest.host, prices_of(manifest)
        context = {
            "name": name,
            "workload": manifest.workload,
            "question": question(manifest),
            "cores": host.cores if host else None,
            "strips": STRIPS,
            "rate": prices.hourly() if prices is not None else None,
            "prices": prices,
        }
        return HTMLResponse(page("live", form_token=self._form_token, **context))

    async def stream(self, request: Request) -> Response:
        name = await run_in_threadpool(self._name, request)
        who = request.client.host if request.client else ""
        if self.hub.is_full(who):
            raise HTTPException(503, "Too many pages are open: close some of them.")
        return EventSourceResponse(self.hub.messages(self._index.path(name), who), ping=PING_S)

    async def ask(self, request: Request) -> Response:
        """Handle a request: a mark, or a stop."""
        client = request.client
        if client is None or not may_ask(client.host, client.port):
            raise HTTPException(403, "Only the user who runs this server may do that.")
        name = await run_in_threadpool(self._name, request)
        try:
            asked = parse_json(await body_of(request))
            what, text = Ask(asked["what"]), str(asked.get("text") or "")
        except (ValueError, KeyError, TypeError) as error:
            raise HTTPException(400, "Unknown request.") from error
        try:
            await run_in_threadpool(ask, self._index.path(name), what, text)
        except UsageError as error:
            return JSONResponse({"problem": f"{error.message}: {error.hint}"}, 409)
        return JSONResponse({"asked": what.value}, 202)

    def _name(self, request: Request) -> str:
        _, entry = self._index.keyed_runs().get(request.path_params["name"]) or ((), None)
        if entry is None or entry.problem:
            raise HTTPException(404, "There is no such run.")
        return entry.name
