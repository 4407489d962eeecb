"""Runs listed and found."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from pgdyno.errors import StoreError, UsageError
from pgdyno.store import RunFolder, find_run, list_runs, newest_first
from pgdyno.store import find_runs as finding
from tests.unit.store_sample import STARTED, add_trial, sample_manifest


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


def test_newest_first(runs: Path) -> None:
    assert names(runs) == ["20261120T121500Z", "20261120T111500Z", "20261120T101500Z"]
    newest = list_runs(runs)[0]
    assert (newest.targets, newest.outcome, newest.trials_done, newest.problem) == (["pg18"], None, 0, None)
    # trials are counted without partial ones
    folder = find_run("latest", runs)
    add_trial(folder, 1)
    folder.begin_trial("0002-pg18-c4")
    assert list_runs(runs)[0].trials_done == 1


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        # pydantic reads what pgdyno does not write
        ({"trials_planned": "2", "format": "1"}, None),
        ({"trials_planned": "many"}, "trials_planned"),
        ({"started_at": STARTED.replace(tzinfo=None).isoformat()}, None),
        ({"started_at": "9999-11-20T10:15:00Z"}, "started_at"),
        ({"workload": 5}, "workload"),
        ({"targets": [{"name": ["x"]}]}, "targets.0"),
        ({"budget": 5}, "budget"),
        ({"format": 2}, "of format 2"),
    ],
)
def test_a_list_reads_a_manifest_as_its_model_does(runs: Path, changes: dict[str, object], problem: str | None) -> None:
    path = list_runs(runs)[-1].path / "manifest.json"
    usual = list_runs(runs)[-1]
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    found = list_runs(runs)[-1]
    assert (found == replace(usual, trials_planned=found.trials_planned)) == (problem is None)
    assert (problem or "") in (found.problem or "")


def test_the_newest_first_are_found_as_they_are_listed(runs: Path) -> None:
    for microseconds in (2, 3, 1):
        RunFolder.create(runs, sample_manifest(started_at=STARTED + timedelta(hours=1, microseconds=microseconds)))
    RunFolder.create(runs, sample_manifest(started_at=STARTED + timedelta(minutes=30))).path.rename(runs / "renamed")
    (runs / "notes").mkdir()
    (runs / "20261120T111500Z-quick-0000").mkdir()
    assert list(newest_first(runs)) == [entry.path for entry in list_runs(runs)]
    assert list(newest_first(runs / "none")) == []


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


def test_a_run_is_found(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest, _, oldest = list_runs(runs)
    assert find_run("20261120T10", runs).name == oldest.name
    assert find_run(str(oldest.path), Path("/none")).name == oldest.name
    monkeypatch.chdir(oldest.path)
    assert find_run(".", runs).name == oldest.name
    assert find_run(f"../{newest.name}", runs).name == newest.name


def test_a_run_that_is_not_found(runs: Path) -> None:
    with pytest.raises(UsageError, match="is ambiguous: it matches 3 runs: 20261120T121500Z"):
        find_run("2026", runs)
    for text in ("", "xyz", "20261120T111501Z-quick-0000"):
        with pytest.raises(StoreError, match=f"there is no run {text}") as caught:
            find_run(text, runs)
    assert "did you mean 20261120T1" in (caught.value.hint or "")
    with pytest.raises(StoreError, match="no such folder"):
        find_run("./2026", runs)


def test_a_plan_that_made_no_run_outdates_the_latest(runs: Path) -> None:
    latest = finding.find_path(finding.LATEST, runs)
    finding.refuse_outdated(latest)
    finding.note_attempt(runs, "shop.toml")
    with pytest.raises(UsageError, match=re.escape(f"{latest.name}, is older than the last attempt: shop.toml was")):
        finding.refuse_outdated(latest)
    made = RunFolder.create(runs, sample_manifest(started_at=STARTED + timedelta(hours=3), plan={"name": "shop"}))
    finding.refuse_outdated(made.path)
    assert len(list_runs(runs)) == 4
