"""Whether a plan's two arms can be measured at the same time (`trial.order = "duet"`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgdyno.errors import Problem
from pgdyno.plan.model import Reset, TrialSpec
from pgdyno.plan.reading.plan_document import Document
from pgdyno.plan.sweeps.order import arms
from pgdyno.plan.sweeps.points import Space
from pgdyno.plan.targets import OwnTarget, TargetSpec
from pgdyno.processors import own_halves

_ORDER = ("trial", "order")
_OTHERWISE = 'use order = "interleaved"'


def check_duet(
    targets: Mapping[str, TargetSpec], space: Space | None, trial: TrialSpec, reset: Reset | None, document: Document
) -> Iterator[Problem]:
    """Yields each reason why the trials of a duet cannot run in pairs on this host."""
    if trial.order != "duet":
        return
    yield from _targets(targets, space, document)
    for key in ("generator", "generators"):
        if document.data.get(key) not in (None, "here", []):
            message = (
                'cannot be combined with order = "duet": each half of this host\'s processors has its own generator'
            )
            yield document.problem((key,), message, f"remove it, or {_OTHERWISE}")
    if document.data.get("search") is not None:
        message = 'is not possible with order = "duet", whose throughput depends on the other target'
        yield document.problem(("search",), message, f"remove it, or {_OTHERWISE}")
    if trial.transactions is not None:
        message = "cannot limit the trials of a duet: the faster target would finish first"
        yield document.problem(("trial", "transactions"), message, "set trial.duration")
    if reset is not None and reset.drop_cache == "machine":
        message = 'is not possible with order = "duet": it would drop the cache of the other target, too'
        yield document.problem(("reset", "drop_cache"), message, 'set it to "files"')
    try:
        own_halves()
    except ValueError as error:
        message = f"duet needs an even number of processors on this host: {error}"
        yield document.problem(_ORDER, message, _OTHERWISE)


def _targets(targets: Mapping[str, TargetSpec], space: Space | None, document: Document) -> Iterator[Problem]:
    named = document.data.get("target")
    count = len(named) if isinstance(named, dict) else len(targets)
    if count != 2:
        message = f"duet compares exactly two targets, each with its own server, but the plan has {count}"
        yield document.problem(_ORDER, message, _OTHERWISE)
    elif space is not None and len(targets) == 2 and len(arms(list(targets), space.points)) > 2:
        message = "duet compares exactly two targets, and the settings of the sweep make more arms of them"
        yield document.problem(_ORDER, message, "give each target its settings, or " + _OTHERWISE)
    for name, target in targets.items():
        if not isinstance(target, OwnTarget):
            message = f"duet needs servers that pgdyno starts on this host, and does not start that of target {name}"
            yield document.problem(_ORDER, message, _OTHERWISE)
