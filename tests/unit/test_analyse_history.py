"""Change points over many runs: planted steps, and noise without any."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

import numpy as np
import pytest

from pgdyno.analyse.history import FEWEST_RUNS, change_points, histories
from pgdyno.analyse.pairs import Metric, value_of
from pgdyno.records import Imported, ServerFacts
from pgdyno.report.analysis import history_lines
from tests.unit.report_sample import SampleRun, add_trial, manifest
from tests.unit.store_sample import STARTED
from tests.unit.test_fingerprint import BASE


def noisy(seed: int, runs: int) -> list[float]:
    return list(1_000 * np.exp(np.random.default_rng(seed).normal(0, 0.02, runs)))


@pytest.mark.parametrize(("runs", "most"), [(12, 16), (20, 8), (40, 6)])
def test_noise_has_few_changes(runs: int, most: int) -> None:
    """4 of 100 at 12 runs, 1 of 100 from 20 on, and twice the error of 200 simulations."""
    assert sum(bool(change_points(noisy(seed, runs))) for seed in range(200)) <= most


@pytest.mark.parametrize("runs", [20, 40])
def test_a_step_of_four_standard_deviations_is_found_where_it_is(runs: int) -> None:
    found = 0
    for seed in range(100):
        figures = np.array(noisy(seed, runs))
        figures[runs // 2 :] *= 1.08
        changes = change_points(list(figures))
        found += changes is not None and len(changes) == 1 and abs(changes[0].at - runs // 2) <= 1
    assert found >= 90


def test_the_change_is_the_ratio_of_the_levels() -> None:
    (change,) = change_points([1_000.0] * 10 + [900.0] * 10) or ()
    assert (change.at, round(change.before), round(change.after)) == (10, 1_000, 900)
    assert change.ratio == pytest.approx(-0.1)


def test_changes_below_one_percent_and_in_few_runs_are_not_reported() -> None:
    assert change_points([1_000.0] * 10 + [1_009.0] * 10) == ()
    assert len(change_points([1_000.0] * 10 + [1_011.0] * 10) or ()) == 1
    assert change_points(noisy(1, FEWEST_RUNS - 1)) is None


@dataclass
class _Runs:
    made: list[SampleRun] = field(default_factory=list)

    def add(self, tps: float, target: str = "pg18", clients: int = 4) -> None:
        at = STARTED + timedelta(days=len(self.made))
        run = SampleRun(manifest(trials_planned=2, run=f"run-{len(self.made)}", started_at=at))
        for each in (0.99, 1.01):
            add_trial(run, target, clients, tps * each, 900, seconds=2)
        self.made.append(run)

    def plan_workload(self, changes: dict[str, object]) -> None:
        made = self.made[-1]
        plan = {**made.manifest.plan, "workload": {**made.manifest.plan["workload"], **changes}}
        self.made[-1] = replace(made, manifest=made.manifest.model_copy(update={"plan": plan}))


def test_servers_databases_and_roles_and_captures_have_histories_of_their_own() -> None:
    runs = _Runs()
    for identity, capture in (
        ({"database": "app", "state": "primary"}, "a1"),
        ({"database": "app", "state": "standby"}, "a1"),
        ({"database": "app", "state": "primary"}, "a1"),
        ({"database": "app", "state": "primary"}, "b2"),
    ):
        runs.add(1_000)
        made = runs.made[-1]
        facts = ServerFacts(
            version="18", version_full="18", settings_changed={}, data_checksums=True, identity=identity
        )
        targets = [each.model_copy(update={"facts": facts}) for each in made.manifest.targets]
        taken = BASE.model_copy(update={"workload": {"capture": capture}})
        changes = {"targets": targets, "fingerprint": taken}
        runs.made[-1] = replace(made, manifest=made.manifest.model_copy(update=changes))
    found = histories({str(at): run for at, run in enumerate(runs.made)}, Metric.TPS, fewest=1)
    assert [[point.run for point in each.points] for each in found] == [["0", "2"], ["1"], ["3"]]
    assert [("standby" in each.label, "capture b2" in each.label) for each in found] == [
        (False, False),
        (True, False),
        (False, True),
    ]
    (line,) = [each for each in history_lines(found[0], {}, {"2", "9"}) if "not valid" in each]
    assert line.endswith(": 2 (run 2)")


def test_the_same_point_is_followed_over_runs_in_their_order() -> None:
    runs = _Runs()
    for at in range(14):
        runs.add(1_000 if at < 7 else 1_200)
    runs.add(500, clients=8)
    (found,) = histories({f"folder-{at}": run for at, run in reversed(list(enumerate(runs.made)))}, Metric.TPS)
    assert [point.run for point in found.points] == [f"folder-{at}" for at in range(14)]
    assert (found.label, found.points[0].trials) == ("pg18, 4 clients, 2 s", 2)
    (change,) = found.changes or ()
    assert change.at == 7
    lines = list(history_lines(found, {7: ["server version: 17 before, 18 after"]}))
    assert "throughput of 14 runs" in lines[0]
    assert "+20.0 %" in lines[2]
    assert f"at {found.points[7].started_at:%Y-%m-%d %H:%M} UTC (run 8, folder-7)" in lines[2]
    assert lines[3].strip() == "server version: 17 before, 18 after"


def test_runs_are_followed_by_the_metric_by_which_they_are_compared() -> None:
    runs = _Runs()
    for _ in range(2):
        runs.add(1_000)
        runs.add(1_000, clients=8)
        trials = runs.made[-1].trials
        for at, trial in enumerate(trials):
            trials[at] = trial.model_copy(update={"point": trial.point.model_copy(update={"rate": 1_000})})
    closed, opened = histories({f"folder-{at}": run for at, run in enumerate(runs.made)})
    assert (closed.metric, round(closed.points[0].figure, -1)) == (Metric.TPS, 1_000)
    p99s = [value_of(trial, Metric.P99) or 0.0 for trial in runs.made[-1].trials]
    assert opened.metric is Metric.P99
    assert min(p99s) <= opened.points[0].figure <= max(p99s)
    assert "p99 latency of 2 runs" in next(history_lines(opened, {}))
    (asked,) = histories({f"folder-{at}": run for at, run in enumerate(runs.made[1::2])}, Metric.TPS)
    assert asked.metric is Metric.TPS


def test_datasets_of_other_sizes_have_histories_of_their_own() -> None:
    runs = _Runs()
    for at in range(4):
        runs.add(1_000)
        runs.plan_workload({"scale_factor": 10.0} if at < 2 else {"tables": 4})
    found = histories({f"folder-{at}": run for at, run in enumerate(runs.made)}, Metric.TPS)
    assert [(each.label, len(each.points)) for each in found] == [
        ("pg18, 4 clients, scale factor 10, 2 s", 2),
        ("pg18, 4 clients, 4 tables, 2 s", 2),
    ]


def test_elapsed_times_of_imported_trials_split_no_history() -> None:
    imported = Imported(file="sysbench.txt", line=1, last_line=9, tool="sysbench", command=None)
    runs = _Runs()
    for elapsed_s in (60.0012, 60.0031):
        runs.add(1_000)
        for at, trial in enumerate(runs.made[-1].trials):
            runs.made[-1].trials[at] = trial.model_copy(update={"duration_s": elapsed_s, "imported": imported})
    (found,) = histories({f"folder-{at}": run for at, run in enumerate(runs.made)}, Metric.TPS)
    assert found.label == "pg18, 4 clients, 60 s"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"name": "tpcc", "profile": "spec"}, {"name": "tpcc", "profile": "hammerdb-6.1"}),
        ({"name": "tpcc", "profile": "hammerdb-6.1"}, {"name": "tpcc", "profile": "hammerdb-6.1.1"}),
        (
            {"name": "tpcc", "profile": "hammerdb-6.1", "variant": "sql"},
            {"name": "tpcc", "profile": "hammerdb-6.1", "variant": "procedures"},
        ),
        ({"table_size": 10_000}, {"table_size": 1_000_000}),
        ({"options": {"range_size": "100"}}, {"options": {"range_size": "1000"}}),
        ({"variables": {}}, {"variables": {"rows": "10"}}),
        ({"replay": "folder", "pace": 1.0}, {"replay": "folder", "pace": 2.0}),
    ],
)
def test_other_loads_of_a_name_have_their_own_histories(one: dict[str, object], other: dict[str, object]) -> None:
    runs = _Runs()
    for at in range(4):
        runs.add(1_000)
        runs.plan_workload(one if at < 2 else other)
    found = histories({f"folder-{at}": run for at, run in enumerate(runs.made)}, Metric.TPS)
    assert [len(each.points) for each in found] == [2, 2]
    assert found[0].label != found[1].label


def test_a_history_names_no_password_of_a_variable() -> None:
    runs = _Runs()
    for _ in range(2):
        runs.add(1_000)
        runs.plan_workload({"variables": {"password": "hunter2"}})
    (found,) = histories({f"folder-{at}": run for at, run in enumerate(runs.made)}, Metric.TPS)
    assert "password ***" in found.label


def test_releases_of_hammerdb_that_do_the_same_work_have_one_history() -> None:
    runs = _Runs()
    for profile in ("hammerdb-6.1", "hammerdb-6.1.1"):
        runs.add(1_000)
        runs.plan_workload({"name": "tpcc", "profile": profile, "variant": "procedures"})
    (found,) = histories({f"folder-{at}": run for at, run in enumerate(runs.made)}, Metric.TPS)
    assert found.label == "pg18, 4 clients, profile hammerdb (an unused item rolls back), procedures, 2 s"


def test_lengths_in_transactions_have_histories_of_their_own() -> None:
    runs = _Runs()
    for transactions in (100, 100, 5_000, 5_000):
        runs.add(1_000)
        trials = runs.made[-1].trials
        trials[:] = [each.model_copy(update={"duration_s": None, "transactions": transactions}) for each in trials]
    found = histories({f"folder-{at}": run for at, run in enumerate(runs.made)}, Metric.TPS)
    assert [each.label.rpartition(", ")[2] for each in found] == [
        "100 transactions per client", "5,000 transactions per client",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"load": {"connections": "kept"}}, {"load": {"connections": "each transaction"}}),
        ({"unused_item": "commits"}, {"unused_item": "rolls back"}),
        ({"figures": {"tpm": 60_000.0, "nopm": 26_000.0}}, {"figures": {"nopm": 60_000.0}}),
    ],
)
def test_imported_trials_of_other_loads_have_their_histories(one: dict[str, object], other: dict[str, object]) -> None:
    runs = _Runs()
    for at in range(4):
        runs.add(1_000)
        told = {"file": "a.txt", "line": 1, "last_line": 9, "tool": "hammerdb", "command": None}
        imported = Imported.model_validate(told | (one if at < 2 else other))
        trials = runs.made[-1].trials
        for place, trial in enumerate(trials):
            assert trial.summary is not None
            summary = trial.summary.model_copy(update={"tps": 1_000.0})
            trials[place] = trial.model_copy(update={"imported": imported, "summary": summary})
    found = histories({f"folder-{at}": run for at, run in enumerate(runs.made)}, Metric.TPS)
    assert [len(each.points) for each in found] == [2, 2]
    assert found[0].label != found[1].label
