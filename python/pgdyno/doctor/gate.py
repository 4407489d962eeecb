"""The same checks at the start of a run: what is not fine is said, what cannot work stops it."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.doctor.check import not_fine
from pgdyno.doctor.examine import BRIEF, Servers, examine
from pgdyno.doctor.needs import Needs
from pgdyno.errors import PreflightError
from pgdyno.programs import Engine
from pgdyno.records import Check, CheckVerdict


def preflight(
    needs: Needs, engine: Engine, servers: Servers, notify: Callable[[str], None], step: Callable[[str], None]
) -> list[Check]:
    """Every check, for the manifest.

    `servers` are up already; `notify` is told what is not fine, `step` what is being measured. Raises
    PreflightError when the plan cannot be run on this machine.
    """
    return judged(needs, examine(needs, engine, BRIEF, step, servers=servers), notify)


def judged(needs: Needs, checks: list[Check], notify: Callable[[str], None]) -> list[Check]:
    """`checks`, of which what is not fine has been said. Raises PreflightError when one says stop."""
    for check in not_fine(checks):
        notify(f"{check.verdict.value}: {check.id}: {check.found}: {check.means}")
    stops = [check for check in checks if check.verdict is CheckVerdict.STOP]
    if stops:
        reasons = "; ".join(f"{check.id}: {check.found}: {check.means}" for check in stops)
        hint = "; ".join(dict.fromkeys(check.change for check in stops))
        raise PreflightError(
            f"the plan {needs.plan} cannot be run on this machine: {reasons}",
            hint=f"{hint}; --no-preflight runs it all the same",
        )
    return checks
