"""Published figures: complete, and consistent or flawed as their source is."""

import re
from pathlib import Path

import pytest

from pgdyno.published import COLUMNS, published, published_names
from tests.present import present

SETS = published_names()


def test_the_sets_of_the_six_published_benchmarks_are_there() -> None:
    assert SETS == [
        "aurora-sysbench", "graviton-pgbench", "hundred-billion", "pgecons-tprocc", "postgresbench",
        "power8-select-only",
    ]  # fmt: skip


def test_every_column_is_known_and_every_target_described() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/published.md").read_text()
    for name in SETS:
        found = published(name)
        for row in found.rows:
            assert {column for column in row if not column.startswith("variables.")} <= COLUMNS.keys()
        assert {row["target"] for row in found.rows} == set(found.source.target)
        assert found.rows
        # the reference has their number
        assert re.search(rf"^\| `{name}` \|.* {len(found.rows)} \|$", page, re.MULTILINE)
    with pytest.raises(KeyError):
        published("nonsense")


def test_pgbench_figures_obey_littles_law() -> None:
    for name in ("graviton-pgbench", "hundred-billion", "postgresbench"):
        for row in published(name).rows:
            clients = float(row["tps"]) * float(row["latency_mean_ms"]) / 1000
            assert clients == pytest.approx(float(row["clients"]), rel=0.02)


def test_sysbench_rates_are_their_counts() -> None:
    for row in published("aurora-sysbench").rows:
        statements = sum(float(row[name]) for name in ("reads", "writes", "others"))
        assert float(row["qps"]) == pytest.approx(statements / float(row["duration_s"]), rel=0.001)


def test_the_copied_row_of_the_aurora_report_is_kept_as_it_was_printed() -> None:
    last = {
        row["target"]: {name: row[name] for name in row if name != "target"}
        for row in published("aurora-sysbench").rows
        if row["clients"] == 1024
    }
    assert last["r5-4xlarge"] == last["r6g-4xlarge"]
    assert last["r5-8xlarge"] != last["r6g-8xlarge"]


def test_prices_per_tps_of_the_power8_report_come_out() -> None:
    """The report's own: 0.17 and 0.13 EUR on POWER8, 2.03 and 1.07 on x86, at scale 3,000."""
    found = published("power8-select-only")
    prices: dict[str, float] = {}
    for row in found.rows:
        target = str(row["target"])
        about = found.source.target[target]
        hardware, subscription = present(about.hardware_price), present(about.subscription)
        paid = subscription.amount * (subscription.sockets or subscription.cores or 0)
        cost = hardware.amount + (hardware.years or 0) * paid
        if row["scale"] == 3000 and row.get("connections", "including") == "including":
            prices[target] = min(cost / float(row["tps"]), prices.get(target, float("inf")))
    rounded = {target: round(price, 2) for target, price in prices.items()}
    assert rounded == {"power8-9.4.4": 0.17, "power8-9.5beta1": 0.13, "xeon-9.4.4": 2.03, "xeon-9.5devel": 1.07}
