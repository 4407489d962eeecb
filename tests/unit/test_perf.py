"""perf as a process, of which nothing is left running, and the stacks of its output, counted in the folded form."""

import io
import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pgdyno.probe import perf
from pgdyno.probe.perf import (
    KERNEL,
    LONGEST_LINE,
    LONGEST_NAME,
    OTHER,
    PerfError,
    fold,
    lines_of,
    read_stacks,
    record_samples,
)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes a perf of one's own, the first one in PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def write_script(script: str) -> None:
        (tmp_path / "perf").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "perf").chmod(0o755)

    return write_script


def record(folder: Path, *pids: int) -> None:
    with record_samples(list(pids or [os.getpid()]), folder / "perf.data", folder / "perf.log"):
        pass


def test_a_missing_perf_names_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PerfError, match="perf is not installed") as missing:
        record(tmp_path)
    assert "linux-perf on Debian" in str(missing.value.hint)


@pytest.mark.parametrize(
    ("script", "message", "hint"),
    [
        ("echo 'Access to performance monitoring is limited: see perf_event_paranoid' >&2; exit 255",
         "perf may not sample the server", "sysctl kernel.perf_event_paranoid=1"),
        ("echo first >&2; echo 'WARNING: perf not found for kernel 7' >&2; exit 2",
         "perf failed: WARNING: perf not found for kernel 7", ""),
    ],
)  # fmt: skip
def test_a_perf_that_fails_is_told_in_its_own_words(
    write: Callable[[str], None], tmp_path: Path, script: str, message: str, hint: str
) -> None:
    write(script)
    with pytest.raises(PerfError, match=message) as caught:
        record(tmp_path)
    assert hint in str(caught.value.hint)


def test_a_process_that_ends_before_perf_starts_is_left_out(write: Callable[[str], None], tmp_path: Path) -> None:
    ended = subprocess.Popen(["sleep", "1000"])
    # as perf, which fails if one of the processes has ended
    write(
        f"""for each; do case "$each" in *{ended.pid}*)
        kill {ended.pid}; while kill -0 {ended.pid} 2>/dev/null; do sleep 0.01; done
        echo "Couldn't create thread/CPU maps: No such process" >&2; exit 255;; esac; done
        echo "$@" > {tmp_path}/arguments; echo begun; exec cat"""
    )
    threading.Thread(target=ended.wait, daemon=True).start()
    record(tmp_path, os.getpid(), ended.pid)
    assert f"-p {os.getpid()} --" in (tmp_path / "arguments").read_text()
    write("echo 'No such process' >&2; exit 255")
    with pytest.raises(PerfError, match="perf failed: No such process"):
        record(tmp_path, ended.pid)


@pytest.mark.parametrize(
    ("limit", "says", "message"),
    [("READY_S", "", "did not start"), ("STOP_S", "echo begun", "did not end"), ("", "echo begun", "interrupted")],
)
def test_a_perf_that_does_not_end_is_killed(
    write: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, says: str, message: str
) -> None:
    if limit:
        monkeypatch.setattr(perf, limit, 0.5)
    write(f"echo $$ > {tmp_path}/pid; {says or ':'}; exec sleep 1000")

    def run() -> None:
        with record_samples([os.getpid()], tmp_path / "perf.data", tmp_path / "perf.log"):
            if not limit:
                raise KeyboardInterrupt(message)

    with pytest.raises((PerfError, KeyboardInterrupt), match=message):
        run()
    # one that did not start in time may not have got as far as that
    with suppress(FileNotFoundError):
        assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    assert not says or (tmp_path / "pid").exists()


@pytest.mark.parametrize(
    ("script", "message"), [("echo 'postgres cycles:'; exec sleep 1000", "perf failed"), ("exit 0", "no sample")]
)
def test_an_output_that_hangs_or_has_no_samples_is_an_error(
    write: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    monkeypatch.setattr(perf, "READ_S", 0.5)
    write(script)
    with pytest.raises(PerfError, match=message):
        read_stacks(tmp_path / "perf.data", 0.0, 1.0, tmp_path / "perf.log")


# ---- stacks ----

RECORDED = """\
postgres cpu-clock:ppp: 
\t          5ccbe0 MemoryContextReset (/usr/lib/postgresql/15/bin/postgres)
\t          32ab6d [unknown] (/usr/lib/postgresql/15/bin/postgres)
\t          2fba59 standard_ExecutorRun (/usr/lib/postgresql/15/bin/postgres)
\t          1530e0 _start (/usr/lib/postgresql/15/bin/postgres)

postgres cpu-clock:ppp: 
\tffffffff821ed4e6 do_syscall_64 ([kernel.kallsyms])
\t          10a929 __libc_recv (/usr/lib/x86_64-linux-gnu/libc.so.6)

postgres cpu-clock:ppp: 
\tffffffff821ed4e6 do_syscall_64 ([kernel.kallsyms])
\t          10a929 __libc_recv (/usr/lib/x86_64-linux-gnu/libc.so.6)

sh -c x cpu-clock:ppp: 
\t          32ab6d [unknown] (/usr/bin/dash)
\t               0 [unknown] ([unknown])

:17 cpu-clock:ppp: 

"""  # noqa: W291 - as perf 6.1 prints it


def test_samples_are_counted_by_stack_with_the_outermost_function_first() -> None:
    found = fold(RECORDED.splitlines())
    assert found.samples == {
        "postgres;_start;standard_ExecutorRun;[postgres];MemoryContextReset": 1,
        f"postgres;__libc_recv;do_syscall_64{KERNEL}": 2,
        "sh -c x;[unknown];[dash]": 1,
        ":17;[unknown]": 1,
    }
    assert (found.event, found.unresolved) == ("cpu-clock:ppp", 2)


def test_a_file_that_was_removed_is_not_part_of_a_function() -> None:
    lines = [
        "postgres cycles:",
        "\t 1 hash_search (/usr/lib/postgresql/18/bin/postgres (deleted))",
        "\t 2 [unknown] (/dev/zero (deleted))",
    ]
    assert fold(lines).samples == {"postgres;[zero];hash_search": 1}


def test_hostile_names_become_harmless() -> None:
    lines = ["p;x\x1b cycles:", "\t 1 a;b\x07\u202e</script> (/lib/x)", f"\t 2 {'n' * 1_000_000} (/lib/x)"]
    (stack,) = fold(lines).samples
    process, outer, inner = stack.split(";")
    assert (process, inner) == ("p:x?", "a:b??</script>")
    assert len(outer) == LONGEST_NAME + 1


def test_a_very_long_line_is_cut_and_the_next_one_whole() -> None:
    stream = io.BytesIO(b"x" * (3 * LONGEST_LINE) + b"\nnext\nlast")
    assert [len(line) for line in lines_of(stream)] == [LONGEST_LINE, 4, 4]


def test_memory_is_bounded_by_the_number_of_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "MOST_STACKS", 2)
    lines = [line for name in "abcda" for line in ("p e:", f"\t 1 {name} (/x)")]
    assert fold(lines).samples == {"p;a": 2, "p;b": 1, OTHER: 2}
