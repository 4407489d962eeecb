"""Where output goes: a closed pipe, a full disk, devices, and messages next to data."""

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.text import Text

from pgdyno.console import wrap_words
from pgdyno.errors import ExitCode
from pgdyno.records import TargetRecord
from pgdyno.store import RunFolder
from tests.run_program import run_program
from tests.unit.store_sample import add_trial, sample_manifest

BIN = Path(sys.executable).parent
FULL = Path("/dev/full")
WRONG = """
name = "wrong"
[target.here]
kind = "embedded"
version = "18"
[workload]
scripts = ["select-only"]
[sweep]
clients = [1000000]
[trial]
duration = "1s"
"""


def ran(shell: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment["PATH"] = f"{BIN}:{environment['PATH']}"
    return run_program(["bash", "-o", "pipefail", "-c", shell], env=environment, cwd=cwd)


@pytest.mark.parametrize("command", ["pgdyno plan list", "pgdyno plan show quick"])
def test_a_reader_that_leaves_is_no_error(command: str, tmp_path: Path) -> None:
    done = ran(f"{command} | true", tmp_path)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")


@pytest.mark.parametrize("command", ["pgdyno plan list", "pgdyno plan schema"])
def test_output_on_a_full_disk_is_an_error_with_its_reason(command: str, tmp_path: Path) -> None:
    assert FULL.is_char_device()
    done = ran(f"{command} > {FULL}", tmp_path)
    assert done.returncode == ExitCode.STORE
    assert done.stderr == "error: cannot write to standard output: no space left on device\n"


def test_a_device_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    run = Path(__file__).parents[1] / "golden" / "run-format-1"
    written = ran(f"pgdyno report {run} --html {tmp_path}/page.html --csv /dev/stderr", tmp_path)
    assert written.returncode == ExitCode.OK, written.stderr
    assert written.stderr.startswith("target,")
    full = ran(f"pgdyno report {run} --html {FULL}", tmp_path)
    assert (full.returncode, FULL.is_char_device()) == (ExitCode.STORE, True)
    assert f"cannot write {FULL}: no space left on device" in full.stderr


def test_a_dash_is_standard_output_which_then_has_nothing_else(tmp_path: Path) -> None:
    run = Path(__file__).parents[1] / "golden" / "run-format-1"
    into_file = ran(f"pgdyno report {run} --html page.html --md page.md", tmp_path)
    printed = ran(f"pgdyno report {run} --html page.html --md -", tmp_path)
    assert (into_file.returncode, printed.returncode) == (ExitCode.OK, ExitCode.OK), printed.stderr
    assert printed.stdout == (tmp_path / "page.md").read_text()
    assert printed.stderr == "page.html\n"
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_data_is_utf_8_in_every_locale(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("target,clients,tps\ngröße 東京,4,100\n", encoding="utf-8")
    imported = ran(f"PYTHONIOENCODING={encoding} pgdyno import table.csv --into runs --json", tmp_path)
    assert json.loads(imported.stdout)["trials"] == 1, imported.stderr
    shown = ran(f"PYTHONIOENCODING={encoding} pgdyno show runs/* --json", tmp_path)
    assert json.loads(shown.stdout)["points"][0]["target"] == "größe 東京"
    table = ran(f"PYTHONIOENCODING={encoding} pgdyno show runs/* --csv", tmp_path)
    assert "größe 東京" in table.stdout


def test_rows_of_many_runs_cannot_control_the_terminal(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", sample_manifest())
    record = add_trial(folder, 1) / "trial.json"
    failed = {"outcome": "failed", "summary": None, "failure": {"stage": "run", "message": "3 %\r9 %\x1b[2Jdone"}}
    record.write_text(json.dumps(json.loads(record.read_text()) | failed))
    done = ran("pgdyno report --each runs --html pages --csv -", tmp_path)
    (row,) = csv.DictReader(io.StringIO(done.stdout, newline=""))
    assert row["failure"] == "3 %\ufffd9 %\ufffd[2Jdone"


def test_a_file_to_which_the_shell_appends_keeps_what_it_has(tmp_path: Path) -> None:
    run = Path(__file__).parents[1] / "golden" / "run-format-1"
    log = tmp_path / "log.txt"
    log.write_text("before\n")
    for place in ("-", "/dev/stdout"):
        done = ran(f"pgdyno report {run} --html page.html --md {place} >> log.txt", tmp_path)
        assert done.returncode == ExitCode.OK, done.stderr
    assert log.read_text().startswith("before\n**PostgreSQL")


def test_a_value_that_an_option_does_not_have_is_named(tmp_path: Path) -> None:
    done = ran("pgdyno compare latest --metric speed", tmp_path)
    assert done.returncode == ExitCode.USAGE
    wrong = (
        "Invalid value for '--metric': 'speed' is not one of 'tps', 'p50', 'p99', 'mean', 'composite', 'instructions'."
    )
    assert done.stderr.splitlines()[-1] == f"Error: {wrong}"


def test_prose_in_a_pipe_has_a_line_for_each_sentence(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text(WRONG)
    wrong = ran("pgdyno plan check wrong.toml", tmp_path)
    assert wrong.returncode == ExitCode.PLAN
    assert "1,000,000 clients are more than PostgreSQL accepts; the maximum is 262,043\n" in wrong.stderr
    checked = ran("pgdyno plan check power8-select-only --on embedded", tmp_path)
    assert "setting, in a drawn order; 6 blocks\n" in checked.stdout


def in_terminal(words: list[str], columns: int, cwd: Path, **variables: str) -> list[str]:
    """Returns the lines that pgdyno prints on a terminal of that width."""
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm", "PAGER": "cat", **variables}
    master, slave = pty.openpty()
    with subprocess.Popen([BIN / "pgdyno", *words], stdin=slave, stdout=slave, env=environment, cwd=cwd) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                shown += os.read(master, 65536)
            except OSError:
                # the other end is closed
                break
    os.close(master)
    assert process.returncode in (ExitCode.OK, ExitCode.INVALID)
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("command", ["audit golden/run-format-1", "plan check quick"])
def test_prose_in_a_terminal_is_broken_between_words(command: str, columns: int, tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    words = command.replace("golden", str(tests / "golden")).split()
    plain = in_terminal(words, columns, tmp_path)
    assert len(plain) > 5
    assert [line for line in plain if len(line) > columns] == []


def test_plain_lines_in_a_terminal_are_broken_between_words(tmp_path: Path) -> None:
    shown = in_terminal(["history", "--runs", str(Path(__file__).parents[1] / "golden")], 30, tmp_path)
    assert [line for line in shown if len(line) > 30] == []
    assert "  1 run is too few for change" in shown
    assert shown[shown.index("  1 run is too few for change") + 1] == "      points, which need at"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a word that is long", ["a word that is", "    long"]),
        ("  a/path/that/is/long/is/whole or", ["  a/path/that/is/long/is/whole", "      or"]),
        ("to resume: pgdyno run --resume X", ["to resume:", "    pgdyno run --resume X"]),
        ("because: pgdyno reads it", ["because: pgdyno", "    reads it"]),
        ("fits\n\n  it too", ["fits", "", "  it too"]),
    ],
)
def test_words_and_commands_are_not_broken(text: str, lines: list[str]) -> None:
    assert wrap_words(Text(text), 16).plain.split("\n") == lines


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_a_list_in_a_terminal_cuts_workloads_and_targets_first(columns: int, tmp_path: Path) -> None:
    workload, names = "place-order.sql, recent.sql, report.sql", ("server", "standby-in-another-zone")
    targets = [TargetRecord(name=name, kind="embedded", asked={}) for name in names]
    manifest = sample_manifest(workload=workload, targets=targets, trials_planned=120)
    folder = RunFolder.create(tmp_path, manifest)
    heading, row = in_terminal(["list", "--runs", str(tmp_path)], columns, tmp_path)
    assert heading.split() == ["run", "workload", "targets", "trials", "outcome"]
    assert row.startswith(f"{folder.name}  place-order")
    assert row.split()[-2:] == ["0/120", "unfinished"]


def test_a_list_in_a_narrow_terminal_has_a_line_for_each_long_name(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, sample_manifest(workload="w" * 10, trials_planned=12))
    name = f"{folder.name}-{'long' * 10}"
    folder.path.rename(tmp_path / name)
    shown = in_terminal(["list", "--runs", str(tmp_path)], 80, tmp_path)
    assert shown == [name, "  wwwwwwwwww; pg18; 0/12 trials; unfinished"]


@pytest.mark.parametrize(
    ("lines", "pager", "is_used"),
    [("10", "pager --quiet", True), ("40", "pager --quiet", False), ("10", "nosuch-pager", False)],
)
def test_a_long_list_goes_through_the_pager(lines: str, pager: str, *, is_used: bool, tmp_path: Path) -> None:
    program = tmp_path / "pager"
    program.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/called\ncat >{tmp_path}/paged\n')
    program.chmod(0o755)
    names = [RunFolder.create(tmp_path / "runs", sample_manifest()).name for _ in range(20)]
    shown = in_terminal(["list", "--runs", "runs"], 100, tmp_path, LINES=lines, PAGER=f"{tmp_path}/{pager}")
    if is_used:
        assert shown == []
        assert (tmp_path / "called").read_text() == "--quiet\n"
        shown = (tmp_path / "paged").read_text().splitlines()[1:]
    else:
        assert not (tmp_path / "called").exists()
        shown = shown[1:]
    assert sorted(line.split()[0] for line in shown) == sorted(names)
