"""Change points over many runs: planted steps, and noise without any."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from pgdyno.analyse.history import FEWEST_RUNS, History, change_points, histories
from pgdyno.analyse.pairs import Metric, value_of
from pgdyno.records import Imported
from pgdyno.report.analysis import history_lines
from tests.present import present
from tests.unit.report_sample import SampleRun, add_trial, manifest
from tests.unit.store_sample import STARTED, trial_summary
from tests.unit.test_analyse_steady import noise
from tests.unit.test_fingerprint import BASE


def noisy(seed: int, runs: int) -> list[float]:
    return list(1_000 * np.exp(np.random.default_rng(seed).normal(0, 0.02, runs)))


@pytest.mark.long_cases("20-8")
@pytest.mark.parametrize(("runs", "most"), [(12, 16), (20, 8), (40, 6)])
def test_noise_has_few_changes(runs: int, most: int) -> None:
    """4 of 100 at 12 runs, 1 of 100 from 20 on, and twice the error of 200 simulations."""
    assert sum(bool(change_points(noisy(seed, runs))) for seed in range(200)) <= most


def test_a_step_of_four_standard_deviations_is_found_where_it_is_also_after_an_outlier() -> None:
    for runs in (20, 40):
        found = 0
        for seed in range(100):
            figures = np.array(noisy(seed, runs))
            figures[runs // 2 :] *= 1.08
            changes = change_points(list(figures))
            found += changes is not None and len(changes) == 1 and abs(changes[0].at - runs // 2) <= 1
        assert found >= 90
    random = np.random.default_rng(1)
    found = 0
    for _ in range(40):
        figures = 1_000 * np.exp(random.normal(0, 0.02, 60))
        figures[30:] *= 0.92
        figures[24] *= 0.8
        found += [abs(each.at - 30) <= 1 for each in change_points(list(figures)) or ()] == [True]
    assert found >= 37


def test_a_change_is_a_step_of_one_percent_or_more_for_three_runs() -> None:
    (change,) = change_points([1_000.0] * 10 + [900.0] * 10) or ()
    assert (change.at, round(change.before), round(change.after)) == (10, 1_000, 900)
    assert change.ratio == pytest.approx(-0.1)
    assert change_points([1_000.0] * 10 + [1_009.0] * 10) == ()
    assert len(change_points([1_000.0] * 10 + [1_011.0] * 10) or ()) == 1
    assert change_points(noisy(1, FEWEST_RUNS - 1)) is None
    figures = 1_000 + noise(1, 100, spread=20)
    figures[[40, 41]] *= 0.7
    assert change_points(list(figures)) == ()
    figures = 1_000 + noise(1, 100, spread=10)
    figures[40:43] *= 0.7
    assert [each.at for each in change_points(list(figures)) or ()] == [40, 43]


@pytest.mark.parametrize("correlation", [0.3, 0.5])
def test_noise_that_remembers_the_run_before_is_no_change(correlation: float) -> None:
    assert sum(bool(change_points(list(1_000 + noise(seed, 100, correlation, 20)))) for seed in range(60)) <= 4


NONE: Mapping[str, object] = {}


@dataclass
class _Runs:
    """Runs of a day each, two trials of a point in each."""

    made: list[SampleRun] = field(default_factory=list)

    def add(self, tps: float = 1_000, clients: int = 4, workload: Mapping[str, object] = NONE, **trial: object) -> None:
        """Adds a run with additional keys of the plan's workload, and fields of its trials."""
        at = STARTED + timedelta(days=len(self.made))
        of_run = manifest(trials_planned=2, run=f"run-{len(self.made)}", started_at=at)
        plan = {**of_run.plan, "workload": {**of_run.plan["workload"], **workload}}
        run = SampleRun(of_run.model_copy(update={"plan": plan}))
        for each in (0.99, 1.01):
            add_trial(run, "pg18", clients, tps * each, 900, seconds=2)
        run.trials = [each.model_copy(update=trial) for each in run.trials]
        self.made.append(run)

    def histories(self, metric: Metric | None = Metric.TPS, **more: Any) -> list[History]:  # noqa: ANN401
        return list(histories({f"folder-{at}": run for at, run in enumerate(self.made)}, metric, **more))


