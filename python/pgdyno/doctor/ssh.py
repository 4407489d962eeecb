"""Checks the database's host over SSH: connection, host key, and probe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdyno.doctor.check import good, unknown, warning
from pgdyno.errors import EngineError
from pgdyno.plan.ssh_words import SshSpec
from pgdyno.records import ALIGNED_US, Check
from pgdyno.remote import RemoteError

if TYPE_CHECKING:
    from pgdyno.probe.look import Looked

NAME = "probe.ssh"


def reach_host(target: str, spec: SshSpec) -> Check:
    """`probe.ssh`: connects as a trial does, copies pgprobe if necessary, and reads the clock."""
    # SSH loads slowly
    from pgdyno.probe.look import look

    try:
        return judged(target, spec, look(spec))
    except EngineError as error:
        return unknown(NAME, f"{target}: {error.message}", change=error.hint or "")
    except RemoteError as error:
        means = "trials run, without samples of the database's host"
        return warning(NAME, f"{target}: {error.message}", means, error.hint or "")


def judged(target: str, spec: SshSpec, looked: Looked) -> Check:
    """Returns the check for the host of `target` from `looked`."""
    clock = looked.clock
    ahead = f"{abs(clock.ahead_us) / 1e3:.1f} ms {'ahead' if clock.ahead_us >= 0 else 'behind'}"
    found = (
        f"{target}: {spec.host} reached as {looked.user} in {looked.connect_s:.1f} s, its host key is known, "
        f"pgprobe {'was copied there and' if looked.copied else 'is there and'} runs; its clock is {ahead}, ± "
        f"{clock.uncertainty_us / 1e3:.1f} ms"
    )
    values = {
        "connect_s": round(looked.connect_s, 3),
        "ahead_us": round(clock.ahead_us),
        "uncertainty_us": round(clock.uncertainty_us),
        "round_trip_us": round(clock.round_trip_us),
    }
    if clock.uncertainty_us > ALIGNED_US:
        means = "seconds of the two hosts may be misaligned by more than 10 ms"
        return warning(NAME, found, means, "use a shorter network path, or a less busy host", values)
    return good(NAME, found, values)
