"""A pool of your own hosts as a provider of servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pgdyno.plan.model import Plan
from pgdyno.targets.estimate import Estimate
from pgdyno.targets.pool import rental
from pgdyno.targets.pool.loan_journal import Journal, journals
from pgdyno.targets.pool.rental import NO_COST, Left, Loan, give_back, loans
from pgdyno.targets.provider import Provider, Reaped, Wanted
from pgdyno.targets.rental import Say


@dataclass(frozen=True, slots=True)
class Reaper:
    """Finds hosts by journals; a host without a journal here returns itself after its run's expiry."""

    journals: Sequence[Journal]

    @property
    def places(self) -> list[str]:
        return sorted({each.ssh.host for journal in self.journals for each in journal.asked})

    def strangers(self) -> list[Journal]:
        """Return nothing: no account owns the hosts."""
        return []

    def find(self, wanted: Wanted) -> list[Loan]:
        """Return the hosts of runs that `wanted` selects. Raises TargetError."""
        return [loan for journal in self._find_wanted(wanted) for loan in loans(journal)]

    def of_others(self, found: Sequence[Any]) -> list[Loan]:
        """Return nothing: journals are those of this machine's user."""
        del found
        return []

    def reap(self, wanted: Wanted, say: Say) -> Reaped:
        """Give these hosts back. Raises TargetError."""
        found: list[Loan] = []
        left: list[Left] = []
        for journal in self._find_wanted(wanted):
            if not journal.hold():
                say(f"another pgdyno process uses run {journal.run}")
                continue
            found += [Loan(journal.run, each, journal.expires) for each in journal.asked]
            left += give_back(journal, say)
        return Reaped(found, left)

    def _find_wanted(self, wanted: Wanted) -> list[Journal]:
        now = datetime.now(UTC)
        runs = [each for each in self.journals if wanted.run in (None, each.run)]
        return [each for each in runs if not wanted.expired or each.expires <= now]


class Pool(Provider):
    title = "the pool of hosts"
    journals = staticmethod(journals)
    preflight = staticmethod(rental.begin)
    standing = staticmethod(rental.standing)
    left_of = staticmethod(rental.left_of)

    def price(self, plan: Plan, root: Path, hours: float | None = None) -> Estimate:
        del plan, root, hours
        return NO_COST

    def is_standing(self, plan: Plan, root: Path) -> bool:
        return any(each.plan == plan.name and each.ready for each in journals(root))

    def reaper(self, root: Path, regions: Sequence[str], *, all_regions: bool = False) -> Reaper:
        del regions, all_regions
        return Reaper(list(journals(root)))


PROVIDER: Provider = Pool()
