"""The command that models a capture."""

import os
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from pgdyno.plan import load_plan
from pgdyno.records.capture import CAPTURE_FILE, STATEMENTS_FILE, Capture
from tests.forked import run_pgdyno
from tests.unit.test_synthesise_scripts import tpcb


def synthesise(*words: str, at: Path) -> subprocess.CompletedProcess[str]:
    return run_pgdyno(["synthesise", *words], cwd=at, env=dict(os.environ))


def test_the_command_writes_a_plan(tmp_path: Path) -> None:
    tpcb(200).write(tmp_path / "shop")
    done = synthesise("shop", at=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "01-update-pgbench_accounts.sql  200 of 200 transactions (100.0 %)" in done.stdout
    made = tmp_path / "shop-model"
    assert {each.name for each in made.iterdir()} == {*("plan.toml", CAPTURE_FILE), "01-update-pgbench_accounts.sql"}
    capture = Capture.model_validate_json((made / CAPTURE_FILE).read_text())
    assert capture.commands == {"01-update-pgbench_accounts.sql": list(range(7))}
    # an ordinary role may not run CHECKPOINT
    assert not load_plan(made / "plan.toml").plan.reset.checkpoint
    done = run_pgdyno(["plan", "check", "shop-model/plan.toml"], cwd=tmp_path, env=dict(os.environ))
    assert done.returncode == 0, done.stderr


def cut(folder: Path) -> None:
    parquet = folder / STATEMENTS_FILE
    parquet.write_bytes(parquet.read_bytes()[:-9])


def foreign(folder: Path) -> None:
    """Has statements of classes that capture.json does not name."""
    path = folder / CAPTURE_FILE
    capture = Capture.model_validate_json(path.read_text())
    path.write_text(capture.model_copy(update={"statements": capture.statements[:2]}).model_dump_json())


def nothing(folder: Path) -> None:
    path = folder / CAPTURE_FILE
    capture = Capture.model_validate_json(path.read_text())
    path.write_text(capture.model_copy(update={"calls": 0}).model_dump_json())


@pytest.mark.parametrize(
    ("damage", "code", "message"),
    [
        (lambda folder: (folder / CAPTURE_FILE).unlink(), 2, "is not a capture"),
        (lambda folder: (folder / STATEMENTS_FILE).unlink(), 6, STATEMENTS_FILE),
        (lambda folder: (folder / STATEMENTS_FILE).write_bytes(b"x" * 100), 6, "cannot read"),
        (cut, 6, "cannot read"),
        (foreign, 6, "a class that capture.json does not have"),
        (nothing, 2, "has no statements"),
        (lambda folder: (folder.parent / "shop-model" / "x").mkdir(parents=True), 2, "exists and is not empty"),
    ],
)
def test_bad_folders_are_refused(damage: Callable[[Path], object], code: int, message: str, tmp_path: Path) -> None:
    damage(tpcb(50).write(tmp_path / "shop"))
    done = synthesise("shop", at=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert message in done.stderr
    assert not (tmp_path / "shop-model" / "plan.toml").exists()


def test_statistics_need_a_database(tmp_path: Path) -> None:
    folder = tpcb(50).write(tmp_path / "shop")
    path = folder / CAPTURE_FILE
    path.write_text(path.read_text().replace('"source":"log"', '"source":"pg_stat_statements"'))
    done = synthesise("shop", at=tmp_path)
    assert done.returncode == 2
    assert "--dsn" in done.stderr


def test_the_samples_are_sorted_as_a_capture_is() -> None:
    rows = tpcb(50).rows
    for session in range(4):
        times = [int(str(row["at_us"])) for row in rows if row["session"] == session]
        assert all(one <= other for one, other in pairwise(times))
