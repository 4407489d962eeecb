"""Run folders: created, read, listed, found, and refused."""

import errno
import json
import os
import re
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode, StoreError, UsageError
from pgdyno.records import FORMAT, Manifest, Outcome
from pgdyno.store import RunFolder, changed_script, find_run, list_runs, newest_first
from pgdyno.store import find_runs as finding
from pgdyno.store.run_folder import MANIFEST
from pgdyno.store.safe_files import parse_json, store_errors
from tests.unit.store_sample import STARTED, add_trial, sample_manifest


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, sample_manifest())


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pgdyno.store.safe_files.os.fsync", full)


def test_a_new_folder_has_its_name_and_its_manifest(tmp_path: Path) -> None:
    # the name is in UTC
    elsewhere = STARTED.astimezone(timezone(timedelta(hours=9)))
    # logs of servers and hooks may contain what other users must not read, whatever the umask is
    before = os.umask(0)
    try:
        folder = RunFolder.create(tmp_path / "not" / "yet", sample_manifest(started_at=elsewhere))
    finally:
        os.umask(before)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert re.fullmatch(r"20261120T101500Z-quick-[0-9a-f]{4}", folder.name)
    assert folder.manifest.run == folder.name
    assert RunFolder.open(folder.path).manifest == folder.manifest
    assert (folder.trials(), folder.partials()) == ([], [])


def test_runs_of_one_second_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr("pgdyno.store.run_folder.secrets.token_hex", lambda _bytes: next(drawn))
    first, second = (RunFolder.create(tmp_path, sample_manifest()) for _ in range(2))
    assert [first.name[-4:], second.name[-4:]] == ["aaaa", "bbbb"]
    monkeypatch.setattr("pgdyno.store.run_folder.secrets.token_hex", lambda _bytes: "aaaa")
    with pytest.raises(StoreError, match="every name tried already exists"):
        RunFolder.create(tmp_path, sample_manifest(trials_planned=9))
    assert RunFolder.open(first.path).manifest.trials_planned == 2


def test_the_manifest_is_updated_and_fields_of_a_later_version_are_kept(folder: RunFolder, tmp_path: Path) -> None:
    ended = datetime(2026, 11, 20, 11, tzinfo=UTC)
    folder.update_manifest(ended_at=ended, outcome=Outcome.FINISHED, notes=["a"])
    assert RunFolder.open(folder.path).manifest == folder.manifest
    assert (folder.manifest.ended_at, folder.manifest.outcome) == (ended, Outcome.FINISHED)
    assert [path.name for path in folder.path.iterdir() if path.name.startswith(".")] == []
    with pytest.raises(ValueError, match="a manifest has no endet_at"):
        folder.update_manifest(endet_at=STARTED)
    folder = RunFolder.create(tmp_path, Manifest.model_validate({**dict(sample_manifest()), "price": 5}))
    folder.update_manifest(notes=["x"])
    assert json.loads((folder.path / MANIFEST).read_text())["price"] == 5


