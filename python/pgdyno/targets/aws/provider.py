"""Amazon as a provider of servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pgdyno.messages import Message
from pgdyno.plan.model import Plan
from pgdyno.targets.aws.boto3_clients import Cloud
from pgdyno.targets.aws.databases.dead_man import DeadManRole
from pgdyno.targets.aws.location import own_zone
from pgdyno.targets.aws.policy import policy
from pgdyno.targets.aws.pricing.duration import copying_s
from pgdyno.targets.aws.pricing.prices import Prices
from pgdyno.targets.aws.pricing.rental_costs import PROVIDER as TITLE
from pgdyno.targets.aws.pricing.rental_costs import configured_region, estimate, hourly_costs
from pgdyno.targets.aws.removal import Reaper, run_named
from pgdyno.targets.aws.rental import Rental, begin, is_standing, left_of, standing
from pgdyno.targets.aws.rental_journal import Resource, journals
from pgdyno.targets.aws.schema import AwsTarget
from pgdyno.targets.estimate import Estimate
from pgdyno.targets.provider import Provider, SelftestTrial, Tried
from pgdyno.targets.rental import Say


class Amazon:
    """Delegates each method to a module of this package; `pgdyno.targets.provider` states the contract."""

    title = TITLE

    def price(self, plan: Plan, root: Path, hours: float | None = None) -> Estimate:
        return estimate(plan, Prices(root), configured_region(plan), hours)

    def slower_s(self, plan: Plan) -> float:
        return sum(copying_s(plan, spec) for spec in plan.target.values() if isinstance(spec, AwsTarget))

    def preflight(self, plan: Plan, root: Path, say: Say, lasts_s: float) -> Rental:
        return begin(plan, root, say, lasts_s)

    def standing(self, plan: Plan, root: Path, say: Say) -> Rental | None:
        return standing(plan, root, say)

    def is_standing(self, plan: Plan, root: Path) -> bool:
        return is_standing(plan, root)

    def left_of(self, plan: Plan, root: Path, say: Say) -> list[Rental]:
        return left_of(plan, root, say)

    def reaper(self, root: Path, regions: Sequence[str], *, all_regions: bool = False) -> Reaper:
        return Reaper(root, regions, all_regions=all_regions)

    def has_run(self, root: Path, text: str) -> bool:
        return any(each.run.startswith(text) for each in journals(root))

    def run_named(self, root: Path, text: str) -> str:
        return run_named(root, text)

    def hourly_costs(self, there: Sequence[Resource], root: Path) -> Message | None:
        return hourly_costs(there, Prices(root))

    def policy(self) -> dict[str, Any]:
        return policy()

    def dead_man_role(self) -> DeadManRole:
        return DeadManRole(Cloud())

    def own_zone(self) -> str | None:
        return own_zone()

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
