"""Plans that replay a capture, or compare their load with one."""

from pathlib import Path

import pytest

from pgdyno.plan import planned_trials, time_needed_s
from pgdyno.plan.loaded_plan import LoadedPlan
from pgdyno.plan.model import Plan
from pgdyno.plan.output.plan_output import total
from pgdyno.plan.output.show_plan import show_json
from pgdyno.plan.reading.replayed_capture import read_replayed
from pgdyno.plan.time_budget.time_and_disk import needed_s
from tests.unit import plan_sample
from tests.unit.capture_sample import write_capture
from tests.unit.plan_sample import load, problems, small_plan, the_problem

HEAD = """\
name = "shop"
[target.pg18]
kind = "embedded"
version = "18"
[workload]
replay = "."
"""


def loaded(folder: Path, more: str = "", *overrides: str) -> LoadedPlan:
    if not (folder / "capture.json").exists():
        write_capture(folder)
    return plan_sample.loaded(folder, HEAD + more, *overrides)


def refused(folder: Path, text: str = HEAD) -> list[str]:
    return [f"{each.path}: {each.message}" for each in problems(folder, text)]


def test_clients_length_and_rate_come_from_the_capture(tmp_path: Path) -> None:
    plan = loaded(tmp_path).plan
    assert (plan.workload.dataset, plan.workload.scripts) == ("none", ["replay"])
    assert plan.trial.duration == 600
    (trial,) = planned_trials(plan)
    assert (trial.point.clients, trial.point.rate) == (2, 0.003333)
    assert time_needed_s(plan) == 600
    again = Plan.from_resolved(plan.as_resolved())
    assert again.workload == plan.workload
    assert plan.workload.engine_options() == []


def test_the_pace_divides_the_length(tmp_path: Path) -> None:
    plan = loaded(tmp_path, "pace = 4\n").plan
    assert plan.trial.duration == 150
    capture = read_replayed(tmp_path)
    assert plan.workload.replay_options(capture, Path("/r"), 7, 2, plan.trial.duration) == [
        "--events=-",
        "--parent-lease",
        "--replay=/r",
        "--pace=4",
        "--random-seed=7",
        "--jobs=2",
    ]
    assert "--time=10" in (plan.workload.replay_options(capture, Path("/r"), 7, 2, 10.0) or [])


def test_at_the_highest_pace_the_server_decides_the_length(tmp_path: Path) -> None:
    of = loaded(tmp_path, 'pace = "max"\n')
    assert of.plan.trial.duration is None
    assert planned_trials(of.plan)[0].point.rate is None
    assert needed_s(of.plan, of.plan.points()) is None
    assert "the last statement of its capture" in total(of.plan)
    assert '"pace": "max"' in show_json(of)


def test_a_replay_may_be_cut(tmp_path: Path) -> None:
    assert loaded(tmp_path, "", "trial.duration=5m").plan.trial.duration == 300


