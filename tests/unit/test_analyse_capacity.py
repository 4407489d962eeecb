"""Capacity at a latency target, and prices of two arms compared."""

import math

import pytest

from pgdyno.analyse.capacity import capacity_at
from pgdyno.analyse.comparison import compare
from pgdyno.analyse.pairs import Metric
from pgdyno.analyse.price import PriceList, PriceVerdict, compare_prices
from pgdyno.analyse.summary import summarise
from pgdyno.records import Point
from pgdyno.records.promise import parse_latency
from pgdyno.report.analysis import analyse_run, analysis_lines
from pgdyno.report.costs import price_comparison_lines
from pgdyno.report.numbers import NOTHING
from pgdyno.report.report_content import digest
from pgdyno.report.sections.cost import cost_blocks
from pgdyno.report.table import Table
from tests.present import present
from tests.unit.comparison_sample import arms_of
from tests.unit.report_sample import SampleRun, add_trial, manifest


def test_the_highest_throughput_that_meets_the_target() -> None:
    run = SampleRun(manifest(trials_planned=3))
    for clients, tps, mean_us in ((1, 1_000, 900), (2, 1_800, 1_800), (4, 2_000, 9_000)):
        add_trial(run, "pg18", clients, tps, mean_us, seconds=2)
    points = summarise(run)
    found = {limit: capacity_at(points, parse_latency(limit)) for limit in ("p50 < 5ms", "p50 < 100 ms", "p50 < 10us")}
    assert [each and each.point.clients for each in found.values()] == [2, 4, None]
    met = present(found["p50 < 5ms"])
    assert met.closed_loop
    assert met.tps.mean == pytest.approx(1_800, rel=0.02)


def test_a_rate_that_was_not_served_meets_no_target() -> None:
    run = SampleRun(manifest(trials_planned=2))
    for rate, tps, skipped in ((500.0, 500.0, 0), (4_000.0, 600.0, 6_800)):
        point = Point(clients=8, protocol="prepared", rate=rate)
        add_trial(run, "pg18", 8, tps, 900, seconds=2, skipped=skipped, point=point)
    assert present(capacity_at(summarise(run), parse_latency("p99 < 100ms"))).point.point.rate == 500


def test_a_target_that_served_nothing_is_not_missing_in_the_price_list() -> None:
    run = SampleRun(manifest(("pg18", "pg17")))
    add_trial(run, "pg18", 4, 0, 900, failed=8, with_latency=False)
    add_trial(run, "pg17", 4, 100, 900)
    prices = PriceList.model_validate(
        {"currency": "USD", "date": "2026-01-01", "years": 3, "target": {"pg18": {"hourly": [{"amount": 1}]}}}
    )
    _, table, *_ = cost_blocks(digest(run), prices)
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["pg18", "pg17"]
    assert {cell for row in table.rows for cell in row[1:]} == {NOTHING}


def test_the_rates_of_an_open_loop_have_one_capacity() -> None:
    run = SampleRun(manifest(trials_planned=2))
    for rate in (500.0, 1_000.0):
        point = Point(clients=8, protocol="prepared", rate=rate)
        add_trial(run, "pg18", 8, rate, 900, seconds=2, point=point)
    prices = PriceList.model_validate(
        {"currency": "USD", "date": "2026-01-01", "years": 1, "target": {"pg18": {"purchase": [{"amount": 1_000}]}}}
    )
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


@pytest.mark.parametrize("text", ["p99", "p99 > 10ms", "p42 < 1ms", "p99 < 10", "p99 < 0ms"])
def test_malformed_latency_targets(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        parse_latency(text)


def arms(ratio: float, shift: int = 0) -> list[float]:
    return [ratio * 1_000 * (1 + 0.001 * ((at + shift) % 3)) for at in range(8)]


@pytest.mark.parametrize(
    ("ratio", "totals", "verdict"),
    [
        (1.2, (100, 100), PriceVerdict.CHEAPER),
        (1.2, (100, 150), PriceVerdict.DEARER),
        (1.2, (100, 120), PriceVerdict.SAME),
        (1.0, (100, 101), PriceVerdict.INCONCLUSIVE),
    ],
)
def test_prices_have_throughputs_intervals(ratio: float, totals: tuple[float, float], verdict: PriceVerdict) -> None:
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


def test_latency_has_no_price() -> None:
    (comparison,) = compare([arms_of((arms(1.0), arms(1.2)), metric=Metric.P99)])
    assert compare_prices(comparison, 1, 2) == []