def test_an_update_that_fails_leaves_the_old_manifest(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_disk(monkeypatch)
    with pytest.raises(StoreError, match="no space left") as caught:
        folder.update_manifest(outcome=Outcome.FINISHED)
    assert str(folder.path / MANIFEST) in caught.value.message
    assert "free space" in (caught.value.hint or "")
    assert RunFolder.open(folder.path).manifest.outcome is None
    assert sorted(path.name for path in folder.path.iterdir()) == [MANIFEST, "trials"]
    # a folder that could not be finished is not left
    with pytest.raises(StoreError):
        RunFolder.create(folder.path.parent, sample_manifest())
    assert list(folder.path.parent.iterdir()) == [folder.path]


def test_a_parent_that_is_a_file_or_closed(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    before = os.geteuid()
    if before == 0:  # whom a mode does not stop
        os.seteuid(65534)
    try:
        with pytest.raises(StoreError, match="permission denied") as caught:
            RunFolder.create(tmp_path / "closed", sample_manifest())
    finally:
        os.seteuid(before)
    assert "--runs" in (caught.value.hint or "")
    (tmp_path / "runs").write_text("")
    for parent in (tmp_path / "runs", tmp_path / "runs" / "deeper"):
        with pytest.raises(StoreError, match=re.escape(str(parent))) as caught:
            RunFolder.create(parent, sample_manifest())
        assert caught.value.exit_code is ExitCode.STORE


def test_what_is_no_run_folder_or_refused_is_named_with_its_remedy(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "none", "no such folder"), (tmp_path, f"no {MANIFEST}")):
        with pytest.raises(StoreError, match=message):
            RunFolder.open(path)
    for doing, hint in (
        ("read", "allow your user to read it"),
        ("write", "choose a folder that you may write to with --runs"),
    ):
        with pytest.raises(StoreError) as raised, store_errors(doing, Path("a")):
            raise PermissionError(errno.EACCES, "Permission denied", "a")
        assert (raised.value.message, raised.value.hint) == (f"cannot {doing} a: permission denied", hint)


def test_a_damaged_manifest(folder: RunFolder) -> None:
    manifest = (folder.path / MANIFEST).read_bytes()
    for content, message in (
        ("", "not JSON"),
        ("[1]", "it is not an object"),
        ('{"format": 1', "not JSON"),
        ("\x00\xff", "not JSON"),
        ('{"format": 1}', "field required"),
        ("[" * 100_000, "not JSON"),
        # no other field of a newer format may be interpreted
        (f'{{"format": {FORMAT + 1}, "pgdyno": "9.1"}}', f"format {FORMAT + 1}.*use pgdyno 9.1 or newer$"),
        (f'{{"format": {FORMAT + 1}, "pgdyno": "0.1.0"}}', f"format {FORMAT + 1}.*use a newer pgdyno$"),
    ):
        (folder.path / MANIFEST).write_bytes(content.encode("latin-1"))
        with pytest.raises(StoreError) as caught:
            RunFolder.open(folder.path)
        assert re.search(message, f"{caught.value.message} {caught.value.hint}")
        assert str(folder.path / MANIFEST) in caught.value.message
    # a plan in a manifest
    kept = json.loads(manifest.decode())
    for plan, part in (
        ({"workload": 5}, "workload is not a table"),
        ({"sweep": [1]}, "sweep is not a table"),
        ({"sweep": {"settings": 3}}, r"sweep\.settings is not a table"),
        ({"phase": {"a": 1}}, "phase is not a list of tables"),
        ({"phase": [{"rate": 1}]}, "phase is not a list of tables with names"),
        ({"group": {"a": 1}}, "group is not a list of tables"),
        ({"step": ["a"]}, "step is not a list of tables with names"),
        ({"sweep": {"group": [1]}}, "sweep.group is not a table"),
        ({"description": 5}, "description is not a text"),
        ({"workload": {"scale_factor": "x"}}, r"workload\.scale_factor is not a number"),
    ):
        (folder.path / MANIFEST).write_text(json.dumps({**kept, "plan": kept["plan"] | plan}))
        with pytest.raises(StoreError, match=part):
            RunFolder.open(folder.path)


def test_a_key_that_occurs_twice_among_many_is_found_in_a_moment() -> None:
    keys = [f'"key-{number}": 1' for number in range(100_000)]
    began_s = time.process_time()
    with pytest.raises(ValueError, match="'key-99999' occurs twice"):
        parse_json(f"{{{', '.join([*keys, keys[-1]])}}}")
    assert time.process_time() - began_s < 5


def test_trials_come_by_number_and_a_damaged_one_is_named(folder: RunFolder) -> None:
    paths = [add_trial(folder, number) for number in (2, 10, 1)]
    assert [record.number for record in folder.trials()] == [1, 2, 10]
    assert RunFolder.open(folder.path).trials() == folder.trials()
    # sums of squares of ns pass 2**64 in a minute of 6,000 transactions a second that take 10 ms each: here is a week
    file = paths[0] / "trial.json"
    whole = json.loads(file.read_text())
    whole["summary"]["latency_ns"]["sum_of_squares"] = 7 * 86_400 * 10_000 * 10e9**2
    file.write_text(json.dumps(whole))
    assert [record.number for record in folder.trials()] == [1, 2, 10]
    file.write_text("{}")
    with pytest.raises(StoreError, match=re.escape(str(file))):
        folder.trials()


def test_a_folder_is_held_by_one_at_a_time_and_partial_trials_are_removed(folder: RunFolder) -> None:
    again = RunFolder.open(folder.path)
    with folder.hold_lock(), pytest.raises(StoreError, match="another pgdyno works on it"), again.hold_lock():
        pass
    with again.hold_lock():
        pass
    # partial trials are removed, and complete ones stay
    add_trial(folder, 1)
    folder.begin_trial("0002-pg18-c4")
    assert folder.clear_partials() == ([], ["0002-pg18-c4"])
    assert (folder.partials(), len(folder.trials())) == ([], 1)
    assert folder.clear_partials() == ([], [])


def test_a_trial_that_is_set_aside_keeps_all_it_has(folder: RunFolder) -> None:
    for number in (1, 2, 3):
        path = add_trial(folder, 1)
        files = sorted(each.name for each in path.iterdir())
        aside = folder.set_aside(path.name)
        assert aside == folder.path / "set-aside" / f"{path.name}.{number}"
        assert sorted(each.name for each in aside.iterdir()) == files
        assert folder.trials() == []
        # the numbers go on although an earlier attempt was removed
        if number == 2:
            shutil.rmtree(aside.with_name(f"{path.name}.1"))


def test_scripts_are_kept_and_changes_are_named(tmp_path: Path) -> None:
    plans = tmp_path / "plans"
    (plans / "deep").mkdir(parents=True)
    for name in ("a.sql", "deep/a.sql"):
        (plans / name).write_text(f"SELECT '{name}';\nEND;\n")
    folder = RunFolder.create(tmp_path, sample_manifest(plan_folder=str(plans)), ["a.sql", "deep/a.sql", "a.sql"])
    kept = RunFolder.open(folder.path).manifest.scripts or []
    assert [script.name for script in kept] == ["a.sql", "deep/a.sql"]
    for script in kept:
        assert (folder.path / script.kept).read_text() == (plans / script.name).read_text()
    assert changed_script(folder.path, plans, kept) is None
    (plans / "deep" / "a.sql").write_text("SELECT 2;\nEND;\n")
    changed = changed_script(folder.path, plans, kept)
    assert changed is not None
    assert changed.id == "script-changed"
    said = str(changed)
    assert f"{plans}/deep/a.sql has changed since the run began" in said
    assert [line for line in said.splitlines() if "SELECT" in line] == ["    -SELECT 'deep/a.sql';", "    +SELECT 2;"]
    (plans / "a.sql").unlink()
    assert "can no longer be read: no such file" in str(changed_script(folder.path, plans, kept))
    # one that cannot be kept leaves no folder
    with pytest.raises(StoreError, match="no such file"):
        RunFolder.create(tmp_path / "runs", sample_manifest(plan_folder=str(tmp_path)), ["gone.sql"])
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs, an hour apart; the folders are made in another order."""
    parent = tmp_path / "runs"
    for hours, plan in ((1, "quick"), (0, "quick"), (2, "wide")):
        started = STARTED + timedelta(hours=hours)
        RunFolder.create(parent, sample_manifest(started_at=started, plan={"name": plan}))
    return parent


def names(parent: Path) -> list[str]:
    return [entry.name[:16] for entry in list_runs(parent)]


def test_the_newest_first_are_found_as_they_are_listed(runs: Path) -> None:
    assert names(runs) == ["20261120T121500Z", "20261120T111500Z", "20261120T101500Z"]
    newest = list_runs(runs)[0]
    assert (newest.targets, newest.outcome, newest.trials_done, newest.problem) == (["pg18"], None, 0, None)
    # trials are counted without partial ones
    folder = find_run("latest", runs)
    add_trial(folder, 1)
    folder.begin_trial("0002-pg18-c4")
    assert list_runs(runs)[0].trials_done == 1
    for microseconds in (2, 3, 1):
        RunFolder.create(runs, sample_manifest(started_at=STARTED + timedelta(hours=1, microseconds=microseconds)))
    RunFolder.create(runs, sample_manifest(started_at=STARTED + timedelta(minutes=30))).path.rename(runs / "renamed")
    (runs / "notes").mkdir()
    (runs / "20261120T111500Z-quick-0000").mkdir()
    assert list(newest_first(runs)) == [entry.path for entry in list_runs(runs)]
    assert list(newest_first(runs / "none")) == []


def test_a_list_reads_a_manifest_as_its_model_does(runs: Path) -> None:
    usual = list_runs(runs)[-1]
    kept = json.loads((usual.path / MANIFEST).read_text())
    for changes, problem in (
        ({}, None),
        # pydantic reads what pgdyno does not write
        ({"trials_planned": "2", "format": "1"}, None),
        ({"trials_planned": "many"}, "trials_planned"),
        ({"started_at": STARTED.replace(tzinfo=None).isoformat()}, None),
        ({"started_at": "9999-12-31T23:59:59-23:59"}, "started_at"),
        ({"started_at": "0001-01-01T00:00:00+23:59"}, "started_at"),
        ({"started_at": "NaN"}, "started_at"),
        ({"started_at": "1e400"}, "started_at"),
        ({"workload": 5}, "workload"),
        ({"targets": [{"name": ["x"]}]}, "targets.0"),
        ({"budget": 5}, "budget"),
        ({"format": 2}, "of format 2"),
    ):
        (usual.path / MANIFEST).write_text(json.dumps(kept | changes))
        found = list_runs(runs)[-1]
        assert (found == replace(usual, trials_planned=found.trials_planned)) == (problem is None)
        assert (problem or "") in (found.problem or "")


def test_a_run_is_found_without_reading_the_others(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest, second, oldest = list_runs(runs)
    whole_name = runs / f"{oldest.name}0"

    def fail(_path: Path) -> None:
        raise AssertionError

    monkeypatch.setattr(finding, "_entry", fail)
    assert [find_run(each, runs).name for each in ("latest", "latest~1")] == [newest.name, second.name]
    with pytest.raises(StoreError, match="there is no run latest~99: "):
        find_run("latest~99", runs)
    assert find_run(oldest.name, runs).name == oldest.name
    # a whole name comes before its prefixes
    whole_name.mkdir()
    assert find_run(oldest.name, runs).name == oldest.name


def test_broken_folders_are_listed_with_the_reason(runs: Path) -> None:
    (runs / "20261120T113000Z-quick-0000").mkdir()
    (runs / "notes").mkdir()
    (runs / "README").write_text("")
    (runs / ".hidden").mkdir()
    (list_runs(runs)[0].path / "manifest.json").write_text("{")
    times = [f"20261120T{time}00Z" for time in ("1215", "1130", "1115", "1015")]
    assert names(runs) == [*times, "notes"]
    problems = [entry.problem for entry in list_runs(runs)]
    assert [problem is not None for problem in problems] == [True, True, False, False, True]
    assert "not JSON" in (problems[0] or "")
    assert "no manifest.json" in (problems[1] or "")
    # the latest one is not passed over when it is broken
    with pytest.raises(StoreError, match="not JSON"):
        find_run("latest", runs)


def test_a_path_that_is_no_run_says_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list_runs(tmp_path / "none") == []
    with pytest.raises(StoreError, match="there are no runs") as caught:
        find_run("latest", tmp_path / "none")
    assert "pgdyno run" in (caught.value.hint or "")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    run = RunFolder.create(tmp_path / "many", sample_manifest())
    for name, message in (
        ("empty", "empty is a folder without runs"),
        ("file", "file is a file, not a run"),
        ("many", "many is a folder of runs"),
    ):
        with pytest.raises(StoreError) as caught:
            find_run(name, tmp_path / "runs")
        assert caught.value.message == message
    assert caught.value.hint == f"name one of them, such as many/{run.name}"
    with pytest.raises(StoreError, match=re.escape(str(tmp_path / "file"))):
        list_runs(tmp_path / "file")


def test_a_run_is_found_by_its_name_its_path_and_no_other(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="is ambiguous: it matches 3 runs: 20261120T121500Z"):
        find_run("2026", runs)
    for text in ("", "xyz", "20261120T111501Z-quick-0000"):
        with pytest.raises(StoreError, match=f"there is no run {text}") as caught:
            find_run(text, runs)
    assert "did you mean 20261120T1" in (caught.value.hint or "")
    with pytest.raises(StoreError, match="no such folder"):
        find_run("./2026", runs)
    newest, _, oldest = list_runs(runs)
    assert find_run("20261120T10", runs).name == oldest.name
    assert find_run(str(oldest.path), Path("/none")).name == oldest.name
    monkeypatch.chdir(oldest.path)
    assert find_run(".", runs).name == oldest.name
    assert find_run(f"../{newest.name}", runs).name == newest.name


def test_a_plan_that_made_no_run_outdates_the_latest(runs: Path) -> None:
    latest = finding.find_path(finding.LATEST, runs)
    finding.refuse_outdated(latest)
    finding.note_attempt(runs, "shop.toml")
    with pytest.raises(UsageError, match=re.escape(f"{latest.name}, is older than the last attempt: shop.toml was")):
        finding.refuse_outdated(latest)
    made = RunFolder.create(runs, sample_manifest(started_at=STARTED + timedelta(hours=3), plan={"name": "shop"}))
    finding.refuse_outdated(made.path)
    assert len(list_runs(runs)) == 4
