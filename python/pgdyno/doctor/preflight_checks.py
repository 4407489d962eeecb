"""Runs the checks at the start of a run: reports problems, and stops the run if it cannot succeed."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.doctor.all_checks import BRIEF, Servers, examine
from pgdyno.doctor.check import not_fine
from pgdyno.doctor.needs import Needs
from pgdyno.errors import PreflightError
from pgdyno.programs import Engine
from pgdyno.records import Check, CheckVerdict


def preflight(
    needs: Needs, engine: Engine, servers: Servers, notify: Callable[[Check], None], step: Callable[[str], None]
) -> list[Check]:
    """Runs every check, for the manifest.

    `servers` are up; `notify` receives problems, `step` the current measurement. Raises PreflightError if the plan
    cannot run on this machine.
    """
    return judged(needs, examine(needs, engine, BRIEF, step, servers=servers), notify)


def judged(needs: Needs, checks: list[Check], notify: Callable[[Check], None]) -> list[Check]:
    """Reports the problems among `checks` and returns all. Raises PreflightError if one is a stop."""
    for check in not_fine(checks):
        notify(check)
    stops = [check for check in checks if check.verdict is CheckVerdict.STOP]
    if stops:
        reasons = "; ".join(f"{check.id}: {check.found}: {check.means}" for check in stops)
        hint = "; ".join(dict.fromkeys(check.change for check in stops))
        raise PreflightError(
            f"plan {needs.plan} cannot run on this machine: {reasons}",
            hint=f"{hint}; to run it regardless: --no-preflight",
        )
    return checks
