"""The estimated cost of rented servers: by the Pricing API, its earlier answer, the package's list, or unknown."""

import json
import re
import tomllib
from datetime import UTC, datetime, timedelta
from importlib.resources import files

import pytest

from pgdyno.commands.support.rental_cost import Consent, agree, as_json, lines
from pgdyno.errors import UsageError
from pgdyno.plan import load_plan
from pgdyno.targets.aws.pricing.duration import hours_of
from pgdyno.targets.aws.pricing.prices import INSTANCES, Prices, Usage, list_prices
from pgdyno.targets.aws.pricing.rental_costs import estimate
from pgdyno.targets.rented.estimate import HOURS_A_MONTH, Origin, price_list
from tests.aws.account import Account
from tests.aws.plans import aurora, rds
from tests.aws.simulator import REGION
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


CATALOGUE = {
    "graviton-pgbench": 11.8532,
    "aurora-sysbench": 5.1028,
    "pgecons-queries": 4.2544,
    "pgecons-tprocc": 3.9102,
}
"""USD an hour by the package's list, which knows all of it."""


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_package_knows_what_the_catalogue_rents(amazon: Account, name: str) -> None:
    amazon.denied = {"pricing:GetProducts"}
    prices = Prices(amazon.folder)
    found = estimate(load_plan(name).plan, prices, "")
    assert (round(found.hourly, 4), [each.what for each in found.unknown]) == (CATALOGUE[name], [])
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
