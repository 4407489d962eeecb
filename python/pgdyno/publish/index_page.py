"""The index of runs: one table, with a body for each group of runs that can be ranked, and one for those that cannot.

Every name and text in it came from outside and is escaped. It is complete without its script, which sorts and filters.
"""

import math
from collections.abc import Collection, Sequence
from datetime import UTC
from functools import cache
from importlib.resources import files
from urllib.parse import quote, urlencode

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup

from pgdyno import __version__
from pgdyno.publish.ranking import Group, Ranked, ranking
from pgdyno.publish.run_entry import Entry
from pgdyno.publish.run_page import PAGE
from pgdyno.report import numbers
from pgdyno.report.html import page_style, policy, template_environment
from pgdyno.safe_output import visible
from pgdyno.units import quantity

LONGEST = {"question": 140, "answer": 220, "validity": 90, "machine": 90, "load": 160, "reason": 300, "setting": 40}
"""Characters of a text, so that a thousand runs take less than 1 MB."""
MOST_SETTINGS = 3


def index_page(entries: Sequence[Entry], *, served: bool = False, running: Collection[str] = ()) -> str:
    """Return the page of `entries`. A server's has what needs one: comparisons, histories, the runs that go on."""
    newest = sorted(entries, key=lambda each: (each.started_at.timestamp() if each.started_at else 0.0, each.name))
    found = ranking(newest[::-1])
    style, script = _style(), _file("index.js")
    versions = {each.partition(".")[0] for entry in entries for each in entry.versions}
    text = (
        _environment()
        .get_template("index.html.j2")
        .render(
            policy=index_policy(served=served),
            style=Markup(style),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
            heading=quantity(len(entries), "run"),
            found=found,
            running=[each for each in entries if each.name in running],
            served=served,
            machines=sorted({_cut(each.machine, "machine") for each in entries if each.machine}),
            versions=sorted(versions, key=lambda each: (len(each), each)),
            version=__version__,
        )
    )
    return visible(text)


def index_policy(*, served: bool) -> str:
    return policy(_style(), _file("index.js"), forms="'self'" if served else "'none'")


def _style() -> str:
    return page_style() + _file("index.css")


def _cut(text: str, of: str) -> str:
    return text if len(text) <= LONGEST[of] else f"{text[: LONGEST[of] - 1].rstrip()}…"


def _place(of: Ranked) -> str:
    return str(of.first) if of.first == of.last else f"{of.first}\u2013{of.last}"


def _mean(of: Ranked) -> str:
    return (numbers.ms if of.entry.metric.is_latency else numbers.round_text)(math.exp(of.mean))


def _interval(of: Ranked) -> str:
    if of.half is None:
        return "too few repeats for an interval"
    unit = 1e6 if of.entry.metric.is_latency else 1.0
    return " to ".join(numbers.distinct_texts(*(math.exp(of.mean + sign * of.half) / unit for sign in (-1, 1))))


def _server(of: Entry, differing: Sequence[str] = ()) -> str:
    told = [f"{name} {_cut(of.settings.get(name, 'default'), 'setting')}" for name in differing[:MOST_SETTINGS]]
    more = len(differing) - len(told)
    versions = [f"PostgreSQL {', '.join(of.versions)}"] if of.versions else []
    return ", ".join([*versions, *told, *([f"{more} more settings"] if more > 0 else [])])


def _title(of: Group) -> str:
    first = of.ranked[0].entry
    return f"{_cut(first.load, 'load')}, on {_cut(first.machine or 'an unknown machine', 'machine')}"


def _about(of: Group) -> str:
    n, first = len(of.ranked), of.ranked[0].entry
    mean = f", the geometric mean of {first.measured} points" if first.measured > 1 else ""
    said = f"{n} runs by {first.metric.words}{mean}"
    if of.has_order:
        return f"{said}. Runs share places where their intervals overlap; all intervals hold together with 95 %."
    few = any(each.half is None for each in of.ranked)
    why = "a run needs six repeats to be told from another" if few else "their intervals overlap"
    return f"{said}. No order is shown: {why}."


def _history(of: Group) -> str:
    first = of.ranked[0].entry
    return urlencode({"workload": first.workload, "fingerprint": first.fingerprint, "metric": first.metric.value})


def _file(name: str) -> str:
    return files("pgdyno.publish").joinpath("static", name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = template_environment(FunctionLoader(_file))
    environment.filters |= {
        "cut": _cut,
        "day": lambda moment: moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M") if moment else numbers.NOTHING,
        "place": _place,
        "mean": _mean,
        "interval": _interval,
        "server": _server,
        "title": _title,
        "about": _about,
        "history": _history,
        "href": lambda of: f"runs/{quote(of.name, safe='')}/{PAGE}",
    }
    return environment
