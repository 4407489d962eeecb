"""`pgdyno doctor`."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, UsageError
from pgdyno.messages import message_json, messages_json

if TYPE_CHECKING:
    from pgdyno.records import Check

FORMAT = 1
"""The version of the JSON output."""
CLIENTS_A_CORE = 2
"""The clients per core in the generator check, if no plan sets their number."""


def doctor(
    plan: Annotated[str | None, typer.Argument(metavar="PLAN", help="Plan to check this machine for.")] = None,
    overrides: options.Set = None,
    on: options.On = None,
    budget: options.Budget = None,
    json: options.Json = False,
) -> ExitCode:
    """Check this machine before a run.

    Prints each check with its verdict and the remedy. Exits with 9 if a check would stop a run. Changes nothing: syncs
    a temporary file where data will be stored and generates load for some seconds.
    """
    from rich.text import Text

    from pgdyno.commands.support.plan_budget import within_budget
    from pgdyno.console import Console
    from pgdyno.doctor import THOROUGH, examine, needs_of_machine, needs_of_plan, worst
    from pgdyno.doctor.remote import reach_servers
    from pgdyno.experiment.generators import generator_checks
    from pgdyno.plan import load_plan
    from pgdyno.programs import find_engine
    from pgdyno.records import CheckVerdict
    from pgdyno.report.terminal.doctor_checks import check_lines
    from pgdyno.safe_output import print_json
    from pgdyno.targets import Home

    for option, given, hint in (
        ("--set", overrides or None, "name the plan whose keys to override"),
        ("--budget", budget, "name the plan to fit into the budget"),
        ("--on", on, "name the plan whose other targets to check"),
    ):
        if plan is None and given is not None:
            raise UsageError(f"{option} needs a plan", hint=hint)
    engine, home = find_engine(), Home.locate()
    loaded = None if plan is None else within_budget(load_plan(plan, overrides or (), on), budget)
    gave_up = () if loaded is None else loaded.gave_up
    if loaded is None:
        needs = needs_of_machine(home, CLIENTS_A_CORE * len(os.sched_getaffinity(0)))
    else:
        needs = needs_of_plan(loaded, home)
    with Console(stderr=True).status("looking") as status:

        def say(text: str) -> None:
            status.update(Text(text))

        servers, away = reach_servers(loaded.plan, say) if loaded else ({}, [])
        checks = [*examine(needs, engine, THOROUGH, say, servers=servers), *away]
        if loaded is not None:
            checks += generator_checks(loaded.plan, engine, needs, servers, say)
    found = worst(checks)
    if json:
        document = {
            "format": FORMAT,
            "plan": plan,
            **messages_json("gave_up", gave_up),
            "worst": found.value,
            "checks": [_check_json(check) for check in checks],
        }
        print_json(document, indent=2)
    else:
        console = Console()
        for less in gave_up:
            console.print(f"to fit the budget: {less}", soft_wrap=True)
        for line in check_lines(checks, console.width if console.is_terminal else None):
            console.print(line, soft_wrap=True)
    return ExitCode.PREFLIGHT if found is CheckVerdict.STOP else ExitCode.OK


def _check_json(check: "Check") -> dict[str, object]:
    details = {
        "found_details": message_json(check.state),
        "means_details": message_json(check.consequence) if check.means else None,
    }
    return check.model_dump(mode="json") | details
