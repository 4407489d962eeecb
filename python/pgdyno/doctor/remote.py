"""Servers over the network: they are up before a run begins, and far away."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pgdyno.doctor.check import stop
from pgdyno.errors import TargetError
from pgdyno.plan import Plan
from pgdyno.plan.network_target import NetworkTarget
from pgdyno.plan.rented import RentedTarget
from pgdyno.records import Check
from pgdyno.targets import Found, Home, SilentProgress, Use, WhenBusy
from pgdyno.targets.kind import kind_of
from pgdyno.targets.reach import Reached


def environments(found: Mapping[str, Found]) -> dict[str, dict[str, str]]:
    """Variables with which libpq finds those of `found` that are servers over the network, by target."""
    return {
        name: each.address.environment(each.maintenance) for name, each in found.items() if isinstance(each, Reached)
    }


def reach_servers(plan: Plan, say: Callable[[str], None]) -> tuple[dict[str, dict[str, str]], list[Check]]:
    """The same of a plan, whose servers are asked now; and a check of each that cannot be had."""
    found: dict[str, Found] = {}
    checks: list[Check] = []
    for name, spec in plan.target.items():
        # a rented server is not there yet
        if isinstance(spec, NetworkTarget) and not isinstance(spec, RentedTarget):
            say(f"reaching {name}")
            try:
                # nothing is measured there: another's run is not disturbed by a look
                use = Use(when_busy=WhenBusy.ALONGSIDE)
                found[name] = kind_of(spec).fetch(spec, Home.locate(), SilentProgress(), use)
            except TargetError as error:
                means = "the plan cannot be run before the server can be reached"
                checks.append(stop("network.round-trip", f"{name}: {error.message}", means, error.hint or ""))
    return environments(found), checks
