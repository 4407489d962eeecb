"""Interrupted and resumed runs: no trial is lost or repeated, and nothing is left behind."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Outcome
from pgdyno.store import RunFolder, load_run
from pgdyno.targets import Home
from tests.forked import PGDYNO
from tests.postgres.runs import (
    Hold,
    active_sessions,
    engines,
    environment,
    fast_plan,
    pgdyno,
    postmasters,
    run_plan_text,
    running,
    the_run,
    without_look,
)
from tests.present import present
from tests.waiting import PATIENCE_S, wait_until

PLAN = fast_plan(
    'scripts = ["select-only", "one.sql"]',
    "clients = [1, 2]\nrate = 200",
    'duration = "1s"\nrepeats = 1\nseed = 1',
    targets="ab",
)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "one.sql").write_text("SELECT 1;\n")
    path = tmp_path / "resumed.toml"
    path.write_text(PLAN)
    return path


def wait_for_no_engines(home: Home) -> None:
    # the engine's lease ends with its parent
    wait_until(lambda: not engines(home))


def whole(folder: RunFolder) -> dict[str, tuple[int, bytes]]:
    return {
        path.name: ((path / "trial.json").stat().st_ino, (path / "trial.json").read_bytes())
        for path in folder.trial_paths()
    }


@pytest.mark.long
def test_a_run_that_is_killed_within_a_block_goes_on_with_its_control(
    warm_home: Home, tmp_path: Path, plan: Path
) -> None:
    plan.write_text(PLAN.replace("clients = [1, 2]", "clients = 1").replace("repeats = 1", "repeats = 2"))
    command = [str(PGDYNO), *without_look(["run", str(plan), "--control"])]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(warm_home), stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: any(tmp_path.glob("pgdyno-runs/*/trials/0002-*")))
        process.kill()
    wait_for_no_engines(warm_home)
    assert pgdyno(warm_home, tmp_path, "run", "--resume", "latest", "--control").returncode == ExitCode.USAGE
    pgdyno(warm_home, tmp_path, "run", "--resume", "latest", "--quiet", code=ExitCode.OK)
    folder = the_run(tmp_path)
    trials = folder.trials()
    assert [each.slug for each in trials] == folder.manifest.order
    assert [(each.target, each.control) for each in trials if each.control] == [("a", True)] * 2
    assert [each.attempt for each in trials] == [1, 1, 2, 2, 2, 2]
    compared = json.loads(pgdyno(warm_home, tmp_path, "compare", "latest", "--json").stdout)["comparisons"][0]
    assert [point["pairs"] for point in (*compared["points"], *compared["control"])] == [2, 2]


def test_a_run_that_goes_on_cannot_be_resumed_beside_it(warm_home: Home, tmp_path: Path, plan: Path) -> None:
    plan.write_text(PLAN.replace('duration = "1s"', 'duration = "60s"'))
    with running(warm_home, tmp_path, plan):
        second = pgdyno(warm_home, tmp_path, "run", "--resume", "latest", "--alongside", code=ExitCode.STORE)
        assert "another pgdyno works on it" in second.stderr
        manifest = the_run(tmp_path).manifest
        assert (len(manifest.attempts), manifest.outcome) == (1, None)
        assert the_run(tmp_path).partials()


@pytest.mark.long
def test_ctrl_c_is_told_from_a_kill(warm_home: Home, tmp_path: Path, scratch: Path, plan: Path) -> None:
    hold = Hold(scratch)
    (tmp_path / "one.sql").write_text(hold.script)
    with running(warm_home, tmp_path, plan) as process:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    hold.release()
    assert "pgdyno run --resume pgdyno-runs/" in err
    assert "to resume at trial 1: pgdyno run --resume " in err
    assert the_run(tmp_path).manifest.attempts[0].ended == "was interrupted"
    done = pgdyno(warm_home, tmp_path, "run", "--resume", "latest", "--quiet")
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert "the last one was interrupted" in done.stdout
    manifest = the_run(tmp_path).manifest
    assert [attempt.ended for attempt in manifest.attempts] == ["was interrupted", "came to its end"]
    again = pgdyno(warm_home, tmp_path, "run", "--resume", "latest", code=ExitCode.STORE)
    assert "it is closed, all 4 trials are stored" in again.stderr
    assert the_run(tmp_path).manifest == manifest
    # a run that was killed after its last trial, or interrupted while its servers stopped, is closed
    path, trials = the_run(tmp_path).path / "manifest.json", whole(the_run(tmp_path))
    ended = path.read_text()
    for end in ({"ended_at": None, "outcome": None}, {"outcome": "interrupted"}):
        record = json.loads(ended) | end
        if end["outcome"] is None:
            record["attempts"][-1] |= {"ended_at": None, "ended": None}
        path.write_text(json.dumps(record))
        pgdyno(warm_home, tmp_path, "run", "--resume", "latest", code=ExitCode.OK)
        assert whole(the_run(tmp_path)) == trials
        assert the_run(tmp_path).manifest.outcome is Outcome.FINISHED


@pytest.mark.long
def test_failed_trials_are_made_anew_when_that_is_asked_for(warm_home: Home, tmp_path: Path, plan: Path) -> None:
    with running(warm_home, tmp_path, plan) as process:
        for server in postmasters(warm_home):
            os.kill(server, signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == ExitCode.TRIALS_FAILED
    folder = the_run(tmp_path)
    failed = [trial.slug for trial in folder.trials() if trial.outcome is Outcome.FAILED]
    kept = {slug: record for slug, record in whole(folder).items() if slug not in failed}
    assert failed
    refused = pgdyno(warm_home, tmp_path, "run", "--resume", "latest", code=ExitCode.STORE)
    assert f"all 4 trials are stored, {len(failed)} of them failed" in refused.stderr
    assert "--redo-failed" in refused.stderr
    pgdyno(warm_home, tmp_path, "run", "--resume", "latest", "--redo-failed", code=ExitCode.OK)
    assert [trial.outcome for trial in folder.trials()] == [Outcome.FINISHED] * 4
    assert kept.items() <= whole(folder).items()
    aside = sorted(path.name for path in (folder.path / "set-aside").iterdir())
    assert aside == [f"{slug}.1" for slug in failed]
    assert (folder.path / "set-aside" / aside[0] / "trial.json").exists()


@pytest.mark.long
def test_a_script_that_changes_in_a_run_ends_it(warm_home: Home, tmp_path: Path, scratch: Path, plan: Path) -> None:
    hold = Hold(scratch)
    (tmp_path / "one.sql").write_text(hold.script)
    with running(warm_home, tmp_path, plan) as process:
        wait_until(lambda: active_sessions(warm_home) > 0)
        (tmp_path / "one.sql").write_text("SELECT 2;\n")
        hold.release()
        _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == ExitCode.STOPPED, err
    folder = the_run(tmp_path)
    assert (folder.manifest.outcome, len(folder.trials())) == (Outcome.INTERRUPTED, 1)
    assert any("has changed since the run began" in note for note in folder.manifest.notes)


@pytest.mark.long
def test_what_has_changed_since_a_kill_is_refused_or_noted(warm_home: Home, tmp_path: Path, plan: Path) -> None:
    with running(warm_home, tmp_path, plan) as process:
        process.kill()
        process.wait()
    (tmp_path / "one.sql").write_text("SELECT 2;\n")
    # the plan's file is not asked again
    plan.unlink()
    refused = pgdyno(warm_home, tmp_path, "run", "--resume", "latest", code=ExitCode.STORE)
    assert "-SELECT 1;" in refused.stderr
    assert "+SELECT 2;" in refused.stderr
    assert len(the_run(tmp_path).manifest.attempts) == 1
    (kept,) = the_run(tmp_path).manifest.scripts or []
    (tmp_path / "one.sql").write_bytes((the_run(tmp_path).path / kept.kept).read_bytes())
    # another kernel, engine, server and setting
    path = the_run(tmp_path).path / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["attempts"][0]["host"]["kernel"] = "5.4.0-old"
    manifest["attempts"][0]["pgdrive"] = "0.0.9"
    manifest["targets"][0]["facts"]["version_full"] = "PostgreSQL 18.0 elsewhere"
    manifest["fingerprint"]["host"]["tuning"]["swappiness"] = "7"
    manifest["fingerprint"]["servers"]["a"]["settings_changed"]["shared_buffers"] = "8MB"
    path.write_text(json.dumps(manifest))
    pgdyno(warm_home, tmp_path, "run", "--resume", "latest", code=ExitCode.OK)
    said = "\n".join(the_run(tmp_path).manifest.notes)
    assert "and was 5.4.0-old in earlier trials" in said
    assert "and was 0.0.9 in earlier trials" in said
    assert "and was PostgreSQL 18.0 elsewhere in earlier trials" in said
    assert "removed the incomplete files of 1 trial (0001-a-c1)" in said
    assert "host.tuning.swappiness is " in said
    assert "and was 7 in earlier trials: different kernel settings" in said
    settings = "servers.a.settings_changed.shared_buffers is 16MB now, and was 8MB in earlier trials"
    why = "a setting that affects commits, caching, I/O, JIT compilation or background processes"
    assert f"{settings}: {why}; these cannot be" in said
    assert said.count("in earlier trials") == 5, said


GOLDEN = Path(__file__).parents[1] / "golden" / "run-format-1"


def test_a_run_that_an_earlier_version_began_goes_on(warm_home: Home, tmp_path: Path) -> None:
    path = tmp_path / "pgdyno-runs" / "20261121T020323Z-golden-43b5"
    shutil.copytree(GOLDEN, path)
    shutil.rmtree(path / "trials" / "0002-pg18-c2")
    manifest = json.loads((path / "manifest.json").read_text())
    manifest |= {"ended_at": None, "outcome": None}
    # the newest 18 of here will do
    manifest["targets"][0]["facts"] = None
    (path / "manifest.json").write_text(json.dumps(manifest))
    before = whole(RunFolder.open(path))
    pgdyno(warm_home, tmp_path, "run", "--resume", "latest", code=ExitCode.OK)
    folder = RunFolder.open(path)
    assert [(trial.slug, trial.attempt) for trial in folder.trials()] == [("0001-pg18-c1", 1), ("0002-pg18-c2", 2)]
    assert before.items() <= whole(folder).items()
    assert [attempt.ended for attempt in folder.manifest.attempts] == ["was killed", "came to its end"]


SWEPT = fast_plan(
    'scripts = ["select-only"]',
    'clients = 1\nrate = 200\n"settings.{name}" = [{values}]',
    'duration = "300ms"\nrepeats = 2\nseed = 5\n[hooks]\nbefore_trial = "echo $PGDYNO_SETTINGS_{capitals}"',
)


@pytest.mark.long_cases("values0")
@pytest.mark.parametrize(
    ("name", "values", "how"),
    [("work_mem", ("5MB", "6MB"), "reloaded"), ("shared_buffers", ("20MB", "24MB"), "restarted")],
)
def test_points_have_their_settings(
    warm_home: Home, tmp_path: Path, name: str, values: tuple[str, str], how: str
) -> None:
    listed = ", ".join(f'"{value}"' for value in values)
    text = SWEPT.replace("{name}", name).replace("{values}", listed).replace("{capitals}", name.upper())
    run_plan_text(warm_home, tmp_path, text, code=ExitCode.OK)
    folder = the_run(tmp_path)
    trials = folder.trials()
    # as the seed draws them: the server is changed only where a trial needs another setting than the one before
    asked = [trial.point.settings[name] for trial in trials]
    assert asked == [values[1], values[0], values[0], values[1]]
    for place, trial in enumerate(trials):
        steps = {step.name: step.detail for step in present(trial.prepare).steps}
        changed = place == 0 or asked[place] != asked[place - 1]
        assert ("configure" in steps) == changed
        if changed:
            assert steps["configure"] == f"{how}: {name} = {asked[place]}"
        said = (folder.trials_path / trial.slug / "log" / "before_trial.log").read_text()
        assert said == f"{asked[place]}\n"
        stored = {row.name: row for row in load_run(folder).settings(trial.number)}[name]
        unit_kb = {"kB": 1, "8kB": 8}[str(stored.unit)]
        assert f"{int(str(stored.setting)) * unit_kb // 1024}MB" == asked[place]
