"""Renders pages: every name and message on them came from outside, and is escaped."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from urllib.parse import quote

from jinja2 import ChoiceLoader, Environment, PackageLoader
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pgdyno import __version__
from pgdyno.analyse.pairs import Metric
from pgdyno.errors import PgdynoError, UsageError
from pgdyno.report import numbers
from pgdyno.report.charts import palette
from pgdyno.report.html import page_colours, page_environment
from pgdyno.report.several_runs import short_name
from pgdyno.report.translation import Language
from pgdyno.safe_output import visible

STATIC = {
    "charts.js": "text/javascript",
    "enter.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "live.js": "text/javascript",
    "strips.js": "text/javascript",
    "theme.js": "text/javascript",
}
STYLE = "look.css"
METRICS = [(metric.value, metric.words) for metric in Metric]
"""Metrics of comparisons and histories."""


def metric_of(asked: Mapping[str, str]) -> Metric:
    """Return the metric of an address; by default throughput. Raises UsageError."""
    try:
        return Metric(asked.get("metric", Metric.TPS.value))
    except ValueError as error:
        raise UsageError("there is no such metric", hint=", ".join(metric.value for metric in Metric)) from error


@cache
def _environment() -> Environment:
    report = page_environment(Language.ENGLISH)
    own = PackageLoader("pgdyno.live", "templates")
    environment = report.overlay(loader=ChoiceLoader([own, report.loader or own]))
    environment.filters = environment.filters | {
        "day": _day,
        "tps": lambda value: numbers.NOTHING if value is None else numbers.round_text(value),
        "ms": numbers.ms,
        "short": short_name,
        "part": lambda text: quote(text, safe=""),
    }
    environment.globals = environment.globals | {"version": __version__}
    return environment


def page(name: str, /, **context: object) -> str:
    return visible(_environment().get_template(f"{name}.html.j2").render(context))


@cache
def static(name: str) -> tuple[bytes, str] | None:
    """Return a static file and its media type; None if there is no such file."""
    if name == STYLE:
        return _style().encode(), "text/css"
    media_type = STATIC.get(name)
    if media_type is None:
        return None
    # which draws the report's timeline, too
    folder = ("pgdyno.report", "page") if name == "strips.js" else ("pgdyno.live", "static")
    return files(folder[0]).joinpath(folder[1], name).read_bytes(), media_type


def _style() -> str:
    own = files("pgdyno.live").joinpath("static", "look.css").read_text(encoding="utf-8")
    return f"{page_colours()}{palette.chart_css()}\n{own}"


def _day(text: str | datetime | None) -> str:
    if not text:
        return numbers.NOTHING
    moment = datetime.fromisoformat(text) if isinstance(text, str) else text
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


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
