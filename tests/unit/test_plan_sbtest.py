"""Plans on sysbench's tables: keys, errors with their lines, and the engine's options."""

from pathlib import Path

import pytest

from pgdyno.plan import planned_trials
from pgdyno.plan.output.plan_output import before_each_trial
from pgdyno.plan.time_budget.time_and_disk import dataset_bytes
from pgdyno.run.engine import trial_options
from tests.unit.plan_sample import loaded, problems

PLAN = """\
name = "points"
[target.pg18]
kind = "embedded"
version = "18"
[sweep]
clients = 2
[trial]
duration = "1s"
[workload]
scripts = ["point.sql"]
dataset = "sbtest"
tables = 10
table_size = 100000
"""


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> None:
    (tmp_path / "point.sql").write_text("\\set id random(1, :table_size)\nSELECT c FROM sbtest1 WHERE id = :id;\n")


def test_its_size_is_tables_and_rows_in_each(tmp_path: Path) -> None:
    plan = loaded(tmp_path, PLAN).plan
    resolved = plan.as_resolved()["workload"]
    assert (resolved["tables"], resolved["table_size"]) == (10, 100_000)
    assert "scale" not in resolved
    (trial,) = planned_trials(plan)
    assert trial.point.scale == 100_000
    assert before_each_trial(plan) == "before each trial: vacuum every table; checkpoint"
    options = trial_options(plan, trial.point, 1, tmp_path)
    assert {"--define=tables=10", "--define=table_size=100000"} <= set(options)
    assert not any(option.startswith("--scale") for option in options)


def test_a_sweep_over_scale_is_one_over_rows(tmp_path: Path) -> None:
    plan = loaded(tmp_path, PLAN, "sweep.scale=[500, 5000]").plan
    assert [trial.point.scale for trial in planned_trials(plan)] == [500, 5000]
    assert "--define=table_size=5000" in trial_options(plan, planned_trials(plan)[1].point, 1, tmp_path)


def test_its_bytes_are_those_of_all_tables(tmp_path: Path) -> None:
    # sysbench's 10 tables of 100,000 rows took 254,795,776 bytes when they were loaded
    assert dataset_bytes(loaded(tmp_path, PLAN).plan, 100_000) == pytest.approx(254_795_776, rel=0.05)


def test_a_plan_on_pgbench_s_tables_says_nothing_of_it(tmp_path: Path) -> None:
    text = PLAN.partition("dataset")[0]
    assert {"tables", "table_size"}.isdisjoint(loaded(tmp_path, text).plan.as_resolved()["workload"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PLAN + "scale = 3\n", "workload.scale: does not apply to sbtest"),
        (PLAN.replace("sbtest", "pgbench", 1), "workload.tables: is valid only with dataset"),
        (PLAN.replace("sbtest", "none", 1), "workload.table_size: is valid only with dataset"),
        (PLAN.replace("point.sql", "tpcb-like"), "needs pgbench's tables, but dataset is sbtest"),
        (PLAN.replace("tables = 10", "tables = 0"), "workload.tables: "),
        (PLAN.replace("100000", "2147483648"), "workload.table_size: "),
        (
            PLAN.replace("clients = 2", "clients = 2\nscale = 2147483648"),
            "sweep.scale: scale sets the rows of each sbtest table, at most",
        ),
    ],
)
def test_impossible_keys_are_refused(tmp_path: Path, text: str, said: str) -> None:
    found = [f"{each.path}: {each.message}" for each in problems(tmp_path, text)]
    assert any(said in each for each in found), found
