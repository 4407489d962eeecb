"""Two targets at the same time: halves of the processors, a common start, Ctrl-C, resuming, and refused plans."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.processors import own_halves
from pgdyno.records import FailureId, Outcome
from pgdyno.store import RunFolder, load_run
from pgdyno.targets import Home
from tests.postgres.runs import Hold, engines, fast_plan, pgdyno, postmasters, running, the_run
from tests.present import present
from tests.waiting import PATIENCE_S, wait_until

PLAN = fast_plan(
    'scripts = ["one.sql"]\ndataset = "none"',
    "clients = 1",
    'order = "duet"\nduration = "2s"\nrepeats = 2',
    targets="ab",
)
pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) % 2 == 1, reason="an odd number of processors cannot be halved"
)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "one.sql").write_text("SELECT 1;\n\\sleep 2 ms\n")
    path = tmp_path / "together.toml"
    path.write_text(PLAN)
    return path


@pytest.mark.long
def test_pairs_run_on_halves_and_resume_as_pairs(warm_home: Home, tmp_path: Path, scratch: Path, plan: Path) -> None:
    def affinities(pids: set[int]) -> set[frozenset[int]]:
        return {frozenset(os.sched_getaffinity(pid)) for pid in pids}

    halves = {frozenset(half) for half in own_halves()}
    hold = Hold(scratch)
    (tmp_path / "one.sql").write_text(hold.script + "\\sleep 2 ms\n")
    with running(warm_home, tmp_path, plan) as process:
        wait_until(lambda: len(engines(warm_home)) == 2)
        assert affinities(engines(warm_home)) == halves
        wait_until(lambda: affinities(set(postmasters(warm_home))) == halves)
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
        assert process.returncode == ExitCode.INTERRUPTED
    folder = the_run(tmp_path)
    assert (folder.trials(), engines(warm_home), postmasters(warm_home)) == ([], set(), [])
    hold.release()

    pgdyno(warm_home, tmp_path, "run", "--resume", "latest", code=ExitCode.OK)
    # forced: on a busy machine, the audit may find one of these short trials invalid
    compared = pgdyno(warm_home, tmp_path, "compare", "latest", "--force")
    assert "2 pairs at the same time" in compared.stdout, compared.stderr
    trials = folder.trials()
    assert [trial.target for trial in trials] == ["a", "b", "b", "a"]
    assert [trial.duet.partner for trial in trials if trial.duet] == [2, 1, 4, 3]
    first, second = map(list, own_halves())
    assert [trial.duet.processors for trial in trials if trial.duet] == [first, second] * 2
    ratios = [trial.duet.tps_ratio or 0.0 for trial in trials if trial.duet]
    assert ratios[0] * ratios[1] == pytest.approx(1)
    began_us = []
    for trial in trials:
        details = {row.kind: json.loads(row.detail) for row in load_run(folder.path).events(trial.number)}
        began_us.append(details["start"]["epoch_us"] + details["connected"]["origin_us"])
    # each engine rounds the instant to its own clock
    assert abs(began_us[0] - began_us[1]) < 1_000
    assert abs(began_us[2] - began_us[3]) < 1_000

    # a pair of which one trial is missing is measured again as a whole
    shutil.rmtree(folder.path / "trials" / trials[3].slug)
    pgdyno(warm_home, tmp_path, "run", "--resume", folder.name, code=ExitCode.OK)
    after = RunFolder.open(folder.path).trials()
    assert [trial.started_at == before.started_at for trial, before in zip(after, trials, strict=True)] == [
        True, True, False, False,
    ]  # fmt: skip
    other = shutil.copytree(folder.path, tmp_path / "other")
    refused = pgdyno(warm_home, tmp_path, "compare", folder.name, str(other), "--force", code=ExitCode.USAGE)
    assert re.search(r"run \S+ is a duet", refused.stderr)


def test_a_trial_whose_partner_cannot_start_is_not_measured(warm_home: Home, tmp_path: Path, plan: Path) -> None:
    once = PLAN.replace("repeats = 2", "repeats = 1").replace('"2s"', '"500ms"')
    plan.write_text(once + '[hooks]\nbefore_trial = "test $PGDYNO_TARGET != b"\n')
    pgdyno(warm_home, tmp_path, "run", str(plan), code=ExitCode.TRIALS_FAILED)
    first, second = the_run(tmp_path).trials()
    assert (first.outcome, second.outcome) == (Outcome.FAILED, Outcome.FAILED)
    failure = present(first.failure)
    assert failure.id == FailureId.PARTNER_FAILED
    assert failure.message.startswith("trial 2 of the same pair failed: ")


@pytest.mark.long
def test_events_happen_to_both_servers(warm_home: Home, tmp_path: Path, plan: Path) -> None:
    once = PLAN.replace("repeats = 2", "repeats = 1").replace('"2s"', '"500ms"')
    plan.write_text(once + '[[event]]\nat = "100ms"\ndo = "checkpoint"\n')
    pgdyno(warm_home, tmp_path, "run", str(plan), code=ExitCode.OK)
    assert [[each.do for each in trial.events] for trial in the_run(tmp_path).trials()] == [["checkpoint"]] * 2


@pytest.mark.long
def test_a_duet_stops_when_it_is_decided(warm_home: Home, tmp_path: Path, plan: Path) -> None:
    """Both trials of a pair are left out, or none of them; a look follows each pair."""
    (tmp_path / "one.sql").write_text("SELECT pg_sleep(current_setting('lab.ms')::float / 1000);\n")
    text = PLAN.replace("repeats = 2", 'repeats = "6..9"').replace('"2s"', '"500ms"')
    text = text.replace("fsync =", '"lab.ms" = "5", fsync =', 1)
    text = text.replace("{ fsync =", '{ "lab.ms" = "25", fsync =')
    plan.write_text(text)
    done = pgdyno(warm_home, tmp_path, "run", str(plan), code=ExitCode.OK)
    assert "b vs a at 1 client: -" in done.stderr
    assert "6 of at most 9 pairs" in done.stderr
    folder = the_run(tmp_path)
    assert "stopped after 6 of at most 9 repeats: decided" in folder.manifest.notes
    assert (folder.manifest.trials_planned, len(folder.manifest.order)) == (12, 18)
    trials = folder.trials()
    assert [trial.target for trial in trials] == ["a", "b", "b", "a"] * 3
    assert all(trial.duet is not None and trial.duet.tps_ratio is not None for trial in trials)
    again = pgdyno(warm_home, tmp_path, "run", "--resume", "latest")
    assert "all 12 trials are stored" in again.stderr