def test_settings_are_swept(tmp_path: Path) -> None:
    plan = loaded(tmp_path, '[sweep]\nsettings.work_mem = ["4MB", "64MB"]\n').plan
    assert [trial.point.clients for trial in planned_trials(plan)] == [2, 2]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('scripts = ["select-only"]\n', "workload.scripts: cannot be combined with workload.replay: it sends"),
        ('lua = "a.lua"\n', "workload.lua: unknown key"),
        ('name = "tpcc"\n', "workload.name: unknown key"),
        ('captured = "capture.json"\n', "workload.captured: cannot be combined with workload.replay: it sends"),
        ("variables = { a = 1 }\n", "workload.variables: cannot be combined with workload.replay: it sends"),
        ("pace = 0\n", "workload.pace: is invalid"),
        ('pace = "fast"\n', "workload.pace: is invalid"),
        ("pace = true\n", "workload.pace: is invalid"),
        ("[sweep]\nclients = 4\n", "sweep.clients: a replay has as many clients as the capture had sessions"),
        ("[sweep]\nrate = 100\n", "sweep.rate: cannot be combined with workload.replay: it has the times"),
        ('connect = "each"\n', "workload.connect: cannot be combined with workload.replay"),
        ('[sweep]\nprotocol = "prepared"\n', "sweep.protocol: cannot be combined with workload.replay"),
        ("[sweep]\nvariables.a = [1]\n", "sweep.variables: cannot be combined with workload.replay"),
        ("[[sweep.points]]\nclients = 2\n", "sweep.points: cannot be combined with workload.replay"),
        ('[trial]\nduration = "11m"\n', "trial.duration: is longer than the capture at this pace, 10m"),
        ('[trial]\nwarmup = "1s"\n', "trial.warmup: cannot be combined with workload.replay: a warm-up would"),
        ("[trial]\ntransactions = 5\n", "trial.transactions: cannot be combined with workload.replay"),
        ("[trial]\nledger = true\n", "trial.ledger: cannot be combined with workload.replay"),
        ("[trial]\nmax_errors = 3\n", "trial.max_errors: cannot be combined with workload.replay"),
        ('[[phase]]\nname = "a"\nduration = "5s"\n', "phase: cannot be combined with workload.replay"),
        ('[search]\nfind = "peak"\n', "search: cannot be combined with workload.replay"),
    ],
)
def test_what_a_replay_excludes_is_named(tmp_path: Path, more: str, message: str) -> None:
    write_capture(tmp_path)
    found = refused(tmp_path, HEAD + more)
    assert any(each.startswith(message) for each in found), found


def test_several_generators_are_refused(tmp_path: Path) -> None:
    write_capture(tmp_path)
    found = refused(tmp_path, 'generators = ["10.0.0.1", "10.0.0.2"]\n' + HEAD)
    assert any("one engine replays all sessions" in each for each in found)


def test_allowing_the_captured_server_needs_a_capture_and_is_kept(tmp_path: Path) -> None:
    resolved = loaded(tmp_path, "allow_captured = true\n").plan.as_resolved()
    assert Plan.from_resolved(resolved).workload.allow_captured
    assert "allow_captured" not in loaded(tmp_path, "").plan.as_resolved()["workload"]
    found = refused(tmp_path, HEAD.replace('replay = "."', 'scripts = ["select-only"]\nallow_captured = true'))
    assert any("allow_captured needs a capture" in each for each in found)


def test_a_pace_needs_a_replay(tmp_path: Path) -> None:
    problem = the_problem(tmp_path, small_plan('scripts = ["select-only"]\npace = 2'))
    assert (problem.path, problem.hint) == ("workload.pace", "pace belongs to replay")


def test_a_capture_must_be_complete_and_readable(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    assert refused(tmp_path / "none") == [f"workload.replay: there is no {tmp_path / 'none' / 'capture.json'}"]
    write_capture(tmp_path / "cut")
    cut = tmp_path / "cut" / "capture.parquet"
    cut.write_bytes(cut.read_bytes()[:-10])
    assert refused(tmp_path / "cut") == [f"workload.replay: {cut} is cut off or not a Parquet file"]
    cut.unlink()
    assert refused(tmp_path / "cut") == [
        f"workload.replay: {tmp_path / 'cut'} is incomplete: it has no capture.parquet"
    ]
    (tmp_path / "cut" / "capture.json").write_text('{"format": 1')
    assert "is damaged" in refused(tmp_path / "cut")[0]
    write_capture(tmp_path / "views", source="pg_stat_statements")
    assert "which has no single statements to replay" in refused(tmp_path / "views")[0]
    write_capture(tmp_path / "newer", format=2)
    assert "is of format 2" in refused(tmp_path / "newer")[0]
    write_capture(tmp_path / "empty", rows=(), calls=0, most_sessions=0)
    assert "has no statements" in refused(tmp_path / "empty")[0]


def test_a_load_may_be_compared_with_a_capture(tmp_path: Path) -> None:
    write_capture(tmp_path)
    text = small_plan('scripts = ["select-only"]\ncaptured = "capture.json"')
    assert load(tmp_path, text).workload.capture == "capture.json"
    problem = the_problem(tmp_path, text.replace("capture.json", "other.json"))
    assert problem.message == f"there is no {tmp_path / 'other.json'}"
