"""Where output goes: a closed pipe, a full disk, devices, and messages next to data.

Where an output of pgdrive cannot be written, its message names the file and the reason, and other output comes.
"""

import csv
import io
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.text import Text

from pgdyno.console import wrap_words
from pgdyno.errors import ExitCode
from pgdyno.records import TargetRecord
from pgdyno.safe_output import json_text, print_json
from pgdyno.store import RunFolder
from tests.cli.conftest import NullServer, Run, end_event, processed_count, show_in_terminal
from tests.run_program import BIN, run_program
from tests.unit.plan_sample import small_plan
from tests.unit.store_sample import add_trial, sample_manifest

TESTS = Path(__file__).parents[1]
FULL = Path("/dev/full")
REASON = "No space left on device"
UNWRITTEN = 4
"""The exit code of pgdrive."""
LOAD = ("-n", "-S")
WRONG = small_plan(sweep="clients = [1000000]")


def ran(shell: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment["PATH"] = f"{BIN}:{environment['PATH']}"
    return run_program(["bash", "-o", "pipefail", "-c", shell], env=environment, cwd=cwd)


def test_a_reader_that_leaves_is_no_error_and_a_full_disk_is_one_with_its_reason(tmp_path: Path) -> None:
    assert FULL.is_char_device()
    # short output, and more than a pipe holds
    for command in ("pgdyno plan list", "pgdyno plan schema"):
        done = ran(f"{command} | true", tmp_path)
        assert (done.returncode, done.stderr) == (ExitCode.OK, "")
        done = ran(f"{command} > {FULL}", tmp_path)
        assert done.returncode == ExitCode.STORE
        assert done.stderr == "error: cannot write to standard output: no space left on device\n"


def test_a_dash_and_devices_are_written_to_and_never_replaced(tmp_path: Path) -> None:
    report = f"pgdyno report {TESTS}/golden/run-format-1 --html"
    done = ran(f"{report} page.html --md page.md --csv /dev/stderr", tmp_path)
    assert done.returncode == ExitCode.OK, done.stderr
    assert done.stderr.startswith("target,")
    full = ran(f"{report} {FULL}", tmp_path)
    assert (full.returncode, FULL.is_char_device()) == (ExitCode.STORE, True)
    assert f"cannot write {FULL}: no space left on device" in full.stderr
    # standard output then has nothing else, and a file to which the shell appends keeps what it has
    log, page = tmp_path / "log.txt", (tmp_path / "page.md").read_text()
    log.write_text("before\n")
    done = ran(f"{report} page.html --md - >> log.txt", tmp_path)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "page.html\n")
    assert log.read_text() == f"before\n{page}"
    assert ran(f"{report} page.html --md /dev/stdout >> log.txt", tmp_path).returncode == ExitCode.OK
    assert log.read_text().startswith(f"before\n{page}")
    assert log.read_text().count(page) == 2
    assert not (tmp_path / "-").exists()


