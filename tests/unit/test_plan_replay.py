"""Plans that replay a capture, or compare their load with one."""

from pathlib import Path

import pytest

from pgdyno.plan import planned_trials, time_needed_s
from pgdyno.plan.output.plan_output import total
from pgdyno.plan.output.show_plan import show_json
from pgdyno.plan.reading.replayed_capture import read_replayed
from pgdyno.plan.time_budget.time_and_disk import needed_s
from tests.unit.capture_sample import write_capture
from tests.unit.plan_sample import load, loaded, problems, small_plan, the_problem

HEAD = """\
name = "shop"
[target.pg18]
kind = "embedded"
version = "18"
[workload]
replay = "."
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_capture(tmp_path)
    return tmp_path


def refused(folder: Path, text: str = HEAD) -> list[str]:
    return [f"{each.path}: {each.message}" for each in problems(folder, text)]


def test_clients_length_and_rate_come_from_the_capture(folder: Path) -> None:
    plan = load(folder, HEAD)
    assert (plan.workload.dataset, plan.workload.scripts) == ("none", ["replay"])
    assert plan.trial.duration == 600
    (trial,) = planned_trials(plan)
    assert (trial.point.clients, trial.point.rate) == (2, 0.003333)
    assert time_needed_s(plan) == 600
    assert plan.workload.engine_options() == []
    assert "allow_captured" not in plan.as_resolved()["workload"]
    assert load(folder, HEAD, "trial.duration=5m").trial.duration == 300
    swept = load(folder, HEAD + '[sweep]\nsettings.work_mem = ["4MB", "64MB"]\n')
    assert [trial.point.clients for trial in planned_trials(swept)] == [2, 2]


def test_the_pace_divides_the_length(folder: Path) -> None:
    plan = load(folder, HEAD + "pace = 4\n")
    assert plan.trial.duration == 150
    capture = read_replayed(folder)
    assert plan.workload.replay_options(capture, Path("/r"), 7, 2, plan.trial.duration) == [
        "--events=-", "--parent-lease", "--replay=/r", "--pace=4", "--random-seed=7", "--jobs=2",
    ]  # fmt: skip
    assert "--time=10" in (plan.workload.replay_options(capture, Path("/r"), 7, 2, 10.0) or [])
    # at the highest pace, the server decides the length
    of = loaded(folder, HEAD + 'pace = "max"\n')
    assert of.plan.trial.duration is None
    assert planned_trials(of.plan)[0].point.rate is None
    assert needed_s(of.plan, of.plan.points()) is None
    assert "the last statement of its capture" in total(of.plan)
    assert '"pace": "max"' in show_json(of)


def test_what_a_replay_excludes_is_named(folder: Path) -> None:
    for more, message in (
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
    ):
        found = refused(folder, HEAD + more)
        assert any(each.startswith(message) for each in found), found


def test_several_generators_are_refused_and_a_capture_is_needed(folder: Path) -> None:
    found = refused(folder, 'generators = ["10.0.0.1", "10.0.0.2"]\n' + HEAD)
    assert any("one engine replays all sessions" in each for each in found)
    assert load(folder, HEAD + "allow_captured = true\n").workload.allow_captured
    found = refused(folder, HEAD.replace('replay = "."', 'scripts = ["select-only"]\nallow_captured = true'))
    assert any("allow_captured needs a capture" in each for each in found)
    problem = the_problem(folder, small_plan('scripts = ["select-only"]\npace = 2'))
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


def test_a_load_may_be_compared_with_a_capture(folder: Path) -> None:
    text = small_plan('scripts = ["select-only"]\ncaptured = "capture.json"')
    assert load(folder, text).workload.capture == "capture.json"
    problem = the_problem(folder, text.replace("capture.json", "other.json"))
    assert problem.message == f"there is no {folder / 'other.json'}"
