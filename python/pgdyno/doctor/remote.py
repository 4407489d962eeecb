"""Servers over the network, and database hosts over SSH: reachable, known, able to run the probe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pgdyno.doctor.check import good, stop, unknown, warning
from pgdyno.errors import EngineError, TargetError
from pgdyno.messages import Message
from pgdyno.plan import Plan
from pgdyno.plan.hosts import SshSpec
from pgdyno.plan.model import servers_of
from pgdyno.plan.targets import NetworkTarget, RentedTarget
from pgdyno.records import ALIGNED_US, Check
from pgdyno.remote import RemoteError
from pgdyno.targets import Found, Home, SilentProgress, Use, WhenBusy, fetch_target
from pgdyno.targets.dsn.reach import Reached

if TYPE_CHECKING:
    from pgdyno.probe.over_ssh import Looked


def environments(found: Mapping[str, Found]) -> dict[str, dict[str, str]]:
    """Return libpq's variables by target for servers over the network among `found`."""
    return {
        name: each.address.environment(each.maintenance) for name, each in found.items() if isinstance(each, Reached)
    }


def reach_servers(plan: Plan, say: Callable[[str], None]) -> tuple[dict[str, dict[str, str]], list[Check]]:
    """Connect to a plan's servers; return their variables, and a check for each that fails."""
    found: dict[str, Found] = {}
    checks: list[Check] = []
    for name, spec in servers_of(plan).items():
        # a rented server does not exist yet
        if isinstance(spec, NetworkTarget) and not isinstance(spec, RentedTarget):
            say(f"reaching {name}")
            try:
                # `doctor` only reads, so that it does not disturb another run
                use = Use(when_busy=WhenBusy.ALONGSIDE)
                found[name] = fetch_target(name, spec, home=Home.locate(), progress=SilentProgress(), use=use)
            except TargetError as error:
                why = error.message.removeprefix(f"target {name}: ")
                failed = Message("server-unreachable", "{target}: {error}", target=name, error=why)
                means = Message("server-needed", "the plan cannot run until the server is reachable")
                checks.append(stop("network.round-trip", failed, means, error.hint or ""))
    return environments(found), checks


NAME = "probe.ssh"


def reach_host(target: str, spec: SshSpec) -> Check:
    """`probe.ssh`: connects as a trial does, copies pgprobe if necessary, and reads the clock."""
    # SSH loads slowly
    from pgdyno.probe.over_ssh import look

    try:
        return check_host(target, spec, look(spec))
    except EngineError as error:
        failed = Message("host-not-checked", "{target}: {error}", target=target, error=error.message)
        return unknown(NAME, failed, change=error.hint or "")
    except RemoteError as error:
        failed = Message("host-unreachable", "{target}: {error}", target=target, error=error.message)
        means = Message("no-host-samples", "trials run, without samples of the database's host")
        return warning(NAME, failed, means, error.hint or "")


def check_host(target: str, spec: SshSpec, looked: Looked) -> Check:
    clock = looked.clock
    found = Message(
        "host-reached",
        "{target}: {host} reached as {user} in {connect_s:.1f} s, its host key is known, {probe}; {clock}",
        target=target,
        host=spec.host,
        user=looked.user,
        connect_s=looked.connect_s,
        probe=Message("probe-copied", "pgprobe was copied there and runs")
        if looked.copied
        else Message("probe-installed", "pgprobe is installed and runs"),
        clock=Message(
            "clock-offset",
            "its clock is {offset_ms:.1f} ms ahead, ± {uncertainty_ms:.1f} ms"
            if clock.ahead_us >= 0
            else "its clock is {offset_ms:.1f} ms behind, ± {uncertainty_ms:.1f} ms",
            offset_ms=abs(clock.ahead_us) / 1e3,
            uncertainty_ms=clock.uncertainty_us / 1e3,
        ),
    )
    values = {
        "connect_s": round(looked.connect_s, 3),
        "ahead_us": round(clock.ahead_us),
        "uncertainty_us": round(clock.uncertainty_us),
        "round_trip_us": round(clock.round_trip_us),
    }
    if clock.uncertainty_us > ALIGNED_US:
        means = Message("seconds-misaligned", "seconds of the two hosts may be misaligned by more than 10 ms")
        return warning(NAME, found, means, "use a shorter network path, or a less busy host", values)
    return good(NAME, found, values)