def test_data_is_utf_8_in_every_locale(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("target,clients,tps\ngröße 東京,4,100\n", encoding="utf-8")
    imported = ran("PYTHONIOENCODING=ascii pgdyno import table.csv --into runs --json", tmp_path)
    assert json.loads(imported.stdout)["trials"] == 1, imported.stderr
    shown = ran("PYTHONIOENCODING=latin-1 pgdyno show runs/* --json", tmp_path)
    assert json.loads(shown.stdout)["points"][0]["target"] == "größe 東京"
    table = ran("PYTHONIOENCODING=ascii pgdyno show runs/* --csv", tmp_path)
    assert "größe 東京" in table.stdout


def test_rows_of_many_runs_cannot_control_the_terminal(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", sample_manifest())
    record = add_trial(folder, 1) / "trial.json"
    failed = {"outcome": "failed", "summary": None, "failure": {"stage": "run", "message": "3 %\r9 %\x1b[2Jdone"}}
    record.write_text(json.dumps(json.loads(record.read_text()) | failed))
    done = ran("pgdyno report --each runs --html pages --csv -", tmp_path)
    (row,) = csv.DictReader(io.StringIO(done.stdout, newline=""))
    assert row["failure"] == "3 %\ufffd9 %\ufffd[2Jdone"


def test_a_value_that_an_option_does_not_have_is_named(tmp_path: Path) -> None:
    done = ran("pgdyno compare latest --metric speed", tmp_path)
    assert done.returncode == ExitCode.USAGE
    values = "'tps', 'p50', 'p99', 'mean', 'composite', 'instructions'"
    assert done.stderr.endswith(f"Error: Invalid value for '--metric': 'speed' is not one of {values}.\n")


def test_prose_in_a_pipe_has_a_line_for_each_sentence(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text(WRONG)
    wrong = ran("pgdyno plan check wrong.toml", tmp_path)
    assert wrong.returncode == ExitCode.PLAN
    assert "1,000,000 clients are more than PostgreSQL accepts; the maximum is 262,043\n" in wrong.stderr
    checked = ran("pgdyno plan check power8-select-only --on embedded", tmp_path)
    assert "setting, in a drawn order; 6 blocks\n" in checked.stdout


def in_terminal(words: list[str], columns: int, cwd: Path, **variables: str) -> list[str]:
    """Returns the lines that pgdyno prints on a terminal of that width, without colours."""
    code, shown = show_in_terminal(words, columns, cwd, **variables)
    assert code in (ExitCode.OK, ExitCode.INVALID)
    return re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()


def test_a_terminal_gets_colours_and_lines_broken_between_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1" in show_in_terminal(["audit", f"{TESTS}/golden/run-format-1"], 60, tmp_path)[1]
    for words, columns in ((["audit", f"{TESTS}/golden/run-format-1"], 60), (["plan", "check", "quick"], 80)):
        lines = in_terminal(words, columns, tmp_path)
        assert len(lines) > 5
        assert [line for line in lines if len(line) > columns] == []
    shown = in_terminal(["history", "--runs", f"{TESTS}/golden"], 30, tmp_path)
    assert [line for line in shown if len(line) > 30] == []
    assert "  1 run is too few for change\n      points, which need at" in "\n".join(shown)


def test_words_and_commands_are_not_broken() -> None:
    for text, lines in (
        ("a word that is long", ["a word that is", "    long"]),
        ("  a/path/that/is/long/is/whole or", ["  a/path/that/is/long/is/whole", "      or"]),
        ("to resume: pgdyno run --resume X", ["to resume:", "    pgdyno run --resume X"]),
        ("because: pgdyno reads it", ["because: pgdyno", "    reads it"]),
        ("fits\n\n  it too", ["fits", "", "  it too"]),
    ):
        assert wrap_words(Text(text), 16).plain.split("\n") == lines


def test_a_list_in_a_narrow_terminal_cuts_workloads_and_targets_or_has_a_line_for_each_name(tmp_path: Path) -> None:
    names = ("server", "standby-in-another-zone")
    targets = [TargetRecord(name=name, kind="embedded", asked={}) for name in names]
    manifest = sample_manifest(workload="place-order.sql, recent.sql, report.sql", targets=targets, trials_planned=120)
    folder = RunFolder.create(tmp_path / "several", manifest)
    for columns in (80, 200):
        heading, row = in_terminal(["list", "--runs", "several"], columns, tmp_path)
        assert heading.split() == ["run", "workload", "targets", "trials", "outcome"]
        assert row.startswith(f"{folder.name}  place-order")
        assert row.split()[-2:] == ["0/120", "unfinished"]
    folder = RunFolder.create(tmp_path / "long", sample_manifest(workload="w" * 10, trials_planned=12))
    name = f"{folder.name}-{'long' * 10}"
    folder.path.rename(tmp_path / "long" / name)
    shown = in_terminal(["list", "--runs", "long"], 80, tmp_path)
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


STEERING = "a\x1b[2J\x7f\x9b\u202e\u2028\ud800é"


def test_characters_that_control_a_terminal_are_escapes(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_json({STEERING: [STEERING]}, indent=2)
    text = capfdbinary.readouterr().out.decode()
    assert json.loads(text) == {STEERING: [STEERING]}
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028\ufffd]", text)
    assert "é" in text
    # one line, unless indented
    assert json_text({"a": [1, "\n"]}) == '{"a": [1, "\\n"]}'
    assert json_text({"a": 1}, indent=2) == '{\n  "a": 1\n}'


# ---- outputs of pgdrive that cannot be written ----


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder in which the file `out` has room for 4 kB; without the right to mount, for none."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode == 0:
        yield folder
        subprocess.run(["umount", str(folder)], check=True)
    else:
        (folder / "out").symlink_to(FULL)
        yield folder


def test_events_on_a_full_disk_stop_the_load(run: Run, null: NullServer, small_disk: Path) -> None:
    file = small_disk / "out"
    # 4 kB hold the first events, and not those of ten minutes
    done = run("pgdrive", *LOAD, "-T600", f"--events={file}", env=null().env)
    assert done.returncode == UNWRITTEN
    assert f'pgdrive: error: could not write events to "{file}": {REASON}' in done.stderr
    assert "interrupted" not in done.stderr
    if not file.is_symlink():
        assert int(processed_count(done)) > 0
        assert "stopped because events could not be written; the above results are incomplete" in done.stderr
        events = file.read_text().splitlines()
        assert json.loads(events[0])["event"] == "start"
        assert not any('"event":"end"' in line for line in events), "nothing comes after half a line"


def test_a_load_goes_on_without_its_histogram_log(run: Run, null: NullServer, small_disk: Path, tmp_path: Path) -> None:
    file = small_disk / "out"
    json_file, events = tmp_path / "results.json", tmp_path / "events"
    # each phase has a line of its own in the log, with its name: over 4 kB together
    phases = [f'[[phase]]\nname = "{number:064}"\nduration = "25ms"\n' for number in range(40)]
    (tmp_path / "phases.toml").write_text("".join(phases))
    options = (*LOAD, "--phases=phases.toml", f"--histogram={file}", f"--json={json_file}", f"--events={events}")
    done = run("pgdrive", *options, env=null().env)
    assert done.returncode == UNWRITTEN
    assert done.stderr.count(f'pgdrive: error: could not write the histogram log to "{file}": {REASON}') == 1
    assert "events" not in done.stderr
    assert "interrupted" not in done.stderr
    assert int(processed_count(done)) > 0
    results = json.loads(json_file.read_text())
    assert (results["outcome"], results["exit_code"]) == ("finished", UNWRITTEN)
    assert results["measured_s"] >= 1
    assert end_event(events)["exit_code"] == UNWRITTEN


def test_events_results_and_a_log_that_cannot_be_written(run: Run, null: NullServer, tmp_path: Path) -> None:
    env = null().env
    done = run("pgdrive", *LOAD, "-t1", f"--events={FULL}", env=env)
    assert done.returncode == UNWRITTEN
    assert done.stderr.count(f'could not write events to "{FULL}": {REASON}') == 1
    # a load of tables says that its events are cut
    done = run("pgdrive", "-i", f"--events={FULL}", env=env)
    assert done.returncode == UNWRITTEN
    assert done.stderr.count(f'could not write events to "{FULL}": {REASON}') == 1
    assert "done in" in done.stderr
    events = tmp_path / "events"
    for options in ((*LOAD, f"--events={events}"), ("-n", "-b", "simple-update", "--ledger")):
        done = run("pgdrive", *options, "-t5", f"--json={FULL}", env=env)
        assert done.returncode == UNWRITTEN
        assert f'pgdrive: error: could not write the results to "{FULL}": {REASON}' in done.stderr
        assert processed_count(done) == "5/5"
    assert end_event(events)["exit_code"] == UNWRITTEN
    prefix = tmp_path / "log"
    # the name of a log ends in the process's number
    shell = f'ln -s {FULL} {prefix}.$$; exec {BIN}/pgdrive "$@"'
    command = ["sh", "-c", shell, "sh", *LOAD, "-l", f"--log-prefix={prefix}", "-t500"]
    done = run_program(command, env=os.environ | env)
    assert done.returncode == UNWRITTEN
    assert f'pgdrive: error: could not write the log to "{prefix}.' in done.stderr
    assert done.stderr.count(REASON) == 1
    assert processed_count(done) == "500/500"


def test_standard_output_that_cannot_be_written(null: NullServer, tmp_path: Path) -> None:
    env, results = os.environ | null().env, tmp_path / "results.json"
    to_full = ["sh", "-c", f'exec "$@" > {FULL}', "sh"]
    summary = run_program([*to_full, BIN / "pgdrive", *LOAD, "-t5", f"--json={results}"], env=env)
    assert summary.returncode == UNWRITTEN
    assert f"pgdrive: error: could not write the summary: {REASON}" in summary.stderr
    assert json.loads(results.read_text())["succeeded"] == 5
    samples = run_program([*to_full, BIN / "pgprobe", "--no-server", "-T1"], env=env)
    assert samples.returncode == 1
    assert REASON in samples.stderr
