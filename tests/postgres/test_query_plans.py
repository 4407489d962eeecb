"""Query plans that runs keep: EXPLAIN before every trial, never executed, on servers of several versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.audit import audit
from pgdyno.probe.explain import explain
from pgdyno.report.full_report import whole_report
from pgdyno.store import load_run
from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.postgres.conftest import FAST
from tests.postgres.runs import pgdyno, the_run

TABLE = """
    CREATE TABLE stock (id int PRIMARY KEY, kind int, amount int);
    INSERT INTO stock SELECT i, i % 100, 0 FROM generate_series(1, 2000) i;
    ANALYZE stock
"""
BY_KIND = "SELECT sum(amount) FROM stock WHERE kind = $1;"
PLAN = """\
name = "planned"
[target.pg]
kind = "embedded"
version = "18"
settings = { fsync = "off" }
[hooks]
before_trial = HOOK
[workload]
dataset = "none"
scripts = ["stock.sql"]
[sweep]
clients = [1]
SETTINGS
[trial]
transactions = 20
repeats = 2
[probe]
plans = true
"""
SCRIPT = """\
\\set kind random(1, 100)
BEGIN;
SELECT sum(amount) FROM stock WHERE kind = :kind;
UPDATE stock SET amount = amount + 1 WHERE id = :kind;
END;
"""
FRESH = f"DROP TABLE IF EXISTS stock;{TABLE}".replace("\n", " ")


def run(home: Home, tmp_path: Path, hook: str, settings: str = "") -> None:
    (tmp_path / "stock.sql").write_text(SCRIPT)
    (tmp_path / "hook.sh").write_text(hook)
    text = PLAN.replace("HOOK", '"sh hook.sh"').replace("SETTINGS", settings)
    (tmp_path / "planned.toml").write_text(text)
    done = pgdyno(home, tmp_path, "run", "planned.toml")
    assert done.returncode == 0, done.stderr


def psql(bin_folder: Path, sql: str) -> str:
    return f"{bin_folder}/psql -X -q -v ON_ERROR_STOP=1 -c '{sql}'\n"
