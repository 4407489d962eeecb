"""`pgdyno reap`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, TargetError, UsageError

if TYPE_CHECKING:
    from pgdyno.console import Console
    from pgdyno.targets.rented.provider import Provider
    from pgdyno.targets.rented.rental import Resource


@dataclass(frozen=True, slots=True)
class ReapCommand:
    """Remove or give back servers that runs left behind.

    Removes rented resources, and gives back borrowed hosts. Finds them by pgdyno's rental journal and by tags; safe to
    repeat. Asks before it removes what another identity created. Prints what remains, and exits with 4 if something
    does.
    """

    run: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Remove resources of this run.", autocompletion=options.complete_runs),
    ] = None
    all_: Annotated[
        bool, typer.Option("--all", help="Remove resources of all runs, including those of other machines.")
    ] = False
    expired: Annotated[bool, typer.Option("--expired", help="Remove only expired resources.")] = False
    regions: Annotated[
        list[str] | None,
        typer.Option(
            "--region", metavar="REGION", help="Search this region as well. Repeatable.  [default: the configured one]"
        ),
    ] = None
    all_regions: Annotated[
        bool, typer.Option("--all-regions", help="Search every region that is enabled for the account.")
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", "--look", help="List resources without removing them.")] = False
    yes: Annotated[bool, typer.Option("--yes", help="Also remove what others created, without asking.")] = False

    def __call__(self) -> ExitCode:
        from pgdyno.targets import Home
        from pgdyno.targets.rented.provider import needed_providers

        selected = (self.run is not None) + self.all_ + self.expired
        if selected != 1:
            message = "--run, --all and --expired exclude each other" if selected else "no resources selected"
            raise UsageError(message, hint="use one of --run RUN, --all and --expired")
        found, root = needed_providers(), Home.locate().root
        if self.run is not None:
            # only a provider that has the run is asked, or all if no journal here knows it
            found = [each for each in found if each.has_run(root, self.run)] or found
        codes, errors = [ExitCode.OK], list[TargetError]()
        for provider in found:
            try:
                codes.append(self._reap_of(provider, root))
            except TargetError as error:
                # the other provider's resources are removed all the same
                errors.append(error)
        if errors:
            raise errors[0]
        return max(codes)

    def _reap_of(self, provider: "Provider", root: Path) -> ExitCode:
        from pgdyno.console import Console
        from pgdyno.targets.rented.provider import Wanted

        console = Console(stderr=True, soft_wrap=True)
        reaper = provider.reaper(root, tuple(self.regions or ()), all_regions=self.all_regions)
        wanted = Wanted(None if self.run is None else provider.run_named(root, self.run), self.expired)
        for journal in reaper.strangers():
            console.print(
                f"run {journal.run} belongs to account {journal.account}, which these credentials cannot access"
            )
        if self.dry_run:
            there = reaper.find(wanted)
            for line in _resource_lines(there):
                print(line)
            _print_costs(provider, there, root)
            return ExitCode.OK
        if not self.yes and wanted.run is None:
            _ask_about_others(reaper.of_others(reaper.find(wanted)), console)
        done = reaper.reap(wanted, console.print)
        left = {(each.resource.run, each.resource.id) for each in done.left}
        for each in done.found:
            if (each.run, each.id) not in left:
                print(f"removed: {each.words}")
        for left_over in done.left:
            print(left_over.message)
        _print_costs(provider, [each.resource for each in done.left], root)
        if not done.found and reaper.places:
            print(f"no resources of pgdyno found ({', '.join(reaper.places)})")
        return ExitCode.TARGET if done.left else ExitCode.OK


def _print_costs(provider: "Provider", there: "Sequence[Resource]", root: Path) -> None:
    costs = provider.hourly_costs(there, root)
    if costs is not None:
        print(costs)


def _ask_about_others(others: "Sequence[Resource]", console: "Console") -> None:
    """Asks before what others created is removed. Raises UsageError without consent."""
    from pgdyno.units import quantity

    if not others:
        return
    for each in others:
        console.print(f"{each.words}: created by {each.owner}, run {each.run}")
    count = f"{quantity(len(others), 'resource')} of others"
    if not console.is_terminal:
        raise UsageError(f"removing {count} needs confirmation", hint="confirm with --yes, or name a run: --run RUN")
    if not typer.confirm(f"Remove {count}?", err=True):
        raise UsageError("nothing was removed")


def _resource_lines(there: "Sequence[Resource]") -> Iterator[str]:
    from pgdyno.targets.rented.rental_journal import stamp

    for run in dict.fromkeys(each.run for each in there):
        of_run = [each for each in there if each.run == run]
        until = next((each.expires for each in of_run if each.expires is not None), None)
        yield f"run {run}{'' if until is None else f', until {stamp(until)}'}"
        yield from (f"  {each.words}" for each in of_run)
