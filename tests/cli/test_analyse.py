"""`pgdyno analyse` over a stored run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from tests.cli.conftest import Run
from tests.cli.test_compare import stored

PRICES = """\
currency = "EUR"
date = "2026-11-21"
years = 3
left_out = ["power"]

[target.pg18]
purchase = [{ amount = 38364 }]
subscription = [{ amount = 4200, per = "socket", count = 2 }]
"""


@pytest.fixture
def stored_run(tmp_path: Path) -> str:
    return stored(tmp_path / "runs", {"pg17": 500.0, "pg18": 600.0}, repeats=2)


def test_what_cannot_be_said_is_said_to_be_so(run: Run, stored_run: str) -> None:
    done = run("pgdyno", "analyse", stored_run)
    assert done.returncode == 0, done.stderr
    assert "4 trials measured less than 20 s" in done.stdout
    assert "the law needs 6" in " ".join(done.stdout.split())


def test_prices_come_from_a_file(run: Run, stored_run: str, tmp_path: Path) -> None:
    (tmp_path / "price.toml").write_text(PRICES)
    said = " ".join(run("pgdyno", "analyse", stored_run, "--price", "price.toml").stdout.split())
    assert "pg18: 63,564.00 EUR over 3 years" in said
    assert "pg17: the price list has no target pg17" in said
    assert "left out: power" in said
    answer = json.loads(run("pgdyno", "analyse", stored_run, "--price", "price.toml", "--json").stdout)
    (price,) = [curve["price"] for curve in answer["curves"] if curve["price"]]
    assert price["per_tps"] == pytest.approx(63_564 / 600, rel=0.01)
    assert [trial["steady"] for trial in answer["trials"]] == [None] * 4


@pytest.mark.parametrize(("text", "complaint"), [("a = ", "is no TOML"), ("currency = 1", "years: Field required")])
def test_a_price_file_with_mistakes_is_a_usage_error(
    run: Run, stored_run: str, tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "price.toml").write_text(text)
    done = run("pgdyno", "analyse", stored_run, "--price", "price.toml")
    assert done.returncode == ExitCode.USAGE
    assert complaint in done.stderr


def test_no_price_file_is_a_usage_error(run: Run, stored_run: str) -> None:
    assert run("pgdyno", "analyse", stored_run, "--price", "none.toml").returncode == ExitCode.USAGE
