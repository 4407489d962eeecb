"""Amazon as a provider of servers."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pgdyno.messages import Message
from pgdyno.plan.model import Plan
from pgdyno.targets.aws import location, policy
from pgdyno.targets.aws.boto3_clients import Cloud
from pgdyno.targets.aws.databases.dead_man import DeadManRole
from pgdyno.targets.aws.pricing.duration import copying_s
from pgdyno.targets.aws.pricing.prices import Prices
from pgdyno.targets.aws.pricing.rental_costs import PROVIDER as TITLE
from pgdyno.targets.aws.pricing.rental_costs import configured_region, estimate, hourly_costs
from pgdyno.targets.aws.removal import Reaper
from pgdyno.targets.aws.rental import begin, open_rental
from pgdyno.targets.aws.schema import PROVIDER as PROVIDER_NAME
from pgdyno.targets.aws.schema import AwsTarget
from pgdyno.targets.rented.estimate import Estimate
from pgdyno.targets.rented.provider import Provider, SelftestTrial, Tried
from pgdyno.targets.rented.rental import Rental, Resource, Say
from pgdyno.targets.rented.rental_journal import Journal


class Amazon(Provider):
    title = TITLE
    folder = PROVIDER_NAME
    policy = staticmethod(policy.policy)
    own_zone = staticmethod(location.own_zone)

    def preflight(self, plan: Plan, root: Path, say: Say, lasts_s: float) -> Rental:
        return begin(plan, root, say, lasts_s)

    def rental(self, plan: Plan, journal: Journal, root: Path, say: Say) -> Rental:
        return open_rental(plan, journal, root, say)

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
