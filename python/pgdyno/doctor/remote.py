"""Checks servers over the network, which run before a run begins."""

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
    """Returns libpq's variables by target for servers over the network among `found`."""
    return {
        name: each.address.environment(each.maintenance) for name, each in found.items() if isinstance(each, Reached)
    }


def reach_servers(plan: Plan, say: Callable[[str], None]) -> tuple[dict[str, dict[str, str]], list[Check]]:
    """Connects to a plan's servers; returns their variables, and a check for each that fails."""
    found: dict[str, Found] = {}
    checks: list[Check] = []
    for name, spec in plan.target.items():
        # a rented server does not exist yet
        if isinstance(spec, NetworkTarget) and not isinstance(spec, RentedTarget):
            say(f"reaching {name}")
            try:
                # `doctor` only reads, so that it does not disturb another run
                use = Use(when_busy=WhenBusy.ALONGSIDE)
                found[name] = kind_of(spec).fetch(spec, Home.locate(), SilentProgress(), use)
            except TargetError as error:
                means = "the plan cannot run until the server is reachable"
                checks.append(stop("network.round-trip", f"{name}: {error.message}", means, error.hint or ""))
    return environments(found), checks
