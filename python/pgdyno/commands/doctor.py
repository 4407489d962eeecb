"""`pgdyno doctor`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rich.text import Text

from pgdyno.commands.plan import within_budget
from pgdyno.console import Console
from pgdyno.doctor import THOROUGH, examine, needs_of_machine, needs_of_plan, worst
from pgdyno.doctor.remote import reach_servers
from pgdyno.errors import ExitCode, UsageError
from pgdyno.experiment import scripts_of
from pgdyno.experiment.generators import generator_checks
from pgdyno.messages import Message, message_json
from pgdyno.plan import load_plan
from pgdyno.records import Check, CheckVerdict
from pgdyno.report.terminal.doctor_checks import check_lines
from pgdyno.run import find_engine
from pgdyno.safe_output import print_json
from pgdyno.targets import Home

FORMAT = 1
"""The version of the JSON output."""
CLIENTS_A_CORE = 2
"""The clients per core in the generator check, if no plan sets their number."""


def doctor(
    source: str | None, overrides: Sequence[str], budget: str | None = None, *, json: bool, on: str | None = None
) -> ExitCode:
    """Checks the machine, for the plan `source` within `budget` or in general, and prints the results.

    Raises PgdynoError.
    """
    if source is None and overrides:
        raise UsageError("--set needs a plan", hint="name the plan whose keys to override")
    if source is None and budget is not None:
        raise UsageError("--budget needs a plan", hint="name the plan to fit into the budget")
    if source is None and on is not None:
        raise UsageError("--on needs a plan", hint="name the plan whose other targets to check")
    engine, home = find_engine(), Home.locate()
    loaded = None if source is None else within_budget(load_plan(source, overrides, on), budget)
    gave_up = () if loaded is None else loaded.gave_up
    if loaded is None:
        needs = needs_of_machine(home, CLIENTS_A_CORE * len(os.sched_getaffinity(0)))
    else:
        needs = needs_of_plan(loaded, home, scripts_of(loaded))
    with Console(stderr=True).status("looking") as status:

        def say(text: str) -> None:
            status.update(Text(text))

        servers, away = reach_servers(loaded.plan, say) if loaded else ({}, [])
        checks = [*examine(needs, engine, THOROUGH, say, servers=servers), *away]
        if loaded is not None:
            checks += generator_checks(loaded.plan, engine, needs, servers, say)
    if json:
        print_json(_document(source, gave_up, checks), indent=2)
    else:
        console = Console()
        for less in gave_up:
            console.print(f"to fit the budget: {less}", soft_wrap=True)
        for line in check_lines(checks, console.width if console.is_terminal else None):
            console.print(line, soft_wrap=True)
    return ExitCode.PREFLIGHT if worst(checks) is CheckVerdict.STOP else ExitCode.OK


def _document(source: str | None, gave_up: Sequence[Message], checks: Sequence[Check]) -> dict[str, object]:
    return {
        "format": FORMAT,
        "plan": source,
        "gave_up": [str(each) for each in gave_up],
        "gave_up_details": [message_json(each) for each in gave_up],
        "worst": worst(checks).value,
        "checks": [_check(check) for check in checks],
    }


def _check(check: Check) -> dict[str, object]:
    details = {
        "found_details": message_json(check.state),
        "means_details": message_json(check.consequence) if check.means else None,
    }
    return check.model_dump(mode="json") | details
