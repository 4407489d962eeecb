"""Trials on sysbench's tables: the engine loads them, pgdyno restores them, and each trial's rows are counted."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import ExitCode, TargetError
from pgdyno.prepare import Dataset
from pgdyno.prepare.dataset import load_dataset
from pgdyno.programs import find_engine
from pgdyno.records import TrialRecord
from pgdyno.targets import Home, Server, SilentProgress
from tests.postgres.runs import fast_plan, run_plan_text, the_run
from tests.postgres.servers import embedded, execute, opened, preparer, rows, value
from tests.present import present

SMALL = Dataset("sbtest", 2_000, 3)


@pytest.fixture(scope="module")
def running(home: Home) -> Iterator[Server]:
    settings = {"fsync": "off", "shared_buffers": "64MB", "autovacuum": "off"}
    with opened(home, embedded(settings=settings), "sbtest") as server:
        yield server


def content(server: Server) -> list[Any]:
    query = "SELECT count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM sbtest{} t"
    return [rows(server, query.format(number))[0] for number in (1, 2, 3)]


@pytest.mark.long_cases("snapshot")
@pytest.mark.parametrize("method", ["reload", "template", "snapshot"])
def test_every_way_brings_the_same_rows_back(running: Server, method: str) -> None:
    prepare = preparer(running, method=method)
    prepare.prepare(SMALL)
    loaded = content(running)
    assert [rows for rows, _ in loaded] == [2_000] * 3
    execute(running, "UPDATE sbtest1 SET k = k + 1", "DELETE FROM sbtest3 WHERE id > 1990")
    assert prepare.prepare(SMALL).steps[-2].detail == "all tables counted"
    assert content(running) == loaded
    # another size is another dataset
    prepare.prepare(Dataset("sbtest", 50, 3))
    assert [rows for rows, _ in content(running)] == [50] * 3


class Recording(SilentProgress):
    """Records the progress of loads: rows done and in all, rows a second, seconds left."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, float, float]] = []

    def rows(self, done: int, total: int, per_s: float, left_s: float) -> None:
        self.told.append((done, total, per_s, left_s))


@pytest.mark.parametrize(("dataset", "total"), [(SMALL, 6_000), (Dataset("pgbench", 1), 100_011)], ids=str)
def test_a_load_says_how_far_it_is(running: Server, dataset: Dataset, total: int) -> None:
    progress = Recording()
    load_dataset(dataset, running, find_engine(), progress, reload=True)
    done, expected, per_s, left_s = progress.told[-1]
    assert (done, expected, left_s) == (total, total, 0.0)
    assert per_s > 0
    assert [each[0] for each in progress.told] == sorted(each[0] for each in progress.told)


def test_tables_are_vacuumed_as_they_are(running: Server) -> None:
    preparer(running, method="reload").prepare(SMALL)
    execute(running, "UPDATE sbtest2 SET k = k + 1")
    changed = content(running)
    done = preparer(running).prepare(SMALL)
    assert [step.detail for step in done.steps if step.name in ("load", "vacuum")] == ["already loaded", "3 tables"]
    assert content(running) == changed
    assert value(running, "SELECT relallvisible = relpages FROM pg_class WHERE relname = 'sbtest2'") is True


# what sysbench's mixed workloads do, which leaves every row in its place
ROUND = ("DELETE FROM sbtest1 WHERE id = 7", "INSERT INTO sbtest1 (id, k, c, pad) VALUES (7, 1, 'c', 'pad')")


@pytest.mark.parametrize(
    ("statements", "violations"),
    [
        (ROUND, []),
        (ROUND[:1], ["sbtest1 has 1,999 rows, not 2,000"]),
        (("INSERT INTO sbtest2 (k) VALUES (1)",), ["sbtest2 has 2,001 rows, not 2,000"]),
        (("UPDATE sbtest3 SET id = 2001 WHERE id = 5",), ["sbtest3 has ids from 1 to 2,001, not from 1 to 2,000"]),
        (("UPDATE sbtest3 SET id = 0 WHERE id = 5",), ["sbtest3 has ids from 0 to 2,000, not from 1 to 2,000"]),
    ],
)
def test_rows_are_counted_behind_a_trial(running: Server, statements: tuple[str, ...], violations: list[str]) -> None:
    prepare = preparer(running, method="reload")
    prepare.prepare(SMALL)
    execute(running, *statements)
    checked = present(prepare.check())
    assert (checked.scope, checked.violations) == ("counts", violations)
    assert set(checked.counts) == {"sbtest1", "sbtest2", "sbtest3"}
    # and before the next one, which does not begin on it
    if violations:
        with pytest.raises(TargetError, match="the dataset differs from the loaded one: sbtest"):
            preparer(running, method="none").prepare(SMALL)


def test_scripts_that_add_rows_want_no_check(running: Server) -> None:
    preparer(running, method="reload").prepare(SMALL)
    prepare = preparer(running, method="none", consistency="none")
    for _ in range(2):
        prepare.prepare(SMALL)
        execute(running, "INSERT INTO sbtest2 (k) VALUES (1)")
        assert prepare.check() is None


# ---- whole runs ----

SCRIPTS = {
    "point": "\\set id random(1, :table_size)\nSELECT c FROM sbtest:tables WHERE id = :id;\n",
    "grow": "INSERT INTO sbtest2 (k) VALUES (1);\n",
}


def run(
    folder: Path, home: Home, script: str, settings: str = "", code: int | None = None
) -> subprocess.CompletedProcess[str]:
    for name, text in SCRIPTS.items():
        (folder / f"{name}.sql").write_text(text)
    workload = f'scripts = ["{script}.sql"]\ndataset = "sbtest"\ntables = 2\ntable_size = 1000'
    plan = fast_plan(workload, "clients = 2", 'transactions = 50\n[reset]\nprewarm = "pg_prewarm"')
    return run_plan_text(home, folder, plan.replace(" }", f"{settings} }}"), code=code)


def record(folder: Path) -> TrialRecord:
    (trial,) = the_run(folder).trials()
    return trial


def test_a_run_on_sbtest_counts_its_rows(tmp_path: Path, warm_home: Home) -> None:
    run(tmp_path, warm_home, "point", code=ExitCode.OK)
    trial = record(tmp_path)
    assert present(trial.summary).succeeded == 100
    assert present(trial.consistency).counts == {"sbtest1": 1000, "sbtest2": 1000}


def test_a_run_that_adds_rows_fails_loudly(tmp_path: Path, warm_home: Home) -> None:
    done = run(tmp_path, warm_home, "grow", code=ExitCode.TRIALS_FAILED)
    assert "sbtest2 has 1,100 rows, not 1,000" in done.stderr
    assert 'for scripts that add or remove rows set reset.consistency to "none"' in done.stderr


def test_a_server_without_pg_prewarm_is_refused_before_anything_is_loaded(tmp_path: Path, warm_home: Home) -> None:
    done = run(tmp_path, warm_home, "point", ', extension_control_path = "/nowhere"', code=ExitCode.TARGET)
    assert "target a: cannot prewarm with pg_prewarm: the server does not have this extension" in done.stderr
    assert "loading" not in done.stderr
    assert record(tmp_path).prepare is None
