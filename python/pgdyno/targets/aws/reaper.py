"""`pgdyno reap`: finds what is left at Amazon, by journals and by tags, and removes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.targets.aws.cloud import Cloud
from pgdyno.targets.aws.faults import AwsError
from pgdyno.targets.aws.inventory import Search, in_order
from pgdyno.targets.aws.journal import Journal, journals
from pgdyno.targets.aws.kinds import Kind, Resource
from pgdyno.targets.aws.removal import WITHIN_S, Left, remove_all
from pgdyno.targets.provider import Wanted


@dataclass(frozen=True, slots=True)
class Reaped:
    """What a reaping came to."""

    found: list[Resource]
    left: list[Left]


class Reaper:
    """Looks and removes in all regions that journals name, those that are asked for, and the configured one."""

    def __init__(self, root: Path, regions: Iterable[str] = ()) -> None:
        """With journals of the home `root`. Raises TargetError without credentials."""
        self._journals = list(journals(root))
        named = [*regions, *(each.region for journal in self._journals for each in journal.noted)]
        first = _first(named)
        self._account = first.account()
        self.clouds = {region: first.in_region(region) for region in dict.fromkeys([first.region, *named])}

    @property
    def places(self) -> list[str]:
        """Regions in which it looks."""
        return list(self.clouds)

    def find(self, wanted: Wanted) -> list[Resource]:
        """All that is there of what is `wanted`, in the order of removal. Raises AwsError."""
        return self._meant(self._search(wanted), wanted)

    def reap(self, wanted: Wanted, say: Callable[[str], None], within_s: float = WITHIN_S) -> Reaped:
        """Removes what is `wanted`, and the journals of those of which nothing is left. Raises TargetError."""
        found: dict[tuple[Kind, str], Resource] = {}
        search = self._search(wanted)

        def find() -> Sequence[Resource]:
            now = self._meant(search, wanted)
            found.update({(each.kind, each.id): each for each in now})
            return now

        left = remove_all(self.clouds, find, say, within_s)
        self._close(wanted, {each.resource.run for each in left})
        return Reaped(in_order(found.values()), left)

    def _search(self, wanted: Wanted) -> Search:
        meant = [each for each in self._of_account() if wanted.run in (None, each.run)]
        return Search(self.clouds, [(each, journal.run) for journal in meant for each in journal.noted])

    def _meant(self, search: Search, wanted: Wanted) -> list[Resource]:
        now = datetime.now(UTC)
        until = {journal.run: journal.expires for journal in self._journals}
        found = [replace(each, expires=each.expires or until.get(each.run)) for each in search.find()]
        return [each for each in found if wanted.means(each, now)]

    def strangers(self) -> list[Journal]:
        """Journals of other accounts, of which nothing can be seen with these credentials."""
        return [each for each in self._journals if each.account != self._account]

    def _of_account(self) -> list[Journal]:
        return [each for each in self._journals if each.account == self._account]

    def _close(self, wanted: Wanted, runs_left: set[str]) -> None:
        now = datetime.now(UTC)
        for journal in self._of_account():
            asked = wanted.run in (None, journal.run) and (not wanted.expired or journal.expires <= now)
            if asked and journal.run not in runs_left and journal.hold():
                journal.close()


def _first(named: Sequence[str]) -> Cloud:
    """Of the configured region, which is looked at in any case; where there is none, of the first of `named`."""
    try:
        return Cloud()
    except AwsError as error:
        if error.code != "NoRegion" or not named:
            raise
    return Cloud(named[0])


def run_named(root: Path, text: str) -> str:
    """The run whose name is `text`, or begins with it, where a journal has it. Raises TargetError for several."""
    found = [each.run for each in journals(root) if each.run.startswith(text)]
    if len(found) > 1 and text not in found:
        raise TargetError(f"{len(found)} runs at Amazon begin with {text}", hint=f"name one: {', '.join(found)}")
    # another machine's journal is not here; its tags are
    return text if len(found) != 1 else found[0]
