"""Checks that a schema cannot express: files, folders, and fields that depend on each other."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.errors import Problem
from pgdyno.plan.checks.events import check_events, check_ledger, check_until
from pgdyno.plan.checks.groups import check_scenario
from pgdyno.plan.checks.reset import check_reset
from pgdyno.plan.checks.scripts import check_workload
from pgdyno.plan.checks.searches import check_cheapest, check_search, check_settings_search
from pgdyno.plan.checks.sections import Sections
from pgdyno.plan.checks.sweep import check_sweep
from pgdyno.plan.checks.targets import check_generators, check_instances, check_poolers, check_targets
from pgdyno.plan.checks.trial_conditions import (
    check_control,
    check_counting,
    check_duet,
    check_length,
    check_phases,
    check_stopping,
    check_trial_promises,
)
from pgdyno.plan.plan_document import suggestion

MOST_TRIALS = 100_000
"""More would take years, and are a typing error."""


def check_sections(plan: Sections) -> Iterator[Problem]:
    for check in (
        check_targets,
        check_workload,
        check_poolers,
        check_sweep,
        check_length,
        check_instances,
        check_duet,
        check_trial_promises,
        check_stopping,
        check_counting,
        check_control,
        check_phases,
        _count,
        _check_published,
        _price,
        check_events,
        check_ledger,
        check_until,
        check_generators,
        check_search,
        check_cheapest,
        check_settings_search,
        check_scenario,
        check_reset,
    ):
        yield from check(plan)


def _count(plan: Sections) -> Iterator[Problem]:
    if plan.space is None or plan.trial is None or plan.search is not None:
        return
    count = len(plan.targets) * len(plan.space.points) * plan.trial.most_repeats
    if count > MOST_TRIALS:
        message = f"the plan has {count:,} trials; the maximum is {MOST_TRIALS:,}"
        yield plan.problem(("trial", "repeats"), message, "reduce repeats, or the sweep")


def _price(plan: Sections) -> Iterator[Problem]:
    priced, targets = plan.value_at(("price", "target")), plan.value_at(("target",))
    if isinstance(priced, dict) and isinstance(targets, dict):
        for name in priced.keys() - targets.keys():
            hint = suggestion(name, targets, f"available: {', '.join(targets)}")
            yield plan.problem(("price", "target", name), f"target {name} does not exist", hint)


def _check_published(plan: Sections) -> Iterator[Problem]:
    data = plan.value_at(("published", "data"))
    if not isinstance(data, str):
        return
    # imported here: few plans name any
    from pgdyno.published import published_names

    if data not in (names := published_names()):
        hint = suggestion(data, names, f"available: {', '.join(names)}")
        yield plan.problem(("published", "data"), f"published figures {data} do not exist", hint)
