"""The application: first the guard, then stored runs and running experiments."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from pgdyno.live.experiment_pages import Experiments
from pgdyno.live.history_pages import Histories
from pgdyno.live.pages import EXPLAINED, page, static
from pgdyno.live.run_index import Index
from pgdyno.live.run_pages import RunPages
from pgdyno.live.server.request_guard import COOKIE, ENTER, STATIC, Guard, body_of, new_token, token_fits

LOOPBACK_NAMES = ("localhost",)


@dataclass(frozen=True, slots=True)
class Access:
    token: str | None = None
    """None on the loopback address, which any user of this machine can reach."""
    names: tuple[str, ...] = LOOPBACK_NAMES
    """Host names that a browser may use; addresses are always accepted."""


def make_app(runs: Path, access: Access | None = None) -> Starlette:
    """Return the application for the folder `runs`."""
    access = access or Access()
    form_token = new_token()
    enter = _Enter(access.token)
    index = Index(runs)
    experiments = Experiments(index, form_token)
    stored = RunPages(index)
    routes = [
        *stored.routes(),
        *Histories(index).routes(),
        *experiments.routes(),
        Route(ENTER, enter.form, methods=["GET"]),
        Route(ENTER, enter.take_token, methods=["POST"]),
        Route(STATIC + "{name}", _static),
    ]
    guard = Middleware(Guard, names=access.names, token=access.token, form_token=form_token)
    app = Starlette(routes=routes, middleware=[guard], exception_handlers=EXPLAINED)
    app.state.hub, app.state.stored = experiments.hub, stored
    return app


class _Enter:
    def __init__(self, token: str | None) -> None:
        self._token = token

    def form(self, _request: Request) -> Response:
        if self._token is None:
            return RedirectResponse("/", 303)
        return HTMLResponse(page("enter", wrong=False))

    async def take_token(self, request: Request) -> Response:
        if self._token is None:
            return RedirectResponse("/", 303)
        given = parse_qs((await body_of(request)).decode("utf-8", "replace")).get("token", [""])[0]
        if not token_fits(given, self._token):
            return HTMLResponse(page("enter", wrong=True), 401)
        answer = RedirectResponse("/", 303)
        # a plain session cookie: other sites never send it, and no script reads it
        answer.set_cookie(COOKIE, self._token, httponly=True, samesite="strict", secure=request.url.scheme == "https")
        return answer


def _static(request: Request) -> Response:
    found = static(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "There is no such file.")
    content, media_type = found
    return Response(content, media_type=media_type, headers={"cache-control": "no-cache"})
