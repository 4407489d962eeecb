"""`pgdyno target up | status | down | policy`."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from functools import partial
from typing import Any

from rich.console import Console

from pgdyno.commands.cost import Consent, agree
from pgdyno.errors import ExitCode, TargetError, UsageError
from pgdyno.plan import Plan, load_plan
from pgdyno.target import Home
from pgdyno.target.aws.cost import hourly_lines
from pgdyno.target.aws.journal import is_generator
from pgdyno.target.aws.kinds import Resource
from pgdyno.target.aws.life import Rental, begin, left_of, rented_targets, standing
from pgdyno.target.aws.policy import policy
from pgdyno.target.aws.prices import Prices
from pgdyno.target.aws.tags import stamp
from pgdyno.target.aws.take_down import removed, take_down
from pgdyno.units import parse_duration_s

NOTHING = "nothing of it is up, as far as this machine rented it; pgdyno reap --all --look lists what others did, too"


def up(source: str, overrides: Sequence[str], lasts: str, consent: Consent) -> None:
    """Makes the plan's servers and says where they are. Raises PgdynoError; then what was made is gone, or is named."""
    plan, lasts_s = _rented_plan(source, overrides), _lasts_s(lasts)
    root = Home.locate().root
    console = _progress()
    found = standing(plan, root, console.print)
    if found is not None:
        console.print(f"they are up already (run {found.journal.run})", markup=False)
        _say_where(found)
        return
    agree(plan, consent, lasts_s / 3600)
    rental = begin(plan, root, lambda text: console.print(text, markup=False), lasts_s)
    try:
        rental.up()
    except BaseException:
        console.print("removing what was made", markup=False)
        take_down(rental, lambda text: console.print(text, markup=False))
        raise
    _say_where(rental)


def status(source: str, overrides: Sequence[str], *, json: bool) -> None:
    """Prints all that there is of the plan's runs. Raises PgdynoError."""
    plan = _rented_plan(source, overrides)
    root = Home.locate().root
    rentals = [(rental, rental.there()) for rental in left_of(plan, root, lambda _text: None)]
    rows = [_row(*each) for each in rentals]
    if json:
        print(json_module.dumps(rows))
        return
    console = Console(highlight=False, soft_wrap=True)
    if not rows:
        console.print(NOTHING)
    for row in rows:
        console.print(f"run {row['run']}, until {row['expires']}", markup=False)
        for name, place in row["ready"].items():
            shown = name.removeprefix("@")
            console.print(f"  {shown}: {place['instance']} at {place['host']}, {place['zone']}", markup=False)
        for words in row["there"]:
            console.print(f"  {words}", markup=False)
    for line in hourly_lines([each for _, there in rentals for each in there], Prices(root)):
        console.print(line, markup=False)


def down(source: str, overrides: Sequence[str]) -> ExitCode:
    """Removes what all runs of the plan made; says what is left. Raises PgdynoError."""
    plan = _rented_plan(source, overrides)
    console = _progress()
    say = partial(console.print, markup=False)
    rentals = left_of(plan, Home.locate().root, say)
    if not rentals:
        console.print(NOTHING)
    left = 0
    for rental in rentals:
        if not rental.journal.hold():
            raise TargetError(f"another pgdyno uses run {rental.journal.run}", hint="wait for it, or end it")
        left += removed(rental, say)
    if rentals and not left:
        console.print("all of it is removed")
    return ExitCode.TARGET if left else ExitCode.OK


def print_policy() -> None:
    """Prints it as JSON."""
    print(json_module.dumps(policy(), indent=2))


def _rented_plan(source: str, overrides: Sequence[str]) -> Plan:
    loaded = load_plan(source, overrides)
    if not rented_targets(loaded.plan):
        raise UsageError(
            f"plan {loaded.source} rents no servers", hint='targets of kind "ec2", "rds" and "aurora" are rented'
        )
    return loaded.plan


def _lasts_s(text: str) -> float:
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise UsageError(f"--for: {error}") from error


def _progress() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def _say_where(rental: Rental) -> None:
    console = Console(highlight=False, soft_wrap=True)
    journal = rental.journal
    for name, place in journal.ready.items():
        if is_generator(name):
            console.print(
                f"the generator: {place['instance']} in {place['zone']}, {_login(rental, place)}", markup=False
            )
            continue
        console.print(f"{name}: {rental.connection(name).dsn}", markup=False)
        over_ssh = f", {_login(rental, place)}" if place["login"] else ""
        console.print(f"  {place['instance']} in {place['zone']}, version {place['version']}{over_ssh}", markup=False)
    console.print(f"up until {stamp(journal.expires)}; pgdyno target down removes them", markup=False)


def _login(rental: Rental, place: dict[str, Any]) -> str:
    """How people get there, too."""
    keys = rental.journal.keys
    options = f"-F {keys / 'config'} -o UserKnownHostsFile={keys / 'known_hosts'} -p {place['ssh_port']}"
    return f"ssh {options} {place['login']}@{place['host']}"


def _row(rental: Rental, there: Sequence[Resource]) -> dict[str, Any]:
    journal = rental.journal
    return {
        "run": journal.run,
        "expires": stamp(journal.expires),
        "ready": journal.ready,
        "there": [each.words for each in there],
    }
