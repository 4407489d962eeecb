"""The pages of stored runs: those of `pgdyno publish`, and comparisons of two runs."""

import threading
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryFile, gettempdir

from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from pgdyno.errors import PgdynoError, UsageError
from pgdyno.live.control import is_running
from pgdyno.live.pages import METRICS, metric_of, page
from pgdyno.live.run_index import Index, Key, Keyed
from pgdyno.live.run_views import compare_runs
from pgdyno.publish.index_page import index_page, index_policy
from pgdyno.publish.raw_files import RawFiles
from pgdyno.publish.run_page import CSV, PAGE, RAW, run_page
from pgdyno.report.export import to_csv
from pgdyno.report.full_report import whole_report
from pgdyno.safe_output import visible
from pgdyno.store import RunData, load_run
from pgdyno.store.safe_files import store_errors

PAGES_KEPT = 8
_PIECE = 1 << 20
NO_FRAMES = "frame-ancestors 'none'"
PAGE_POLICY = f"sandbox allow-scripts allow-downloads allow-popups; {NO_FRAMES}"
"""A page has the rest in its head, with the hashes of its script and style; the sandbox separates it from others."""


class RunPages:
    """Answers requests for runs of one folder; each in its own thread."""

    def __init__(self, index: Index) -> None:
        self._index = index
        # one page at a time, because reports need memory
        self._writing = threading.Lock()

    def routes(self) -> list[Route]:
        run = "/runs/{name}/"
        return [
            Route("/", self.runs),
            Route("/index.html", self.runs),
            Route("/compare", self.compare),
            Route(run + PAGE, self.run),
            Route(run + CSV, self.csv),
            Route(run + RAW, self.raw),
        ]

    def read_ahead(self) -> None:
        """Read what the index needs before the first request: for a thousand runs, seconds."""
        with suppress(PgdynoError):
            self._index.runs()

    def runs(self, _request: Request) -> Response:
        every = self._index.runs()
        running = {each.name for each in every if not each.ended and is_running(self._index.path(each.name))}
        text = index_page(every, served=True, running=running)
        return HTMLResponse(text, headers={"content-security-policy": f"{index_policy(served=True)}; {NO_FRAMES}"})

    def run(self, request: Request) -> Response:
        name = request.path_params["name"]
        key, _ = self._found(name)
        with self._writing:
            text = _page_of(self._index.path(name), key)
        return HTMLResponse(text, headers={"content-security-policy": PAGE_POLICY})

    def csv(self, request: Request) -> Response:
        text = visible(to_csv(self._requested_run(request)))
        return Response(text, media_type="text/csv", headers=_attachment(CSV))

    def raw(self, request: Request) -> Response:
        raw = RawFiles(self._requested_run(request))
        with ExitStack() as stack, store_errors("write", Path(gettempdir()), None):
            file = stack.enter_context(TemporaryFile())
            raw.write_to(file)
            headers = _attachment(RAW) | {"content-length": str(file.tell())}
            file.seek(0)
            close = stack.pop_all().close
        pieces = iter(lambda: file.read(_PIECE), b"")
        return StreamingResponse(pieces, headers=headers, background=BackgroundTask(close))

    def compare(self, request: Request) -> Response:
        """Compare two runs; the older one is the baseline unless the address says otherwise."""
        asked = request.query_params
        names = [asked["base"], asked["other"]] if {"base", "other"} <= asked.keys() else asked.getlist("run")
        if len(names) != 2:
            raise UsageError("a comparison needs two runs", hint="select two in the list")
        entries = [entry for _, entry in map(self._found, names)]
        if "base" not in asked:
            entries.sort(key=lambda each: str(each.started_at))
        base, other = (load_run(self._index.path(each.name)) for each in entries)
        metric = metric_of(asked)
        headline, shown = compare_runs(base, other, metric)
        context = {"base": entries[0].name, "other": entries[1].name, "metric": metric.value, "metrics": METRICS}
        return HTMLResponse(page("compare", headline=headline, shown=shown, **context))

    def _requested_run(self, request: Request) -> RunData:
        name = request.path_params["name"]
        self._found(name)
        return load_run(self._index.path(name))

    def _found(self, name: str) -> Keyed:
        found = self._index.keyed_runs().get(name)
        if found is None:
            raise HTTPException(404, "There is no such run.")
        return found


@lru_cache(PAGES_KEPT)
def _page_of(path: Path, _key: Key) -> str:
    """Return the page of a run, which is written again when its key has changed."""
    run = load_run(path)
    raw = RawFiles(run)
    return run_page(whole_report([run], location=raw.folder), raw)


def _attachment(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}"'}
