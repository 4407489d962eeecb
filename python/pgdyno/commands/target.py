"""`pgdyno target up | status | down | policy` and `pgdyno reap`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from pgdyno.commands.support.rental_cost import Consent, agree
from pgdyno.console import Console
from pgdyno.errors import ExitCode, TargetError, UsageError
from pgdyno.plan import Plan, load_plan
from pgdyno.plan.kinds import TARGET_KINDS
from pgdyno.plan.targets import RentedTarget
from pgdyno.safe_output import print_json
from pgdyno.targets import Home
from pgdyno.targets.provider import Provider, Wanted, needed_providers, provider_of
from pgdyno.targets.rental import Rental, Resource, is_generator, remove_rental, stamp, take_down
from pgdyno.units import counted, parse_duration_s

NOTHING = (
    "this machine has rented no servers that are still up; to list those of other machines: pgdyno reap --all --dry-run"
)


def up(source: str, overrides: Sequence[str], lasts: str, consent: Consent) -> None:
    """Rents the plan's servers and prints their addresses.

    Raises PgdynoError after removing or listing what was created.
    """
    (plan, provider), lasts_s = _rented_plan(source, overrides), _lasts_s(lasts)
    root = Home.locate().root
    console = _progress()
    found = provider.standing(plan, root, console.print)
    if found is not None:
        console.print(f"already up (run {found.journal.run})")
        _say_where(found)
        return
    agree(plan, consent, lasts_s / 3600)
    rental = provider.preflight(plan, root, console.print, lasts_s)
    try:
        rental.up()
    except BaseException:
        console.print("removing the created resources")
        take_down(rental, lambda note: console.print(str(note)))
        raise
    _say_where(rental)


def status(source: str, overrides: Sequence[str], *, json: bool) -> None:
    """Prints the servers of all runs of the plan. Raises PgdynoError."""
    plan, provider = _rented_plan(source, overrides)
    root = Home.locate().root
    rentals = [(rental, rental.existing()) for rental in provider.left_of(plan, root, lambda _text: None)]
    rows = [_row(*each) for each in rentals]
    if json:
        print_json(rows)
        return
    console = Console(soft_wrap=True)
    if not rows:
        console.print(NOTHING)
    for row in rows:
        console.print(f"run {row['run']}, until {row['expires']}")
        for name, place in row["ready"].items():
            shown = name.removeprefix("@")
            console.print(f"  {shown}: {place['instance']} at {place['host']}, {place['zone']}")
        for words in row["there"]:
            console.print(f"  {words}")
    costs = provider.hourly_costs([each for _, there in rentals for each in there], root)
    if costs is not None:
        console.print(str(costs))


def down(source: str, overrides: Sequence[str]) -> ExitCode:
    """Removes the resources of all runs of the plan and prints what remains. Raises PgdynoError."""
    plan, provider = _rented_plan(source, overrides)
    console = _progress()
    rentals = provider.left_of(plan, Home.locate().root, console.print)
    if not rentals:
        console.print(NOTHING)
    left = 0
    for rental in rentals:
        if not rental.journal.hold():
            raise TargetError(
                f"another pgdyno process uses run {rental.journal.run}", hint="wait until it ends, or stop it"
            )
        left += remove_rental(rental, lambda note: console.print(str(note)))
    if rentals and not left:
        console.print("all resources removed")
    return ExitCode.TARGET if left else ExitCode.OK


def dead_man(*, yes: bool) -> None:
    """Shows the role with which a provider removes expired databases, and creates it with consent.

    Raises PgdynoError.
    """
    console = Console(stderr=True, soft_wrap=True)
    for provider in needed_providers():
        role = provider.dead_man_role()
        if role is None:
            continue
        print_json(role.documents, indent=2)
        console.print(f"role {role.name}, for the schedules that remove expired databases")
        if not yes:
            if not console.is_terminal:
                console.print("it was not created: confirm with --yes, or let an administrator create it")
                continue
            if not typer.confirm("Create it?", err=True):
                raise UsageError("no role was created")
        console.print(role.create())


def print_policy() -> None:
    policies = [policy for provider in needed_providers() if (policy := provider.policy())]
    if not policies:
        raise TargetError("no provider needs permissions: no package of a cloud provider is installed")
    for policy in policies:
        print_json(policy, indent=2)


def _rented_plan(source: str, overrides: Sequence[str]) -> tuple[Plan, Provider]:
    loaded = load_plan(source, overrides)
    provider = provider_of(loaded.plan)
    if provider is None:
        kinds = [f'"{kind}"' for kind, schema in TARGET_KINDS.items() if issubclass(schema, RentedTarget)]
        hint = f"only targets of kind {', '.join(kinds[:-1])} and {kinds[-1]} are rented" if kinds else None
        raise UsageError(f"plan {loaded.source} rents no servers", hint=hint)
    return loaded.plan, provider


def _lasts_s(text: str) -> float:
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise UsageError(f"--for: {error}") from error


def _progress() -> Console:
    return Console(stderr=True, soft_wrap=True)


def _say_where(rental: Rental) -> None:
    console = Console(soft_wrap=True)
    journal = rental.journal
    for name, place in journal.ready.items():
        if is_generator(name):
            console.print(f"generator: {place['instance']} in {place['zone']}, {_login(rental, place)}")
            continue
        console.print(f"{name}: {rental.connection(name).dsn}")
        over_ssh = f", {_login(rental, place)}" if place["login"] else ""
        console.print(f"  {place['instance']} in {place['zone']}, version {place['version']}{over_ssh}")
    console.print(f"up until {stamp(journal.expires)}; to remove them: pgdyno target down")


def _login(rental: Rental, place: dict[str, Any]) -> str:
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


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of `pgdyno reap`."""

    run: str | None
    all: bool
    expired: bool
    regions: tuple[str, ...]
    all_regions: bool = False
    yes: bool = False
    """Also remove what other identities created."""


