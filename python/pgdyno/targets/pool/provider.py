"""A pool of your own hosts as a provider of servers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.plan.model import Plan
from pgdyno.targets.pool.rental import Rental, begin, borrowed_hosts, give_back, host_of
from pgdyno.targets.rented import provider
from pgdyno.targets.rented.estimate import Estimate
from pgdyno.targets.rented.provider import Provider, Reaped, Wanted
from pgdyno.targets.rented.rental import Leftover, Resource, Say
from pgdyno.targets.rented.rental_journal import Journal


@dataclass
class Reaper(provider.Reaper):
    """Finds hosts by journals; a host without a journal here returns itself after its run's expiry."""

    journals: Sequence[Journal]

    def __post_init__(self) -> None:
        self.places = sorted({each.name for journal in self.journals for each in journal.noted})

    def find(self, wanted: Wanted) -> list[Resource]:
        return [host for journal in self._find_wanted(wanted) for host in borrowed_hosts(journal)]

    def reap(self, wanted: Wanted, say: Say) -> Reaped:
        found: list[Resource] = []
        left: list[Leftover] = []
        for journal in self._find_wanted(wanted):
            if not journal.hold():
                say(f"another pgdyno process uses run {journal.run}")
                continue
            found += [host_of(journal, each) for each in journal.noted]
            left += give_back(journal, say)
        return Reaped(found, left)

    def _find_wanted(self, wanted: Wanted) -> list[Journal]:
        return [each for each in self.journals if wanted.means(each.run, each.expires)]


class Pool(Provider):
    title = "the pool of hosts"
    folder = "pool"

    def price(self, plan: Plan, root: Path, hours: float | None = None) -> Estimate:
        del plan, root, hours
        return Estimate((), None, (), self.title)

    def preflight(self, plan: Plan, root: Path, say: Say, lasts_s: float) -> Rental:
        return begin(plan, root / self.folder, say, lasts_s)

    def rental(self, plan: Plan, journal: Journal, root: Path, say: Say) -> Rental:
        del root
        return Rental(plan, journal, say)

    def reaper(self, root: Path, regions: Sequence[str], *, all_regions: bool = False) -> Reaper:
        del regions, all_regions
        return Reaper(list(self.journals(root)))


PROVIDER: Provider = Pool()
