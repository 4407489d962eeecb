"""What rented servers may cost: estimates, their prices and consent, and a run that stops before its limit."""

import itertools
import json
import re
import tomllib
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import pytest

from pgdyno.commands.support.rental_cost import Consent, agree, as_json, lines
from pgdyno.errors import PlanError, StopRunError, UsageError
from pgdyno.experiment.limits.cost_guard import REMOVAL_S, SNAPSHOT_S, CostGuard
from pgdyno.experiment.rented_servers import Renting, lasts_s
from pgdyno.plan import Plan, load_plan, planned_trials
from pgdyno.plan.model import rented_targets
from pgdyno.plan.time_budget.time_and_disk import loading_s, overhead_s
from pgdyno.plan.workload import trial_s
from pgdyno.targets.aws.databases.schema import AuroraTarget
from pgdyno.targets.aws.pricing import rental_costs as costs
from pgdyno.targets.aws.pricing.duration import hours_of
from pgdyno.targets.aws.pricing.metering import accrued_cost
from pgdyno.targets.aws.pricing.prices import INSTANCES, Prices, Usage, list_prices
from pgdyno.targets.aws.pricing.rental_costs import estimate, highest_cost, hourly_costs, items_of
from pgdyno.targets.rented.estimate import HOURS_A_MONTH, RESERVE, Origin, price_list
from pgdyno.targets.rented.rental import GENERATOR, Load
from tests.aws.account import Account, take_snapshot
from tests.aws.plans import CATALOGUE, aurora, ec2, generator, rds, write_plan
from tests.aws.simulator import REGION, Fault
from tests.present import present


def test_instances_and_storage_by_the_hour(amazon: Account) -> None:
    of_rds = rds(storage='"500GB"', iops="13000", throughput="600")
    both = amazon.plan(of_rds, aurora(storage_type='"io-optimized"'))
    found = estimate(both, Prices(amazon.folder), REGION, 2.0)
    assert [
        (each.target, each.what, each.count, each.unit, each.rate.amount if each.rate else None) for each in found.items
    ] == [
        ("rds", "db.m7g.large", 1, "hour", 0.2),
        ("rds", "public address", 1, "hour", 0.005),
        ("rds", "gp3", 500, "GB", 0.1),
        ("rds", "gp3", 1000, "IOPS", 0.02),
        ("rds", "gp3", 100, "MB/s", 0.08),
        ("aurora", "db.r8g.large", 1, "hour", 0.4),
        ("aurora", "public address", 1, "hour", 0.005),
        ("aurora", "io-optimized storage", 1, "GB", 0.25),
    ]
    monthly = 500 * 0.1 + 1000 * 0.02 + 100 * 0.08 + 0.25
    assert found.hourly == pytest.approx(0.2 + 0.4 + 2 * 0.005 + monthly / HOURS_A_MONTH)
    assert found.total == pytest.approx(2 * found.hourly)
    listed = present(price_list(both, found))
    assert listed.target["rds"].total(1.0) == pytest.approx(8760 * 0.205 + 12 * (50 + 20 + 8))
    # asked once for each line
    assert amazon.calls.count("pricing:GetProducts") == 7
    assert estimate(both, Prices(amazon.folder), REGION, 2.0) == found
    assert amazon.calls.count("pricing:GetProducts") == 7


def test_what_a_host_and_its_volumes_cost(amazon: Account) -> None:
    volumes = {
        "data": '{ size = "200GB", iops = 6000, throughput = 500 }',
        "wal": '{ size = "50GB", type = "io2", iops = 40000 }',
    }
    asked = amazon.plan(ec2(**volumes))
    found = estimate(asked, Prices(amazon.folder), REGION, 1.0)
    assert [(each.what, each.count, each.rate.amount if each.rate else None) for each in found.items] == [
        ("m7g.large", 1, 0.1),
        ("public address", 1, 0.005),
        ("gp3", 10, 0.09),
        ("gp3", 200, 0.09),
        ("gp3", 3000, 0.006),
        ("gp3", 375, 0.05),
        ("io2", 50, 0.14),
        ("io2", 32000, 0.07),
        ("io2", 8000, 0.05),
        ("detailed monitoring", 7, 0.4),
    ]
    listed = present(price_list(asked, found))
    assert [(each.count, each.unit) for each in listed.target["ec2"].monthly][-1] == (7, "metrics")


