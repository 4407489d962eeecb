"""Prices: sums computed by hand, and those printed in the POWER8 report."""

import math
from pathlib import Path

import pytest
from pydantic import ValidationError

from pgdyno.analyse.comparison import Verdict, compare
from pgdyno.analyse.intervals import Estimate
from pgdyno.analyse.price import (
    Costs,
    Hourly,
    Monthly,
    Price,
    PriceList,
    PriceVerdict,
    Purchase,
    Subscription,
    compare_prices,
    price_of,
    prices_of,
)
from pgdyno.errors import StoreError
from pgdyno.plan.model import Plan
from pgdyno.published import published
from pgdyno.published.figures import PublishedTarget
from pgdyno.records import StoppingRule
from tests.present import present
from tests.unit.comparison_sample import arms_of
from tests.unit.plan_sample import load, small_plan, the_problem
from tests.unit.report_sample import manifest


def costs_of(target: PublishedTarget, *, supported: bool = True) -> tuple[Costs, float]:
    """Returns the price of a published target, and its years."""
    hardware, subscription = target.hardware_price, target.subscription
    assert subscription is not None
    bought = Purchase(amount=present(hardware).amount)
    per_socket = subscription.sockets is not None
    yearly = Subscription(
        amount=subscription.amount,
        count=subscription.sockets or subscription.cores or 1,
        per="socket" if per_socket else "core",
    )
    return Costs(purchase=(bought,), subscription=(yearly,) if supported else ()), float(present(hardware).years or 1)


def at(target: str, tps: float, *, supported: bool = True) -> Price:
    costs, years = costs_of(published("power8-select-only").source.target[target], supported=supported)
    return present(price_of(costs, years, Estimate(tps, None, 1)))


@pytest.mark.parametrize(
    ("target", "supported", "tps", "printed"),
    [
        ("power8-9.4.4", True, 365_974, 0.17),
        ("power8-9.5beta1", True, 492_072, 0.13),
        ("xeon-9.4.4", True, 190_000, 2.03),
        ("xeon-9.5devel", True, 360_000, 1.07),
        ("power8-9.5beta1", False, 492_072, 0.08),
        ("xeon-9.4.4", False, 190_000, 0.32),
        ("xeon-9.5devel", False, 360_000, 0.17),
    ],
)
def test_the_power8_reports_prices_are_computed(target: str, supported: bool, tps: float, printed: float) -> None:
    assert round(at(target, tps, supported=supported).per_tps, 2) == printed


def test_one_printed_price_is_not_what_its_inputs_give() -> None:
    """Printed is 0.11 EUR for the hardware of POWER8 with 9.4.4; 38,364 / 365,974 is 0.105, and so 0.10."""
    assert at("power8-9.4.4", 365_974, supported=False).per_tps == pytest.approx(0.1048, abs=5e-5)


def test_all_parts_are_added_up() -> None:
    costs = Costs(
        purchase=(Purchase(amount=1_000, count=2),),
        subscription=(Subscription(amount=100, count=16, per="core"),),
        hourly=(Hourly(amount=0.5),),
        monthly=(Monthly(amount=0.1, count=500, unit="GB"), Monthly(amount=0.065, count=3_000, unit="IOPS")),
    )
    assert costs.total(3) == pytest.approx(2_000 + 3 * (1_600 + 0.5 * 8_760 + 12 * (50 + 195)))


def test_a_million_transactions() -> None:
    """1 an hour and 1,000 tps: 3.6 million transactions for 1."""
    found = present(price_of(Costs(hourly=(Hourly(amount=1.0),)), 2, Estimate(1_000, 100, 6)))
    assert found.per_million == pytest.approx(1 / 3.6)
    assert found.per_million_low == pytest.approx(1 / 3.6 / 1.1)
    assert found.per_million_high == pytest.approx(1 / 3.6 / 0.9)


def test_nothing_served_has_no_price_and_an_interval_to_zero_no_end() -> None:
    assert price_of(Costs(), 1, Estimate(0, None, 1)) is None
    found = present(price_of(Costs(purchase=(Purchase(amount=1),)), 1, Estimate(10, 20, 3)))
    assert found.per_tps_high == math.inf


def test_a_price_claims_no_more_than_the_throughput_that_it_is_made_of() -> None:
    rule = StoppingRule(fewest=10, most=40, by="target", metric="tps", comparisons=1, margin=0.0)
    base = [1000.0, 1001.0, 999.0, 1000.0, 1002.0, 998.0, 1000.0]
    (found,) = compare([arms_of((base, [1.06 * each for each in base]), stopping=rule)])
    assert found.points[0].verdict is Verdict.INCONCLUSIVE
    assert [each.verdict for each in compare_prices(found, 1000.0, 1000.0)] == [PriceVerdict.INCONCLUSIVE]


def test_a_misspelt_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="purchases"):
        PriceList.model_validate(
            {"currency": "EUR", "date": "2026-11-21", "years": 3, "target": {"a": {"purchases": []}}}
        )


PLAN = (
    small_plan(sweep="clients = 4", trial='duration = "5s"')
    + """
[price]
currency = "EUR"
date = 2026-11-01
years = 3
latency = "p99 < 10ms"
[price.target.pg18]
purchase = [{ amount = 1000 }]
"""
)


def test_a_plan_has_prices_and_keeps_them(tmp_path: Path) -> None:
    plan = load(tmp_path, PLAN)
    assert plan.price is not None
    assert plan.price.target["pg18"].total(3) == 1_000
    again = Plan.from_resolved(plan.as_resolved())
    assert again.price == plan.price
    kept = prices_of(manifest(plan=plan.as_resolved()))
    assert kept == plan.price
    assert prices_of(manifest()) is None


def test_prices_of_a_damaged_manifest_are_named() -> None:
    with pytest.raises(StoreError, match=r"plan\.price\.currency: field required"):
        prices_of(manifest(plan={"price": {"years": 3}}))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (PLAN.replace("[price.target.pg18]", "[price.target.pg17]"), "target pg17 does not exist"),
        (PLAN.replace("purchase", "purchases"), "purchases"),
        (PLAN.replace("p99 < 10ms", "p99 > 10ms"), "is not a latency target"),
        (PLAN.replace("years = 3", "years = 0"), "price.years"),
        (PLAN.replace("years = 3", "years = inf"), "price.years"),
        # so short that the price per hour would have no end
        (PLAN.replace("years = 3", "years = 1e-320"), "price.years"),
        (PLAN.replace("amount = 1000", "amount = inf"), "amount"),
        (PLAN.replace("amount = 1000", "amount = 1, count = inf"), "count"),
    ],
)
def test_mistakes_in_a_plans_prices_are_its_problems(tmp_path: Path, wrong: str, said: str) -> None:
    problem = the_problem(tmp_path, wrong)
    assert said in f"{problem.path} {problem.message}"
    assert problem.line is not None