def test_servers_databases_and_roles_and_captures_have_histories_of_their_own() -> None:
    runs = _Runs()
    primary, standby = ({"database": "app", "state": each} for each in ("primary", "standby"))
    for identity, capture in ((primary, "a1"), (standby, "a1"), (primary, "a1"), (primary, "b2")):
        runs.add()
        made = runs.made[-1]
        (target,) = made.manifest.targets
        targets = [target.model_copy(update={"facts": present(target.facts).model_copy(update={"identity": identity})})]
        changes = {"targets": targets, "fingerprint": BASE.model_copy(update={"workload": {"capture": capture}})}
        made.manifest = made.manifest.model_copy(update=changes)
    found = runs.histories(fewest=1)
    assert [[point.run[-1] for point in each.points] for each in found] == [["0", "2"], ["1"], ["3"]]
    told = [("standby" in each.label, "capture b2" in each.label) for each in found]
    assert told == [(False, False), (True, False), (False, True)]
    (line,) = [each for each in history_lines(found[0], {}, {"folder-2", "folder-9"}) if "not valid" in each]
    assert line.endswith(": folder-2 (run 2)")


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
        runs.add()
        runs.add(clients=8)
        trials = runs.made[-1].trials
        trials[:] = [one.model_copy(update={"point": one.point.model_copy(update={"rate": 1_000})}) for one in trials]
    closed, opened = runs.histories(None)
    assert (closed.metric, round(closed.points[0].figure, -1)) == (Metric.TPS, 1_000)
    p99s = [value_of(trial, Metric.P99) or 0.0 for trial in runs.made[-1].trials]
    assert opened.metric is Metric.P99
    assert min(p99s) <= opened.points[0].figure <= max(p99s)
    assert "p99 latency of 2 runs" in next(history_lines(opened, {}))
    (asked,) = _Runs(runs.made[1::2]).histories()
    assert asked.metric is Metric.TPS


def of_hammerdb(**told: object) -> Imported:
    return Imported.model_validate({"file": "a.txt", "line": 1, "last_line": 9, "tool": "hammerdb", **told})


FUNCTIONS = {"name": "tpcc", "profile": "hammerdb-6.1", "variant": "procedures"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"name": "tpcc", "profile": "spec"}, {"name": "tpcc", "profile": "hammerdb-6.1"}),
        ({"name": "tpcc", "profile": "hammerdb-6.1"}, {"name": "tpcc", "profile": "hammerdb-6.1.1"}),
        (FUNCTIONS, FUNCTIONS | {"variant": "sql"}),
        ({"table_size": 10_000}, {"table_size": 1_000_000}),
        ({"options": {"range_size": "100"}}, {"options": {"range_size": "1000"}}),
        ({"variables": {}}, {"variables": {"rows": "10"}}),
        ({"replay": "folder", "pace": 1.0}, {"replay": "folder", "pace": 2.0}),
        # of imported trials
        (of_hammerdb(load={"connections": "kept"}), of_hammerdb(load={"connections": "each transaction"})),
        (of_hammerdb(unused_item="commits"), of_hammerdb(unused_item="rolls back")),
        (of_hammerdb(figures={"tpm": 60_000.0, "nopm": 26_000.0}), of_hammerdb(figures={"nopm": 60_000.0})),
    ],
)
def test_other_loads_of_a_name_have_their_own_histories(
    one: dict[str, object] | Imported, other: dict[str, object] | Imported
) -> None:
    runs = _Runs()
    for each in (one, one, other, other):
        if isinstance(each, Imported):
            runs.add(imported=each, summary=trial_summary(tps=1_000.0))
        else:
            runs.add(workload=each)
    found = runs.histories()
    assert [len(each.points) for each in found] == [2, 2]
    assert found[0].label != found[1].label


SYSBENCH = Imported(file="sysbench.txt", line=1, last_line=9, tool="sysbench", command=None)


def test_histories_are_split_and_named_by_their_loads_without_passwords() -> None:
    for each_run, labels in (
        ([{"workload": {"scale_factor": 10.0}}] * 2 + [{"workload": {"tables": 4}}] * 2,
         ["pg18, 4 clients, scale factor 10, 2 s", "pg18, 4 clients, 4 tables, 2 s"]),
        # lengths in transactions
        ([{"duration_s": None, "transactions": count} for count in (100, 100, 5_000, 5_000)],
         ["pg18, 4 clients, 100 transactions per client", "pg18, 4 clients, 5,000 transactions per client"]),
        # elapsed times of imported trials split no history
        ([{"duration_s": each, "imported": SYSBENCH} for each in (60.0012, 60.0031)], ["pg18, 4 clients, 60 s"]),
        # and releases of HammerDB that do the same work
        ([{"workload": FUNCTIONS | {"profile": each}} for each in ("hammerdb-6.1", "hammerdb-6.1.1")],
         ["pg18, 4 clients, profile hammerdb (an unused item rolls back), procedures, 2 s"]),
    ):  # fmt: skip
        runs = _Runs()
        for fields in each_run:
            runs.add(**fields)
        found = runs.histories()
        assert [each.label for each in found] == labels
        assert {len(each.points) for each in found} == {2}
    runs = _Runs()
    for _ in range(2):
        runs.add(workload={"variables": {"password": "hunter2"}})
    (only,) = runs.histories()
    assert "password ***" in only.label
