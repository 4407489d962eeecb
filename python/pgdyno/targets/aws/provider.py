"""Amazon as a provider of servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pgdyno.messages import Message
from pgdyno.plan.model import Plan
from pgdyno.targets.aws import location, policy, rental
from pgdyno.targets.aws.boto3_clients import Cloud
from pgdyno.targets.aws.databases.dead_man import DeadManRole
from pgdyno.targets.aws.pricing.duration import copying_s
from pgdyno.targets.aws.pricing.prices import Prices
from pgdyno.targets.aws.pricing.rental_costs import PROVIDER as TITLE
from pgdyno.targets.aws.pricing.rental_costs import configured_region, estimate, hourly_costs
from pgdyno.targets.aws.removal import Reaper
from pgdyno.targets.aws.rental_journal import Resource, journals
from pgdyno.targets.aws.schema import AwsTarget
from pgdyno.targets.estimate import Estimate
from pgdyno.targets.provider import Provider, SelftestTrial, Tried
from pgdyno.targets.rental import Say


class Amazon(Provider):
    title = TITLE
    journals = staticmethod(journals)
    preflight = staticmethod(rental.begin)
    standing = staticmethod(rental.standing)
    is_standing = staticmethod(rental.is_standing)
    left_of = staticmethod(rental.left_of)
    policy = staticmethod(policy.policy)
    own_zone = staticmethod(location.own_zone)

    def price(self, plan: Plan, root: Path, hours: float | None = None) -> Estimate:
        return estimate(plan, Prices(root), configured_region(plan), hours)

    def slower_s(self, plan: Plan) -> float:
        return sum(copying_s(plan, spec) for spec in plan.target.values() if isinstance(spec, AwsTarget))

    def reaper(self, root: Path, regions: Sequence[str], *, all_regions: bool = False) -> Reaper:
        return Reaper(root, regions, all_regions=all_regions)

    def hourly_costs(self, there: Sequence[Resource], root: Path) -> Message | None:
        return hourly_costs(there, Prices(root))

    def dead_man_role(self) -> DeadManRole:
        return DeadManRole(Cloud())

    def selftest(
        self,
        tried: Tried,
        root: Path,
        agree: Callable[[Plan, float], Estimate],
        trial: Callable[[Plan], SelftestTrial],
        say: Say,
    ) -> bool:
        from pgdyno.targets.aws.selftest import selftest

        return selftest(tried, root, agree, trial, say)


PROVIDER: Provider = Amazon()