def test_existing_volumes_cost_what_the_plan_estimates(amazon: Account) -> None:
    data, wal = '{ size = "100GB", type = "io2", iops = 40_000 }', "{ size = '10GB', iops = 4_000, throughput = 500 }"
    rented = amazon.rent(ec2(data=data, wal=wal), rds(storage='"400GB"', iops="13000", throughput="600"))
    prices = Prices(amazon.folder)
    # descriptions of resources do not say these
    unsaid = ("public address", "detailed monitoring")
    planned = [each for each in estimate(rented.plan, prices, REGION).items if each.what not in unsaid]
    assert {each.unit for each in planned} == {"hour", "GB", "IOPS", "MB/s"}
    said = present(hourly_costs(rented.existing_resources(), prices))
    assert said.parameters["hourly"] == pytest.approx(sum(each.hourly or 0.0 for each in planned))


def test_a_serverless_instance_costs_its_most_capacity(amazon: Account) -> None:
    for storage, amount in (("standard", 0.14), ("io-optimized", 0.18)):
        capacity = {"instance": '"db.serverless"', "capacity": "{ min = 0.5, max = 64 }"}
        serverless = aurora(storage_type=f'"{storage}"', **capacity)
        found = estimate(amazon.plan(serverless), Prices(amazon.folder), REGION, 2.0)
        (item,) = [each for each in found.items if each.what == "db.serverless"]
        assert item.words == "64 ACU of db.serverless"
        assert item.hourly == pytest.approx(64 * amount)
        assert present(found.most) >= 2 * 64 * amount


def test_each_instance_of_a_target_is_paid_for(amazon: Account) -> None:
    one = estimate(amazon.plan(rds()), Prices(amazon.folder), REGION, 2.0)
    asked = amazon.calls.count("pricing:GetProducts")
    three = amazon.plan(rds(instances="3"), repeats=3)
    found = estimate(three, Prices(amazon.folder), REGION, 2.0)
    assert {each.target for each in found.items} == {"rds.1", "rds.2", "rds.3"}
    assert amazon.calls.count("pricing:GetProducts") == asked
    assert found.hourly == pytest.approx(3 * present(one.hourly))
    # a trial runs on one of them
    listed, listed_one = price_list(three, found), price_list(amazon.plan(rds()), one)
    assert present(listed).target == present(listed_one).target
    assert hours_of(three) == pytest.approx(hours_of(three.from_resolved(three.as_resolved())))


