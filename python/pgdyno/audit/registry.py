"""Lists every rule, in the order of reports, and runs them."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.analyse.price import PriceList
from pgdyno.audit.finding import Finding, Rule, Severity
from pgdyno.audit.rules import (
    arithmetic,
    autovacuum_off,
    cache_cold,
    cache_differs,
    cache_resident,
    checkpoint_cycle,
    clock,
    connection_time,
    dataset_differs,
    dips_unexplained,
    drift,
    durability,
    earlier_sessions,
    errors,
    errors_one_arm,
    generator_limited,
    generator_on_server,
    hardware_differs,
    identical_rows,
    littles_law,
    load_imbalance,
    maintenance_one_arm,
    mix_off,
    network_floor,
    no_repeats,
    order_bias,
    other_load,
    outside_plan,
    percentile_of_few,
    placement_differs,
    preflight,
    price_unsound,
    probe_gap,
    repeats_spread,
    scale_below_clients,
    settings_differ,
    skipped,
    standby_lag,
    too_short,
    unsteady,
    version_differs,
    worker_added,
)
from pgdyno.audit.subject import AuditRun, Subject

RULES: Sequence[Rule] = (
    littles_law.RULE,
    arithmetic.RULE,
    identical_rows.RULE,
    price_unsound.RULE,
    network_floor.RULE,
    generator_limited.RULE,
    worker_added.RULE,
    load_imbalance.RULE,
    generator_on_server.RULE,
    preflight.RULE,
    other_load.RULE,
    placement_differs.RULE,
    hardware_differs.RULE,
    settings_differ.RULE,
    version_differs.RULE,
    durability.RULE,
    cache_resident.RULE,
    cache_cold.RULE,
    cache_differs.RULE,
    dataset_differs.RULE,
    autovacuum_off.RULE,
    checkpoint_cycle.RULE,
    maintenance_one_arm.RULE,
    unsteady.RULE,
    dips_unexplained.RULE,
    too_short.RULE,
    no_repeats.RULE,
    repeats_spread.RULE,
    order_bias.RULE,
    drift.RULE,
    earlier_sessions.RULE,
    errors.RULE,
    errors_one_arm.RULE,
    skipped.RULE,
    standby_lag.RULE,
    mix_off.RULE,
    connection_time.RULE,
    outside_plan.RULE,
    percentile_of_few.RULE,
    scale_below_clients.RULE,
    clock.RULE,
    probe_gap.RULE,
)
"""A test compares this list with `docs/reference/audit.md`."""


def audit(run: AuditRun, rules: Sequence[Rule] = RULES, prices: PriceList | None = None) -> list[Finding]:
    """Return what `rules` find in `run`, most severe first, with rules that lack their input last.

    `prices` are those given on the command line; None means the plan's.
    """
    return judged(Subject(run, given_prices=prices), rules)


def judged(subject: Subject, rules: Sequence[Rule] = RULES) -> list[Finding]:
    """Audit a subject that other analyses use, too, so that shared results are computed once."""
    found = [finding for rule in rules for finding in rule.findings(subject)]
    order = list(Severity)
    return sorted(found, key=lambda finding: (not finding.checked, -order.index(finding.severity)))
