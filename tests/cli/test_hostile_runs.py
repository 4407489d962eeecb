"""Hostile run folders: commands report what is wrong with them, and terminals show their content as text."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pgdyno.store import RunFolder
from tests.cli.conftest import Run
from tests.unit.store_sample import add_trial, sample_manifest

ESCAPE, OVERRIDE = "\x1b]0;owned\x07", "\u202e"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

ASCII = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
Edit = Callable[[dict[str, Any]], object]


def hostile(runs: Path, edit: Edit, trial: Edit | None = None) -> Path:
    folder = RunFolder.create(runs, sample_manifest())
    path = add_trial(folder, 1)
    rewrite(folder.path / "manifest.json", edit)
    if trial is not None:
        rewrite(path / "trial.json", trial)
    return folder.path


def rewrite(path: Path, edit: Edit) -> None:
    record = json.loads(path.read_text())
    edit(record)
    path.write_text(json.dumps(record))


def refusal(run: Run, path: Path, command: str = "show") -> str:
    """Returns the error of a command that cannot read the run."""
    done = run("pgdyno", command, path.name, "--runs", "runs")
    assert done.returncode == 6, (done.stdout, done.stderr)
    return done.stderr


@pytest.mark.long
def test_a_template_that_would_fill_the_memory_is_refused(run: Run, tmp_path: Path) -> None:
    note = {"id": "x", "template": "{count:>9999999999}", "plural": None, "parameters": {"count": 1}}
    path = hostile(tmp_path / "runs", lambda m: m.update(notes=["x"], note_details=[note]))
    assert "does not fit its parameters" in refusal(run, path)


@pytest.mark.parametrize("command", ["list", "show", "audit", "analyse"])
def test_no_name_steers_the_terminal(run: Run, tmp_path: Path, command: str) -> None:
    name = f"x{ESCAPE}{OVERRIDE}[/nope]:smile:"

    def edit(manifest: dict[str, Any]) -> None:
        manifest.update(workload=name, notes=[name], plan={"name": name})
        manifest["targets"][0]["name"] = name
        manifest["host"]["cpu_model"] = name

    path = hostile(tmp_path / "runs", edit, lambda record: record.update(target=name))
    named = [] if command == "list" else [path.name]
    done = run("pgdyno", command, *named, "--runs", "runs", env={"FORCE_COLOR": "1", "COLUMNS": "200"})
    assert "Traceback" not in done.stderr, done.stderr
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    assert not STEERING.search(shown), ascii(STEERING.search(shown))
    # nor is a name markup
    assert "[/nope]:smile:" in shown or command == "analyse"
    assert done.returncode == 0 or command != "list", done.stderr


def test_typed_arguments_cannot_control_the_terminal(run: Run) -> None:
    error = refusal(run, Path(f"a{ESCAPE}{OVERRIDE}b"))
    assert not STEERING.search(error), ascii(error)
    assert "there is no run a\ufffd]0;owned\ufffd\ufffdb in runs" in error
    for env in ({}, ASCII):
        done = run("pgdyno", f"--x{ESCAPE}{OVERRIDE}", env=env)
        assert done.returncode == 2
        assert not STEERING.search(done.stderr), ascii(done.stderr)


@pytest.mark.long_cases("analyse", "audit", "show")
@pytest.mark.parametrize("command", ["list", "show", "audit", "analyse", "report", "export --openmetrics"])
def test_a_terminal_of_ascii_and_a_locale_without_unicode(run: Run, tmp_path: Path, command: str) -> None:
    path = hostile(tmp_path / "runs", lambda m: m.update(workload="größer", notes=["→"]))
    named = [] if command == "list" else [path.name]
    for env in (ASCII, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        done = run("pgdyno", *command.split(), *named, "--runs", "runs", env=env)
        assert done.returncode in (0, 12), done.stderr
        assert "Traceback" not in done.stderr


def test_a_trial_is_where_it_was_found(run: Run, tmp_path: Path) -> None:
    victim = hostile(tmp_path / "elsewhere", lambda _: None)
    for slug in (f"../../../elsewhere/{victim.name}/trials/0001-pg18-c4", str(victim / "trials" / "0001-pg18-c4")):
        path = hostile(tmp_path / "runs", lambda _: None)
        rewrite(path / "trials" / "0001-pg18-c4" / "trial.json", lambda record: record.update(slug=slug))  # noqa: B023
        (path / "trials" / "0001-pg18-c4" / "intervals.parquet").unlink()
        assert "intervals.parquet" in refusal(run, path)


def test_a_run_folder_has_no_links_and_a_report_is_written_through_none(run: Run, tmp_path: Path) -> None:
    path = hostile(tmp_path / "runs", lambda _: None)
    mine = tmp_path / "mine"
    mine.write_text("mine\n")
    for name in ("report.html", ".report.html.partial"):
        (path / name).symlink_to(mine)
    done = run("pgdyno", "report", path.name, "--runs", "runs")
    assert done.returncode == 0, done.stderr
    assert mine.read_text() == "mine\n"
    assert "<html" in (path / "report.html").read_text()
    assert not (path / "report.html").is_symlink()
    victim = hostile(tmp_path / "elsewhere", lambda _: None)
    linked = hostile(tmp_path / "runs", lambda _: None)
    for name in ("trials/0001-pg18-c4/intervals.parquet", "trials/0001-pg18-c4/trial.json", "manifest.json"):
        (linked / name).unlink()
        (linked / name).symlink_to(victim / name)
        assert "it is a symbolic link" in refusal(run, linked), name
    # nor a folder of trials that is one
    linked = hostile(tmp_path / "runs", lambda _: None)
    shutil.rmtree(linked / "trials")
    (linked / "trials").symlink_to(victim / "trials")
    assert "trials: it is a symbolic link" in refusal(run, linked)


def test_a_manifest_that_cannot_be_read_is_one_row_of_the_list(run: Run, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    good = hostile(runs, lambda _: None)
    for name in ("fifo", "loop", "huge", "deep", "twice", "array"):
        (runs / name).mkdir()
    os.mkfifo(runs / "fifo" / "manifest.json")
    os.mkfifo(runs / "a-pipe")
    (runs / "loop" / "manifest.json").symlink_to("manifest.json")
    (runs / "in-circles").symlink_to("in-circles")
    with (runs / "huge" / "manifest.json").open("wb") as file:
        file.truncate(1 << 30)
    (runs / "deep" / "manifest.json").write_text("[" * 200_000)
    (runs / "twice" / "manifest.json").write_text('{"format": 1, "format": 1}')
    (runs / "array" / "manifest.json").write_text("[]")
    done = run("pgdyno", "list", "--runs", "runs", env={"COLUMNS": "250"})
    assert done.returncode == 0, done.stderr
    assert good.name in done.stdout
    reasons = ("not a regular file", "symbolic link", "larger than 32 MiB", "nested too deep", "'format' occurs twice")
    for reason in reasons:
        assert reason in " ".join(done.stdout.split()), (reason, done.stdout)


def test_a_thousand_notes_are_cut(run: Run, tmp_path: Path) -> None:
    path = hostile(tmp_path / "runs", lambda m: m.update(notes=[f"note {at}" for at in range(100_000)]))
    done = run("pgdyno", "show", path.name, "--runs", "runs")
    assert done.returncode == 0
    assert "And 99,800 more notes in manifest.json" in done.stdout
    assert "note 200\n" not in done.stdout


def changed_table(path: Path, table: str, query: str) -> Path:
    """Replaces a table of the trial by the answer to a query about it."""
    file = path / "trials" / "0001-pg18-c4" / f"{table}.parquet"
    copy = Path(shutil.copy(file, path / "copy.parquet"))
    duckdb.sql(f"COPY ({query.replace('TABLE', repr(str(copy)))}) TO '{file}' (FORMAT parquet)")
    copy.unlink()
    return file


@pytest.mark.long_cases("settings", "statements")
@pytest.mark.parametrize("table", ["intervals", "events", "settings", "statements"])
def test_more_rows_than_a_trial_has(run: Run, tmp_path: Path, table: str) -> None:
    path = hostile(tmp_path / "runs", lambda _: None)
    file = changed_table(path, table, "SELECT t.* FROM (FROM TABLE LIMIT 1) t, range(3_000_000)")
    assert file.stat().st_size < 400_000
    assert f"{table}.parquet: 3,000,000 rows in " in refusal(run, path, "report")


def test_a_value_that_is_no_figure(run: Run, tmp_path: Path) -> None:
    path = hostile(tmp_path / "runs", lambda _: None)
    file = path / "trials" / "0001-pg18-c4" / "intervals.parquet"
    kept = file.read_bytes()
    for column, value in (
        ("latency_sum_ns", "'nan'::DOUBLE"), ("latency_sum_ns", "'inf'::DOUBLE"), ("latency_sum_ns", "1e308"),
        ("succeeded", "'a count'"), ("phase", "repeat('x', 2_000_000)"), ("succeeded", "[1, 2]"),
    ):  # fmt: skip
        file.write_bytes(kept)
        changed_table(path, "intervals", f"SELECT * REPLACE ({value} AS {column}) FROM TABLE")
        error = refusal(run, path)
        assert "Traceback" not in error
        assert error.startswith("error: cannot read ")


def test_progress_displays_keep_their_own_colours(run: Run, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(
        f"transaction type: x{ESCAPE}{OVERRIDE}\nnumber of clients: 4\ntps = 3.5\n| 5 tps{ESCAPE}\n"
    )
    done = run("pgdyno", "import", "log.txt", "--into", "runs", env={"FORCE_COLOR": "1"})
    assert done.returncode == 0, done.stderr
    assert "\x1b[32m" in done.stderr
    assert "\ufffd[" not in done.stderr
    assert ESCAPE not in done.stdout + done.stderr