def test_without_an_answer_the_last_one_counts(amazon: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    one = amazon.plan(rds())
    found = estimate(one, Prices(amazon.folder), REGION, 1.0)
    file = amazon.folder / "aws" / "prices.json"
    long_ago = (datetime.now(UTC).date() - timedelta(days=90)).isoformat()
    kept = {key: each | {"asked": long_ago} for key, each in json.loads(file.read_text()).items()}
    file.write_text(json.dumps(kept))
    amazon.denied = {"pricing:GetProducts"}
    prices = Prices(amazon.folder)
    old = estimate(one, prices, REGION, 1.0)
    assert old.total == found.total
    # the package knows addresses in that region, and as of an older day
    assert f"prices are those of Amazon's price list on {long_ago}" in lines(old)
    assert old.source == "Amazon's price list"
    file.write_text("no JSON")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    prices = Prices(amazon.folder)
    none = estimate(one, prices, REGION, 1.0)
    assert (none.total, [each.what for each in none.unknown]) == (None, ["db.m7g.large", "gp3"])
    assert "the rest is unknown: boto3 finds no credentials" in "\n".join(lines(none))
    assert "price-service-failed" in [each["id"] for each in as_json(none)["notes"]]


def test_the_list_of_plans_that_rent_is_complete() -> None:
    plans = [file.stem for file in (Path(str(files("pgdyno"))) / "plans").glob("*.toml")]
    assert {name for name in plans if rented_targets(load_plan(name).plan)} == CATALOGUE.keys()


@pytest.mark.parametrize(("name", "hourly"), [*zip(CATALOGUE, (11.8532, 5.1028, 4.2544, 3.9102), strict=True)])
def test_the_package_knows_what_the_catalogue_rents(amazon: Account, name: str, hourly: float) -> None:
    amazon.denied = {"pricing:GetProducts"}
    prices = Prices(amazon.folder)
    found = estimate(load_plan(name).plan, prices, "")
    assert (round(found.hourly, 4), [each.what for each in found.unknown]) == (hourly, [])
    assert found.total is not None
    assert {each.rate.origin for each in found.items if each.rate} == {Origin.PACKAGE}
    text = "\n".join(lines(found))
    assert re.search(r"prices are list prices of 20\d\d-\d\d-\d\d to 20\d\d-\d\d-\d\d, from the package", text)
    assert "permission pricing:GetProducts is missing" in text
    assert re.search(r"warning: the oldest price is \d{3,} days old", text)
    # what is only assumed is said to be
    requests = [each for each in found.items if each.unit == "I/O"]
    assert ("I/O is assumed, not measured: 1,000 requests per processor and second of load" in text) == bool(requests)
    assert max(len(line) for line in text.splitlines() if "missing" not in line) <= 80
    told = as_json(found)
    assert "price-service-not-queried" in [each["id"] for each in told["notes"]]
    assert {each["origin"] for each in told["items"] if each["asked"]} == {"package"}


def test_every_listed_price_has_its_date_and_public_sources() -> None:
    read = tomllib.loads((files("pgdyno.targets.aws.pricing") / "list_prices.toml").read_text())
    keys = [f"{each['region']} {each['engine']} {kind}" for each in read["list"] for kind in each["usd"]]
    assert len(set(keys)) == len(keys) == len(list_prices())
    for each in read["list"]:
        assert each["sources"]
        assert all(source.startswith("https://") for source in each["sources"])
        assert each["known"] <= datetime.now(UTC).date()
        assert all(0 < amount < 100 for amount in each["usd"].values())


def test_the_newer_of_what_was_asked_and_the_package_counts(amazon: Account) -> None:
    amazon.denied = {"pricing:GetProducts"}
    usage = Usage("us-east-1", "PostgreSQL", INSTANCES, "InstanceUsage:db.r5.2xlarge")
    listed = list_prices()[usage.key]
    (amazon.folder / "aws").mkdir()
    for days, amount in ((-1, listed.amount), (1, 7.0)):
        kept = {usage.key: {"amount": 7.0, "asked": (listed.asked + timedelta(days=days)).isoformat()}}
        (amazon.folder / "aws" / "prices.json").write_text(json.dumps(kept))
        rate = present(Prices(amazon.folder).rate(usage))
        assert rate.amount == amount
    # a line that Amazon says it has not
    amazon.denied = set()
    (amazon.folder / "aws" / "prices.json").unlink()
    assert Prices(amazon.folder).rate(usage) == listed


def test_the_plan_says_for_how_long(amazon: Account) -> None:
    once = estimate(amazon.plan(rds()), Prices(amazon.folder), REGION)
    each = rds(snapshot='"s"', restore='"each-trial"')
    often = estimate(amazon.plan(each, repeats=3), Prices(amazon.folder), REGION)
    assert 1.0 < present(once.hours) < 1.2
    assert 3.0 < present(often.hours) < 3.2


def test_a_volume_by_its_size_and_one_by_its_iops_as_in_a_published_report(amazon: Account) -> None:
    """500 GB for its 1,500 IOPS, or 100 GB with these: 2 and 4.17 USD a day, of months of 30 days (PGECons, 2019)."""
    amazon.denied = {"pricing:GetProducts"}
    told = {"RDS:GP2-Storage": 0.12, "RDS:PIOPS-Storage": 0.142, "RDS:PIOPS": 0.074, "InstanceUsage:db.m7g.large": 0.0}
    rates = {f"{REGION} PostgreSQL {kind}": {"amount": rate, "asked": "2020-02-01"} for kind, rate in told.items()}
    (amazon.folder / "aws").mkdir()
    (amazon.folder / "aws" / "prices.json").write_text(json.dumps(rates))
    months_a_day = {"size": 2.0, "iops": 4.17}
    for by, more in (
        ("size", {"storage": '"500GB"', "storage_type": '"gp2"'}),
        ("iops", {"storage": '"100GB"', "storage_type": '"io1"', "iops": "1500"}),
    ):
        found = estimate(amazon.plan(rds(public="false", **more)), Prices(amazon.folder), REGION, 24.0)
        assert found.total == pytest.approx(months_a_day[by] * 30 / (365 / 12), rel=0.002)


def test_consent_is_to_the_most_that_it_may_cost(amazon: Account, capsys: pytest.CaptureFixture[str]) -> None:
    one = amazon.plan(rds())
    assert agree(one, Consent(yes=True, max_cost=1.0)).total is not None
    with pytest.raises(UsageError, match=r"the estimated cost of 0\.2\d USD exceeds --max-cost 0\.1"):
        agree(one, Consent(yes=True, max_cost=0.1))
    with pytest.raises(UsageError, match="renting servers needs confirmation"):
        agree(one, Consent())
    amazon.denied = {"pricing:GetProducts"}
    other = amazon.plan(rds(instance='"db.x2g.large"'))
    with pytest.raises(UsageError, match="the cost is unknown, so --max-cost 5 cannot be enforced"):
        agree(other, Consent(yes=True, max_cost=5.0))
    # by the prices of the package
    rented = load_plan("graviton-pgbench").plan
    assert agree(rented, Consent(yes=True, max_cost=50.0)).is_listed
    assert "--max-cost is compared with list prices of 2025-11-04 to" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"the estimated cost of 25\.\d+ USD exceeds --max-cost 5"):
        agree(rented, Consent(yes=True, max_cost=5.0))


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
        late_s = min((now - load.since).total_seconds(), costs.UNCOUNTED_S)
        so_far, then = self.without_requests(now, load)
        paid = sum(
            each * (self.io * max(0.0, self.busy_s[name] - late_s) + costs.MOST_IO * late_s)
            for name, each in self.per_request.items()
        )
        return so_far + paid, then + paid + sum(self.per_request.values()) * costs.MOST_IO * load.busy_s

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
            name: costs.io_processors(spec) * rate.amount
            for name, spec in self.plan.target.items()
            if isinstance(spec, AuroraTarget)
            and spec.storage_type == "standard"
            and (rate := self.prices.rate(costs.io_usage(spec.region or self.region))) is not None
        }


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_run_with_the_dearest_choices_stops_before_its_most(amazon: Account, name: str) -> None:
    amazon.denied = {"pricing:GetProducts"}
    rented, prices = load_plan(name).plan, Prices(amazon.folder)
    found = estimate(rented, prices, "")
    assert found.most is not None
    assert present(found.total) < found.most
    for slower, io in ((1.0, costs.IO), (1.0, costs.MOST_IO), (RESERVE, costs.MOST_IO)):
        done, cost = run_on(Dearest(rented, prices, io), found.most, slower)
        assert cost <= found.most
        # what goes as planned comes to its end
        assert (slower, io) != (1.0, costs.IO) or done >= len(planned_trials(rented, 1))


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
        done, cost = run_on(Dearest(rented, prices, costs.IO, REGION), present(found.most), 1.0)
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
    assert rates * 2 + requests * 0.9 < found[0] < rates * 2.1 + requests * 1.1 + 0.2e-6 * 2 * costs.MOST_IO * 600
    assert found[1] - found[0] == pytest.approx(rates + 0.2e-6 * 2 * costs.MOST_IO * 3600, rel=0.01)
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
