"""The command that models a capture."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgdyno.plan import load_plan
from pgdyno.records.capture import CAPTURE_FILE, STATEMENTS_FILE, Capture, Source
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


def change(**changes: Any) -> Callable[[Path], object]:  # noqa: ANN401 - fields of Capture
    def rewrite(folder: Path) -> None:
        capture = Capture.model_validate_json((folder / CAPTURE_FILE).read_text())
        if "statements" in changes:
            changes["statements"] = capture.statements[: changes["statements"]]
        (folder / CAPTURE_FILE).write_text(capture.model_copy(update=changes).model_dump_json())

    return rewrite


def truncate(folder: Path) -> None:
    parquet = folder / STATEMENTS_FILE
    parquet.write_bytes(parquet.read_bytes()[:-9])


@pytest.mark.parametrize(
    ("damage", "code", "message"),
    [
        (lambda folder: (folder / CAPTURE_FILE).unlink(), 2, "is not a capture"),
        (lambda folder: (folder / STATEMENTS_FILE).unlink(), 6, STATEMENTS_FILE),
        (lambda folder: (folder / STATEMENTS_FILE).write_bytes(b"x" * 100), 6, "cannot read"),
        (truncate, 6, "cannot read"),
        (change(statements=2), 6, "a class that capture.json does not have"),
        (change(calls=0), 2, "has no statements"),
        (change(source=Source.STATEMENTS), 2, "--dsn"),
        (lambda folder: (folder.parent / "shop-model" / "x").mkdir(parents=True), 2, "exists and is not empty"),
    ],
)
def test_bad_folders_are_refused(damage: Callable[[Path], object], code: int, message: str, tmp_path: Path) -> None:
    damage(tpcb(50).write(tmp_path / "shop"))
    done = synthesise("shop", at=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert message in done.stderr
    assert not (tmp_path / "shop-model" / "plan.toml").exists()
