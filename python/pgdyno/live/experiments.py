"""The page of a running experiment, its stream of events, and requests to it."""

from __future__ import annotations

from urllib.parse import quote

from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from pgdyno.analyse.price import prices_of
from pgdyno.errors import UsageError
from pgdyno.live.baseline import earlier
from pgdyno.live.body import body_of
from pgdyno.live.control import Ask, ask
from pgdyno.live.hub import Hub
from pgdyno.live.index import Index
from pgdyno.live.journal import JOURNAL
from pgdyno.live.pages import page
from pgdyno.live.peer import may_ask
from pgdyno.live.watched import Watched
from pgdyno.store import RunFolder
from pgdyno.store.bounded import parsed

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
        """Return the page; for a run without a journal, that of the archive."""
        name = self._name(request)
        if not (self._index.path(name) / JOURNAL).is_file():
            return RedirectResponse(f"/run/{quote(name)}", 303)
        manifest = RunFolder.open(self._index.path(name)).manifest
        host, prices = manifest.host, prices_of(manifest)
        context = {
            "entry": self._index.get(name),
            "cores": host.cores if host else None,
            "strips": STRIPS,
            "rate": prices.hourly() if prices is not None else None,
            "prices": prices,
        }
        return HTMLResponse(page("live", form_token=self._form_token, **context))

    async def stream(self, request: Request) -> Response:
        """Stream updates of the page."""
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
            asked = parsed(await body_of(request))
            what, text = Ask(asked["what"]), str(asked.get("text") or "")
        except (ValueError, KeyError, TypeError) as error:
            raise HTTPException(400, "Unknown request.") from error
        try:
            await run_in_threadpool(ask, self._index.path(name), what, text)
        except UsageError as error:
            return JSONResponse({"problem": f"{error.message}: {error.hint}"}, 409)
        return JSONResponse({"asked": what.value}, 202)

    def _name(self, request: Request) -> str:
        entry = self._index.get(request.path_params["name"])
        if entry is None or entry.problem:
            raise HTTPException(404, "There is no such run.")
        return entry.name
