"""`pgdyno compare` with prices: what they are based on, and when they are not compared."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_compare import stored
from tests.json_schema import validated


def priced(parent: Path, date: str, amount: float, left_out: Sequence[str] = (), currency: str = "USD") -> str:
    prices = {
        "currency": currency,
        "date": date,
        "years": 3,
        "left_out": list(left_out),
        "target": {"pg18": {"purchase": [{"amount": amount}]}},
    }
    return stored(parent, {"pg18": 500.0}, plan={"name": "quick", "trial": {"seed": 1}, "price": prices})


def compared(run: Run, *runs: str) -> str:
    return " ".join(run("pgdyno", "compare", *runs).stdout.split())


@pytest.mark.parametrize(
    ("left_out", "currency", "why"),
    [(["storage", "licences"], "USD", "left out: nothing vs licences, storage"), ([], "EUR", "currency: USD vs EUR")],
)
def test_other_prices_are_refused(run: Run, tmp_path: Path, left_out: list[str], currency: str, why: str) -> None:
    runs = [priced(tmp_path, "2016-01-01", 1000), priced(tmp_path, "2026-01-01", 600, left_out, currency)]
    shown = compared(run, *runs)
    assert f"price per tps: not compared, because the price lists differ; {why}" in shown
    assert "cheaper" not in shown
    (found,) = validated("compare", run("pgdyno", "compare", *runs, "--json").stdout)["comparisons"]
    assert (found["prices"], [each["left_out"] for each in found["price_lists"]]) == ([], [[], left_out])


def test_prices_are_printed_with_their_dates_and_what_they_leave_out(run: Run, tmp_path: Path) -> None:
    runs = [priced(tmp_path, date, amount, ["power"]) for date, amount in (("2016-01-01", 1000), ("2026-01-01", 600))]
    shown = compared(run, *runs)
    assert " is cheaper than " in shown
    assert "prices in USD over 3 years, as of 2016-01-01 vs 2026-01-01; left out: power" in shown
