"""The cost limit of a run: the run stops before it reaches the limit, with every instance type and trial length."""

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pgdyno.errors import PlanError, StopRunError
from pgdyno.experiment.limits.cost_guard import REMOVAL_S, SNAPSHOT_S, CostGuard
from pgdyno.experiment.rented_servers import Renting, lasts_s
from pgdyno.plan import Plan, load_plan, planned_trials
from pgdyno.plan.model import rented_targets
from pgdyno.plan.time_budget.time_and_disk import loading_s, overhead_s
from pgdyno.plan.workload import trial_s
from pgdyno.targets.aws.databases.schema import AuroraTarget
from pgdyno.targets.aws.pricing.duration import hours_of
from pgdyno.targets.aws.pricing.metering import accrued_cost
from pgdyno.targets.aws.pricing.prices import Prices
from pgdyno.targets.aws.pricing.rental_costs import (
    IO,
    MOST_IO,
    UNCOUNTED_S,
    estimate,
    highest_cost,
    io_processors,
    io_usage,
    items_of,
)
from pgdyno.targets.rented.estimate import RESERVE
from pgdyno.targets.rented.rental import GENERATOR, Load
from tests.aws.account import Account
from tests.aws.instances import take_snapshot
from tests.aws.plans import aurora, ec2, generator, rds, write_plan
from tests.aws.simulator import REGION, Fault
from tests.present import present

CATALOGUE = ("graviton-pgbench", "aurora-sysbench", "pgecons-queries", "pgecons-tprocc")


class Dearest:
    """A rental that got the dearest of every choice, and makes `io` requests per processor and second under load."""

    def __init__(self, rented: Plan, prices: Prices, io: float, region: str = "") -> None:
        self.plan, self.items, self.io = rented, items_of(rented, prices, region, dearest=True), io
        self.began = datetime.now(UTC)
        self.prices, self.region = prices, region
        self.busy_s = dict.fromkeys(rented.target, 0.0)
        """The seconds under load of each target."""

    def accrued_usd(self, now: datetime, load: Load) -> tuple[float, float]:
        # CloudWatch has counted nothing of the last minutes
        late_s = min((now - load.since).total_seconds(), UNCOUNTED_S)
        so_far, then = self.without_requests(now, load)
        paid = sum(
            each * (self.io * max(0.0, self.busy_s[name] - late_s) + MOST_IO * late_s)
            for name, each in self.per_request.items()
        )
        return so_far + paid, then + paid + sum(self.per_request.values()) * MOST_IO * load.busy_s

    def cost(self, now: datetime) -> float:
        """What it has cost in the end, when everything is counted."""
        requests = sum(each * self.io * self.busy_s[name] for name, each in self.per_request.items())
        return self.without_requests(now, Load(self.began, 0.0, 0.0))[0] + requests

    def without_requests(self, now: datetime, load: Load) -> tuple[float, float]:
        since = dict.fromkeys([*self.plan.target, GENERATOR], self.began)
        return present(accrued_cost(self.items, since, {}, now, load, {}))

    @property
    def per_request(self) -> dict[str, float]:
        """USD for a request per second and processor of each cluster."""
        return {
            name: io_processors(spec) * rate.amount
            for name, spec in self.plan.target.items()
            if isinstance(spec, AuroraTarget)
            and spec.storage_type == "standard"
            and (rate := self.prices.rate(io_usage(spec.region or self.region))) is not None
        }


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_run_with_the_dearest_choices_stops_before_its_most(amazon: Account, name: str) -> None:
    amazon.denied = {"pricing:GetProducts"}
    rented, prices = load_plan(name).plan, Prices(amazon.folder)
    found = estimate(rented, prices, "")
    assert found.most is not None
    assert present(found.total) < found.most
    for slower, io in ((1.0, IO), (1.0, MOST_IO), (RESERVE, MOST_IO)):
        done, cost = run_on(Dearest(rented, prices, io), found.most, slower)
        assert cost <= found.most
        # what goes as planned comes to its end
        assert (slower, io) != (1.0, IO) or done >= len(planned_trials(rented, 1))


def run_on(dearest: Dearest, most: float, slower: float) -> tuple[int, float]:
    """Repeats the trials of a plan until the run is stopped; returns how many it made, and what it cost.

    Each takes `slower` times as long as planned.
    """
    rented, loaded, done = dearest.plan, set[str](), 0
    now = dearest.began + timedelta(minutes=30)
    guard = CostGuard(rented, dearest, Renting(most=most), now=lambda: now)  # type: ignore[arg-type]
    for trial in itertools.cycle(planned_trials(rented, 1)):
        try:
            guard.check(trial)
        except StopRunError:
            break
        load_s = 0.0 if trial.target in loaded else loading_s(rented, rented.points())
        needed_s = load_s + overhead_s(rented, trial.point) + (trial_s(rented) or 0.0)
        spec = rented_targets(rented)[trial.target]
        restored_s = spec.restore_s + (SNAPSHOT_S if spec.takes_snapshot and trial.target not in loaded else 0.0)
        loaded.add(trial.target)
        dearest.busy_s[trial.target] += slower * needed_s
        now += timedelta(seconds=slower * needed_s + restored_s)
        done += 1
    return done, dearest.cost(now + timedelta(seconds=REMOVAL_S))


