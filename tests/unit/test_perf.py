"""perf as a process: what fails is an error with its remedy, and nothing is left running."""

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from pgdyno.probe import perf
from pgdyno.probe.perf import PerfError, read_stacks, recording


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "perf"


def write(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def record(tmp_path: Path) -> None:
    with recording([os.getpid()], tmp_path / "perf.data", tmp_path / "perf.log"):
        pass


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_missing_perf_names_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PerfError, match="perf is not installed") as missing:
        record(tmp_path)
    assert "linux-perf on Debian" in str(missing.value.hint)


def test_a_perf_that_may_not_sample_names_the_setting(tmp_path: Path, fake: Path) -> None:
    write(fake, "echo 'Access to performance monitoring is limited: see perf_event_paranoid' >&2; exit 255")
    with pytest.raises(PerfError, match="perf may not sample the server") as refused:
        record(tmp_path)
    assert "sysctl kernel.perf_event_paranoid=1" in str(refused.value.hint)


def test_another_failure_of_perf_is_told_in_its_own_words(tmp_path: Path, fake: Path) -> None:
    write(fake, "echo first >&2; echo 'WARNING: perf not found for kernel 7' >&2; exit 2")
    with pytest.raises(PerfError, match="perf failed: WARNING: perf not found for kernel 7"):
        record(tmp_path)


def test_a_process_that_ends_before_perf_starts_is_left_out(tmp_path: Path, fake: Path) -> None:
    ended = subprocess.Popen(["sleep", "1000"])
    # as perf, which fails if one of the processes has ended
    write(
        fake,
        f"""for each; do case "$each" in *{ended.pid}*)
        kill {ended.pid}; while kill -0 {ended.pid} 2>/dev/null; do sleep 0.01; done
        echo "Couldn't create thread/CPU maps: No such process" >&2; exit 255;; esac; done
        echo "$@" > {tmp_path}/arguments; echo begun; exec cat""",
    )
    threading.Thread(target=ended.wait, daemon=True).start()
    with recording([os.getpid(), ended.pid], tmp_path / "perf.data", tmp_path / "perf.log"):
        pass
    assert f"-p {os.getpid()} --" in (tmp_path / "arguments").read_text()


def test_no_process_that_is_left_is_an_error(tmp_path: Path, fake: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    write(fake, "echo 'No such process' >&2; exit 255")
    with (
        pytest.raises(PerfError, match="perf failed: No such process"),
        recording([ended.pid], tmp_path / "a", tmp_path / "b"),
    ):
        pass


def test_a_perf_that_does_not_begin_is_killed(tmp_path: Path, fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "READY_S", 0.5)
    write(fake, f"echo $$ > {tmp_path}/pid; exec sleep 1000")
    with pytest.raises(PerfError, match="did not start"):
        record(tmp_path)
    pid = tmp_path / "pid"
    assert not pid.exists() or not is_running(int(pid.read_text()))


def test_a_perf_that_does_not_end_is_killed(tmp_path: Path, fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "STOP_S", 0.5)
    write(fake, f"echo $$ > {tmp_path}/pid; echo begun; exec sleep 1000")
    with pytest.raises(PerfError, match="did not end"):
        record(tmp_path)
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_an_interruption_leaves_no_perf(tmp_path: Path, fake: Path) -> None:
    write(fake, f"echo $$ > {tmp_path}/pid; echo begun; exec sleep 1000")
    with pytest.raises(KeyboardInterrupt), recording([1], tmp_path / "perf.data", tmp_path / "perf.log"):
        raise KeyboardInterrupt
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_a_perf_whose_output_hangs_is_killed(tmp_path: Path, fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "READ_S", 0.5)
    write(fake, "echo 'postgres cycles:'; exec sleep 1000")
    with pytest.raises(PerfError, match="perf failed"):
        read_stacks(tmp_path / "perf.data", 0.0, 1.0, tmp_path / "perf.log")


def test_a_profile_without_samples_is_an_error(tmp_path: Path, fake: Path) -> None:
    write(fake, "exit 0")
    with pytest.raises(PerfError, match="no sample"):
        read_stacks(tmp_path / "perf.data", 0.0, time.monotonic(), tmp_path / "perf.log")