def reap(asked: Asked, *, look: bool) -> ExitCode:
    """Removes leftover resources, or only lists them with `look`; prints what remains. Raises PgdynoError."""
    selected = (asked.run is not None) + asked.all + asked.expired
    if selected != 1:
        message = "--run, --all and --expired exclude each other" if selected else "no resources selected"
        raise UsageError(message, hint="use one of --run RUN, --all and --expired")
    found = needed_providers()
    if asked.run is not None:
        # only a provider that has the run is asked, or all if no journal here knows it
        found = [each for each in found if each.has_run(Home.locate().root, asked.run)] or found
    codes, errors = [ExitCode.OK], list[TargetError]()
    for provider in found:
        try:
            codes.append(_of(provider, asked, look=look))
        except TargetError as error:
            # the other provider's resources are removed all the same
            errors.append(error)
    if errors:
        raise errors[0]
    return max(codes)


def _of(provider: Provider, asked: Asked, *, look: bool) -> ExitCode:
    root = Home.locate().root
    console = Console(stderr=True, soft_wrap=True)
    reaper = provider.reaper(root, asked.regions, all_regions=asked.all_regions)
    wanted = Wanted(None if asked.run is None else provider.run_named(root, asked.run), asked.expired)
    for journal in reaper.strangers():
        console.print(f"run {journal.run} belongs to account {journal.account}, which these credentials cannot access")
    if look:
        there = reaper.find(wanted)
        for line in _listed(there):
            print(line)
        _print_costs(provider, there, root)
        return ExitCode.OK
    if not asked.yes and wanted.run is None:
        _ask_about_others(reaper.of_others(reaper.find(wanted)), console)
    done = reaper.reap(wanted, console.print)
    left = {each.resource.id for each in done.left}
    for each in done.found:
        if each.id not in left:
            print(f"removed: {each.words}")
    for left_over in done.left:
        print(left_over.message)
    _print_costs(provider, [each.resource for each in done.left], root)
    if not done.found and reaper.places:
        print(f"no resources of pgdyno found ({', '.join(reaper.places)})")
    return ExitCode.TARGET if done.left else ExitCode.OK


def _print_costs(provider: Provider, there: Sequence[Resource], root: Path) -> None:
    costs = provider.hourly_costs(there, root)
    if costs is not None:
        print(costs)


def _ask_about_others(others: Sequence[Resource], console: Console) -> None:
    """Asks before what others created is removed. Raises UsageError without consent."""
    if not others:
        return
    for each in others:
        console.print(f"{each.words}: created by {each.owner}, run {each.run}")
    count = f"{counted(len(others), 'resource')} of others"
    if not console.is_terminal:
        raise UsageError(f"removing {count} needs confirmation", hint="confirm with --yes, or name a run: --run RUN")
    if not typer.confirm(f"Remove {count}?", err=True):
        raise UsageError("nothing was removed")


def _listed(there: Sequence[Resource]) -> Iterator[str]:
    for run in dict.fromkeys(each.run for each in there):
        of_run = [each for each in there if each.run == run]
        until = next((each.expires for each in of_run if each.expires is not None), None)
        yield f"run {run}{'' if until is None else f', until {stamp(until)}'}"
        yield from (f"  {each.words}" for each in of_run)
