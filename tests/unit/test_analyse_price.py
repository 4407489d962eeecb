"""Prices: sums computed by hand, those printed in the POWER8 report, of two arms; capacity at a latency target."""

import math
from pathlib import Path

import pytest

from pgdyno.analyse.capacity import capacity_at
from pgdyno.analyse.comparison import Verdict, compare
from pgdyno.analyse.intervals import Estimate
from pgdyno.analyse.pairs import Metric
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
)  # fmt: skip
from pgdyno.analyse.summary import summarise
from pgdyno.errors import StoreError
from pgdyno.plan.model import Plan
from pgdyno.published import published
from pgdyno.published.figures import PublishedTarget
from pgdyno.records import Point, StoppingRule
from pgdyno.records.promise import parse_latency
from pgdyno.report.analysis import analyse_run, analysis_lines
from pgdyno.report.costs import price_comparison_lines
from pgdyno.report.numbers import NOTHING
from pgdyno.report.report_content import digest
from pgdyno.report.sections.cost import cost_blocks
from pgdyno.report.table import Table
from tests.present import present
from tests.unit.comparison_sample import arms_of
from tests.unit.plan_sample import load, small_plan, the_problem
from tests.unit.report_sample import SampleRun, add_trial, manifest


def costs_of(target: PublishedTarget, *, supported: bool = True) -> tuple[Costs, float]:
    hardware, subscription = present(target.hardware_price), present(target.subscription)
    yearly = Subscription(
        amount=subscription.amount,
        count=subscription.sockets or subscription.cores or 1,
        per="core" if subscription.sockets is None else "socket",
    )
    costs = Costs(purchase=(Purchase(amount=hardware.amount),), subscription=(yearly,) if supported else ())
    return costs, float(hardware.years or 1)


def at(target: str, tps: float, *, supported: bool = True) -> Price:
    costs, years = costs_of(published("power8-select-only").source.target[target], supported=supported)
    return present(price_of(costs, years, Estimate(tps, None, 1)))


def test_the_power8_reports_prices_are_computed() -> None:
    """One that it prints is not what its inputs give: 0.11 EUR for the hardware of POWER8 with 9.4.4, and 38,364 /
    365,974 is 0.105, and so 0.10.
    """
    for target, supported, tps, printed in (
        ("power8-9.4.4", True, 365_974, 0.17),
        ("power8-9.5beta1", True, 492_072, 0.13),
        ("xeon-9.4.4", True, 190_000, 2.03),
        ("xeon-9.5devel", True, 360_000, 1.07),
        ("power8-9.5beta1", False, 492_072, 0.08),
        ("xeon-9.4.4", False, 190_000, 0.32),
        ("xeon-9.5devel", False, 360_000, 0.17),
    ):
        assert round(at(target, tps, supported=supported).per_tps, 2) == printed
        assert at("power8-9.4.4", 365_974, supported=False).per_tps == pytest.approx(0.1048, abs=5e-5)


def test_a_price_is_the_sum_of_its_parts_per_transaction() -> None:
    costs = Costs(
        purchase=(Purchase(amount=1_000, count=2),),
        subscription=(Subscription(amount=100, count=16, per="core"),),
        hourly=(Hourly(amount=0.5),),
        monthly=(Monthly(amount=0.1, count=500, unit="GB"), Monthly(amount=0.065, count=3_000, unit="IOPS")),
    )
    assert costs.total(3) == pytest.approx(2_000 + 3 * (1_600 + 0.5 * 8_760 + 12 * (50 + 195)))
    # 1 an hour and 1,000 tps: 3.6 million transactions for 1
    found = present(price_of(Costs(hourly=(Hourly(amount=1.0),)), 2, Estimate(1_000, 100, 6)))
    assert found.per_million == pytest.approx(1 / 3.6)
    assert found.per_million_low == pytest.approx(1 / 3.6 / 1.1)
    assert found.per_million_high == pytest.approx(1 / 3.6 / 0.9)
    assert price_of(Costs(), 1, Estimate(0, None, 1)) is None
    assert present(price_of(Costs(purchase=(Purchase(amount=1),)), 1, Estimate(10, 20, 3))).per_tps_high == math.inf


def price_list(years: int = 3, **targets: object) -> PriceList:
    told = {"currency": "USD", "date": "2026-01-01", "years": years, "target": targets}
    return PriceList.model_validate(told)


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
    assert Plan.from_resolved(plan.as_resolved()).price == plan.price
    assert prices_of(manifest(plan=plan.as_resolved())) == plan.price
    assert prices_of(manifest()) is None
    with pytest.raises(StoreError, match=r"plan\.price\.currency: field required"):
        prices_of(manifest(plan={"price": {"years": 3}}))


def test_mistakes_in_a_plans_prices_are_its_problems(tmp_path: Path) -> None:
    for wrong, said in (
        (PLAN.replace("[price.target.pg18]", "[price.target.pg17]"), "target pg17 does not exist"),
        (PLAN.replace("purchase", "purchases"), "purchases"),
        (PLAN.replace("p99 < 10ms", "p99 > 10ms"), "is not a latency target"),
        (PLAN.replace("p99 < 10ms", "p42 < 10ms"), "is not a latency target"),
        (PLAN.replace("years = 3", "years = 0"), "price.years"),
        (PLAN.replace("years = 3", "years = inf"), "price.years"),
        # so short that the price per hour would have no end
        (PLAN.replace("years = 3", "years = 1e-320"), "price.years"),
        (PLAN.replace("amount = 1000", "amount = inf"), "amount"),
        (PLAN.replace("amount = 1000", "amount = 1, count = inf"), "count"),
    ):
        problem = the_problem(tmp_path, wrong)
        assert said in f"{problem.path} {problem.message}"
        assert problem.line is not None


