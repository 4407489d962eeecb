"""Outputs that cannot be written: the message names the file and the reason, and other output is still printed."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import BIN, NullServer, Run, end_event, processed
from tests.run_program import run_program

UNWRITTEN = 4
LOAD = ("-n", "-S")
FULL = Path("/dev/full")
REASON = "No space left on device"


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
        assert int(processed(done)) > 0
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
    assert int(processed(done)) > 0
    results = json.loads(json_file.read_text())
    assert (results["outcome"], results["exit_code"]) == ("finished", UNWRITTEN)
    assert results["measured_s"] >= 1
    assert end_event(events)["exit_code"] == UNWRITTEN


def test_events_and_results_that_cannot_be_written(run: Run, null: NullServer, tmp_path: Path) -> None:
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
        assert processed(done) == "5/5"
    assert end_event(events)["exit_code"] == UNWRITTEN


def test_a_log_that_cannot_be_written(null: NullServer, tmp_path: Path) -> None:
    prefix = tmp_path / "log"
    # the name of a log ends in the process's number
    shell = f'ln -s {FULL} {prefix}.$$; exec {BIN}/pgdrive "$@"'
    command = ["sh", "-c", shell, "sh", *LOAD, "-l", f"--log-prefix={prefix}", "-t500"]
    done = run_program(command, env=os.environ | null().env)
    assert done.returncode == UNWRITTEN
    assert f'pgdrive: error: could not write the log to "{prefix}.' in done.stderr
    assert done.stderr.count(REASON) == 1
    assert processed(done) == "500/500"


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
