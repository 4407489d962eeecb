"""Whether a search for settings has one server at one point, and settings that pgdyno may change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgdyno.errors import Problem
from pgdyno.plan.checks.settings import NEEDS_RELOAD, network_refusal, refusal
from pgdyno.plan.model import SearchSpec, TrialSpec
from pgdyno.plan.reading.plan_document import Document
from pgdyno.plan.targets import NetworkTarget, TargetSpec
from pgdyno.plan.values import FEWEST_LOOK
from pgdyno.records import Point

_OWN = ("over", "goal", "trials", "budget")


def check_settings_search(
    search: SearchSpec,
    targets: Mapping[str, TargetSpec],
    trial: TrialSpec | None,
    points: Sequence[Point],
    document: Document,
) -> Iterator[Problem]:
    """Yields problems of a search for settings of `targets`; `points` are empty if the sweep is invalid.

    The server itself decides about names, units and ranges, before the first trial.
    """
    if search.find != "settings":
        for key in _OWN:
            if getattr(search, key):
                yield document.problem(("search", key), 'is valid only with find = "settings"', "remove it")
        return
    if document.data.get("phase"):
        yield document.problem(("search",), "cannot be combined with phases", "remove one of them")
    if not search.over and document.at(("search", "over")) is None:
        yield document.problem(("search",), "lacks the settings", 'such as over.random_page_cost = "1..4"')
    if len(targets) > 1:
        message = f"searches on one server, but the plan has {len(targets)} targets"
        yield document.problem(("search",), message, "write a plan for each target")
    if len(points) > 1:
        message = f"has {len(points)} points, but a search compares settings at one"
        yield document.problem(("sweep",), message, "give one value of each parameter")
    yield from _pairs(trial, document)
    for name in search.over:
        refused = [found for target in targets.values() if (found := _refusal(name, target)) is not None]
        if refused:
            reason, remedy = refused[0]
            yield document.problem(("search", "over", name), f"cannot be searched: {reason}", remedy)


def _refusal(name: str, target: TargetSpec) -> tuple[str, str] | None:
    """Returns why a search cannot change the setting `name` of `target`, with the remedy; None if it can."""
    if (reserved := refusal(name)) is not None:
        return reserved, "remove it"
    reason = network_refusal(name) if isinstance(target, NetworkTarget) else None
    if reason is None or target.restart_command or (target.restart_command == "" and name.lower() in NEEDS_RELOAD):
        return None
    if target.restart_command is not None:
        return "it takes effect when the server starts, and restart is empty", "give the command that restarts it"
    if "restart" in type(target).model_fields:
        return reason, "remove it, or set restart in the target, and use --allow-restart"
    return reason, "remove it"


def _pairs(trial: TrialSpec | None, document: Document) -> Iterator[Problem]:
    # by default there are enough
    given = trial is not None and "repeats" in trial.model_fields_set
    if trial is not None and given and not trial.stops_when_decided and trial.most_repeats < FEWEST_LOOK:
        message = f"is {trial.repeats}: a verdict needs at least {FEWEST_LOOK} pairs"
        yield document.problem(("trial", "repeats"), message, f"set it to {FEWEST_LOOK} or more, or leave it out")