# ---- capacity at a latency target ----


def test_the_capacity_is_the_highest_throughput_that_meets_the_target_and_the_rate() -> None:
    run = SampleRun(manifest(trials_planned=3))
    for clients, tps, mean_us in ((1, 1_000, 900), (2, 1_800, 1_800), (4, 2_000, 9_000)):
        add_trial(run, "pg18", clients, tps, mean_us, seconds=2)
    points = summarise(run)
    found = {limit: capacity_at(points, parse_latency(limit)) for limit in ("p50 < 5ms", "p50 < 100 ms", "p50 < 10us")}
    assert [each and each.point.clients for each in found.values()] == [2, 4, None]
    met = present(found["p50 < 5ms"])
    assert met.closed_loop
    assert met.tps.mean == pytest.approx(1_800, rel=0.02)
    run = SampleRun(manifest(trials_planned=2))
    for rate, served, skipped in ((500.0, 500.0, 0), (4_000.0, 600.0, 6_800)):
        point = Point(clients=8, protocol="prepared", rate=rate)
        add_trial(run, "pg18", 8, served, 900, seconds=2, skipped=skipped, point=point)
    assert present(capacity_at(summarise(run), parse_latency("p99 < 100ms"))).point.point.rate == 500


def test_costs_have_every_target_and_one_capacity_for_the_rates_of_an_open_loop() -> None:
    run = SampleRun(manifest(("pg18", "pg17")))
    add_trial(run, "pg18", 4, 0, 900, failed=8, with_latency=False)
    add_trial(run, "pg17", 4, 100, 900)
    prices = price_list(pg18={"hourly": [{"amount": 1}]})
    _, table, *_ = cost_blocks(digest(run), prices)
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["pg18", "pg17"]
    assert {cell for row in table.rows for cell in row[1:]} == {NOTHING}
    run = SampleRun(manifest(trials_planned=2))
    for rate in (500.0, 1_000.0):
        point = Point(clients=8, protocol="prepared", rate=rate)
        add_trial(run, "pg18", 8, rate, 900, seconds=2, point=point)
    prices = price_list(years=1, pg18={"purchase": [{"amount": 1_000}]})
    limit = parse_latency("p99 < 100ms")
    lines = list(analysis_lines(analyse_run(run, prices, limit)))
    assert [line.partition(" and ")[0] for line in lines if "tps at p99" in line] == [
        "pg18: 1,000 tps at p99 < 100ms, with 8 clients, rate 1,000,"
    ]
    _, at_rates, at_limit, _ = cost_blocks(digest(run), prices, limit)
    assert isinstance(at_rates, Table)
    assert isinstance(at_limit, Table)
    assert [(row[0], row[3]) for row in at_rates.rows] == [("rate 500", "2.00"), ("rate 1,000", "1.00")]
    assert [(*row[:2], row[3]) for row in at_limit.rows] == [("pg18", "8 clients, rate 1,000", "1.00")]


def arms(ratio: float, shift: int = 0) -> list[float]:
    return [ratio * 1_000 * (1 + 0.001 * ((at + shift) % 3)) for at in range(8)]


def test_prices_have_throughputs_intervals_and_claim_no_more() -> None:
    for ratio, totals, verdict in (
        (1.2, (100, 100), PriceVerdict.CHEAPER),
        (1.2, (100, 150), PriceVerdict.DEARER),
        (1.2, (100, 120), PriceVerdict.SAME),
        (1.0, (100, 101), PriceVerdict.INCONCLUSIVE),
    ):
        (comparison,) = compare([arms_of((arms(1.0), arms(ratio, 1)))])
        (found,) = compare_prices(comparison, *totals)
        assert found.verdict is verdict
        assert found.change == pytest.approx(totals[1] / totals[0] / ratio - 1, abs=1e-3)
        assert found.low <= found.change <= found.high
        interval = present(comparison.points[0].interval)
        assert math.log1p(found.high) - math.log1p(found.low) == pytest.approx(interval.high - interval.low)
        assert found.base_per_tps == pytest.approx(totals[0] / 1_001, rel=1e-3)
        (line,) = price_comparison_lines("a", "b", [found])
        assert line.startswith("price per tps, 1 clients: ")
        (of_latency,) = compare([arms_of((arms(1.0), arms(ratio, 1)), metric=Metric.P99)])
        assert compare_prices(of_latency, *totals) == [], "latency has no price"
    rule = StoppingRule(fewest=10, most=40, by="target", metric="tps", comparisons=1, margin=0.0)
    base = [1000.0, 1001.0, 999.0, 1000.0, 1002.0, 998.0, 1000.0]
    (few,) = compare([arms_of((base, [1.06 * each for each in base]), stopping=rule)])
    assert few.points[0].verdict is Verdict.INCONCLUSIVE
    assert [each.verdict for each in compare_prices(few, 1000.0, 1000.0)] == [PriceVerdict.INCONCLUSIVE]