@pytest.mark.parametrize("duration", ["1s", "60s", "1h", "6h"])
def test_a_run_that_goes_as_planned_is_not_stopped(amazon: Account, duration: str) -> None:
    prices = Prices(amazon.folder)
    for repeats in (1, 6):
        targets = aurora(), rds(instead='["db.m8g.large"]')
        rented = amazon.plan(*targets, repeats=repeats, changes=[f"trial.duration={duration}"])
        found = estimate(rented, prices, REGION)
        done, cost = run_on(Dearest(rented, prices, IO, REGION), present(found.most), 1.0)
        assert done >= 2 * repeats
        assert cost <= present(found.most)


def test_servers_outlast_the_planned_run(tmp_path: Path) -> None:
    # a run that copies much data on a slow volume, too
    changes = ["workload.scale=10000", "trial.repeats=40", "reset.method=template"]
    slow = load_plan(write_plan(tmp_path, ec2(data='{ size = "500GB" }')), changes).plan
    for rented in (slow, *(load_plan(name).plan for name in CATALOGUE)):
        assert lasts_s(rented) >= 3600 * (hours_of(rented) or 0.0)


def test_the_dearest_of_instead_counts(amazon: Account) -> None:
    rented = amazon.plan(rds(instead='["db.m8g.large", "db.t4g.micro"]', region='"eu-central-1"'))
    prices = Prices(amazon.folder)
    found = estimate(rented, prices, "")
    assert found.items[0].what == "db.m7g.large"
    dearest = items_of(rented, prices, "", dearest=True)
    assert dearest[0].what == "db.m8g.large"
    assert found.most == highest_cost(dearest, 1.5 * present(found.hours))


def test_accrued_cost_uses_the_price_of_the_created_instance(amazon: Account) -> None:
    def is_taken(asked: dict[str, str]) -> bool:
        return "m7g" in asked["DBInstanceClass"]

    amazon.faults = [Fault("CreateDBInstance", "InsufficientDBInstanceCapacity", when=is_taken)]
    rented = amazon.rent(rds(instead='["db.m8g.large"]', public="false"), aurora(public="false"))
    now = datetime.now(UTC) + timedelta(hours=2)
    found = present(rented.accrued_usd(now, Load(rented.journal.begun, 3600.0, 0.0)))
    rates = 0.3 + 0.1 * 20 / 730 + 0.3 + 0.12 / 730
    requests = 0.2e-6 * 301_000 * 24
    # CloudWatch has counted all but the last minutes of two hours
    assert rates * 2 + requests * 0.9 < found[0] < rates * 2.1 + requests * 1.1 + 0.2e-6 * 2 * MOST_IO * 600
    assert found[1] - found[0] == pytest.approx(rates + 0.2e-6 * 2 * MOST_IO * 3600, rel=0.01)
    (made,) = (each for each in amazon.asked("rds:CreateDBInstance") if each["DBInstanceClass"] == "db.m8g.large")
    assert made["EngineLifecycleSupport"] == "open-source-rds-extended-support-disabled"


def test_the_size_of_a_snapshot_counts_where_it_is_known(amazon: Account) -> None:
    take_snapshot(amazon, "mine")
    amazon.rds.database_snapshots["mine"].allocated_storage = 300
    restored, prices = amazon.plan(rds(snapshot='"mine"', region='"eu-central-1"')), Prices(amazon.folder)
    (volume,) = [each for each in estimate(restored, prices, "").items if each.what == "gp3"]
    assert volume.count == 300
    amazon.denied = {"rds:DescribeDBSnapshots"}
    found = estimate(restored, prices, "")
    assert ([each.what for each in found.unknown], found.most) == (["gp3"], None)


def test_extended_support_is_priced_or_refused(amazon: Account) -> None:
    amazon.denied = {"pricing:GetProducts"}
    old = {"version": '"12"', "region": '"us-east-1"', "instance": '"db.r5.2xlarge"'}
    with pytest.raises(PlanError) as caught:
        amazon.plan(rds(**old))
    assert ["past its standard support" in each.message for each in caught.value.problems] == [True]
    asked = amazon.plan(rds(extended_support="true", **old))
    (support,) = [each for each in estimate(asked, Prices(amazon.folder), "").items if each.unit == "vCPU"]
    assert support.count == 8
    assert support.hourly == pytest.approx(0.8)


def test_a_copy_takes_as_long_as_the_volume_lets_it(amazon: Account) -> None:
    hours = []
    for more in ({}, {"storage": '"400GB"'}):
        targets = rds(region='"eu-central-1"', **more), generator(instance='"t4g.micro"')
        changes = ["workload.scale=1000", "reset.method=template"]
        asked = amazon.plan(*targets, repeats=10, changes=changes)
        hours.append(present(estimate(asked, Prices(amazon.folder), "").hours))
    # ten copies of 15 GB, read and written at 125 MB/s or at 500 MB/s, where a local disk's 300 MB/s are assumed
    assert hours[0] - hours[1] > 10 * 15_000 * (2 / 125 - 1 / 300) / 3600 * 0.9
