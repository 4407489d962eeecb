"""Profiles: perf and its stacks, which loads get one, functions in reports, stored stacks, files of callgrind."""

import gzip
import io
import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pgdyno.errors import StoreError
from pgdyno.experiment.trials.profiling import Profiles, arms_to_profile
from pgdyno.instructions.callgrind import UNKNOWN, read_dump
from pgdyno.messages import Message
from pgdyno.plan import LoadedPlan, Plan, load_plan
from pgdyno.probe import perf
from pgdyno.records import Point, ProfileRecord
from pgdyno.report.report_content import ArmProfile, Extras
from pgdyno.report.sections.function_shares import baseline_of, function_table, function_tables, profile_lines
from pgdyno.safe_output import visible
from pgdyno.store import RunFolder
from pgdyno.store.profiles import keep_profile, read_profile
from tests.present import present
from tests.unit.plan_sample import small_plan
from tests.unit.report_sample import SampleRun, add_trial, manifest, render_html, sweep

PLAN = small_plan(sweep="clients = {clients}") + "[probe]\nprofile = true\n"
SEARCH = '[search]\nfind = "settings"\nover.random_page_cost = "1..4"\n'


def plan_and_run(folder: Path, plan: str, points: list[Point]) -> tuple[LoadedPlan, RunFolder]:
    """A plan and its run without a profile, with tps of 100 at the first point, 200 at the second …"""
    path = folder / "profiled.toml"
    path.write_text(plan)
    run = SampleRun(manifest())
    for number, point in enumerate(points, start=1):
        add_trial(run, "pg18", point.planned_clients, 100.0 * number, 500, point=point)
    of_run = SimpleNamespace(trials=lambda: run.trials, manifest=SimpleNamespace(profiles=[]))
    return load_plan(path), cast("RunFolder", of_run)


@dataclass(frozen=True)
class Context:
    plan: Plan
    loaded: LoadedPlan
    folder: RunFolder


def profiled(folder: Path, plan: str, points: list[Point]) -> list[tuple[Point, float]]:
    loaded, run = plan_and_run(folder, plan, points)
    return [(arm.trial.point, arm.tps) for arm in arms_to_profile(loaded.plan, run)]


def test_an_arm_is_profiled_at_its_fastest_point(tmp_path: Path) -> None:
    points = [Point(clients=clients, protocol="simple") for clients in (1, 16, 4)]
    assert profiled(tmp_path, PLAN.format(clients="[1, 4, 16]"), points) == [(points[2], 300.0)]


@pytest.mark.parametrize("costs", [("1", "2", "3"), ("4",)])
def test_the_settings_that_a_search_tries_are_one_arm(tmp_path: Path, costs: tuple[str, ...]) -> None:
    points = [Point(clients=4, protocol="simple", settings={"random_page_cost": cost}) for cost in costs]
    found = profiled(tmp_path, PLAN.format(clients=4) + SEARCH, points)
    assert found == [(points[-1], 100.0 * len(points))]


def test_arms_that_are_left_out_for_one_reason_are_named_in_one_note(tmp_path: Path) -> None:
    points = [Point(clients=4, protocol="simple", settings={"work_mem": size}) for size in ("4MB", "64MB")]
    loaded, run = plan_and_run(tmp_path, PLAN.format(clients='4\nsettings.work_mem = ["4MB", "64MB"]'), points)
    notes: list[Message] = []

    def run_unstored(*_: object) -> None:
        raise perf.PerfError("perf is not installed", hint="install its package")

    context = Context(loaded.plan, loaded, run)
    progress = SimpleNamespace(note_once=notes.append, set_up=lambda _: None, trials=[])
    profiles = Profiles(context, progress, None, lambda *_: SimpleNamespace(run_unstored=run_unstored))  # type: ignore[arg-type]
    profiles.take()
    assert list(map(str, notes)) == [
        "no profile of work_mem 4MB; work_mem 64MB: perf is not installed; install its package"
    ]


# ---- in reports, and stored ----

EVIL = "</script><script>alert('x')</script>"


def arm(name: str, stacks: dict[str, int], **of_point: object) -> ArmProfile:
    record = ProfileRecord(
        target=name,
        point=Point.model_validate({"clients": 4, "protocol": "simple", **of_point}),
        file=f"profiles/{name}.folded",
        event="cycles:Pu",
        hz=99,
        samples=sum(stacks.values()),
        unresolved=0,
        tps=90.0,
        tps_median=100.0,
    )
    return ArmProfile(name, record, stacks)


BASE = arm("a", {"p;main;scan": 50, "p;main;scan;read": 30, "p;main": 20})
COMPARED = arm("b", {"p;main;scan": 100, "p;main": 60, "p;main;sort": 40})


def test_functions_are_compared_by_their_own_share_with_the_first_arm_at_the_same_point() -> None:
    # those of a single profile are those with the most time
    assert function_tables([BASE])[0].rows == (("scan", "50.00"), ("read", "30.00"), ("main", "20.00"))
    table = function_table(COMPARED, BASE)
    assert table.headings == ("function", "a, %", "b, %", "difference, points", "±")
    assert [row[:4] for row in table.rows] == [
        ("read", "30.00", "0.00", "-30.00"),
        ("sort", "0.00", "20.00", "+20.00"),
        ("main", "20.00", "30.00", "+10.00"),
        ("scan", "50.00", "50.00", "+0.00"),
    ]
    # sqrt(0.3 x 0.7 / 100) x 1.96
    assert table.rows[0][4] == "8.98"
    profiles = [arm(name, {"f": 1}, scale=scale) for name, scale in (("a", 1), ("a, 10", 10), ("b, 10", 10))]
    assert [baseline_of(profiles, at) for at in range(3)] == [None, *profiles[:2]]


def test_a_report_says_what_perf_cost_and_that_the_kernel_is_missing() -> None:
    (line,) = profile_lines([BASE])
    assert "100 samples of the server at 4 clients" in line
    assert "(cycles, without the kernel)" in line
    assert "90.0 tps under perf in one short load, -10.0 % vs the median of the trials" in line
    # samples without symbols have advice
    record = BASE.record.model_copy(update={"unresolved": 80})
    *_, advice = profile_lines([ArmProfile("a", record, BASE.stacks)])
    assert advice.startswith("a: 80 % of the samples are in functions without symbols")


def test_hostile_names_are_text_on_the_page(tmp_path: Path) -> None:
    keep_profile(tmp_path, "a", {f"p;{EVIL};\x1b[2J;{'n' * 1_000_000}": 9, "p;\u202e": 1})
    stacks = present(read_profile(tmp_path, BASE.record))
    page = visible(render_html(sweep(), "runs/x", Extras(profiles=[arm("a", stacks), arm("b", stacks)])))
    assert len(page) < 300_000
    assert "alert(" in page
    assert EVIL not in page
    assert "\x1b" not in page
    assert page.count("<script") == render_html(sweep(), "runs/x").count("<script")


def test_stored_stacks_are_read_again_from_the_run_folder_alone(tmp_path: Path) -> None:
    file = keep_profile(tmp_path, "a", BASE.stacks)
    assert (tmp_path / file).read_text() == "p;main 20\np;main;scan 50\np;main;scan;read 30\n"
    assert read_profile(tmp_path, BASE.record) == BASE.stacks
    (tmp_path / file).unlink()
    assert read_profile(tmp_path, BASE.record) is None
    path = tmp_path / keep_profile(tmp_path, "a", BASE.stacks)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symbolic link"):
        read_profile(tmp_path, BASE.record)
    outside = BASE.record.model_copy(update={"file": "../../elsewhere"})
    assert read_profile(tmp_path, outside) is None


@pytest.mark.parametrize("content", ["p;main\n", "p;main -1\n", "p;main 1e9\n", f"p {10**13}0\n", "5\n"])
def test_damaged_stacks_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / keep_profile(tmp_path, "a", BASE.stacks)
    path.write_text(content)
    with pytest.raises(StoreError, match="line 1 is not a stack and a number"):
        read_profile(tmp_path, BASE.record)


# ---- callgrind; one of its files is a whole one: BEGIN in PostgreSQL 15 ----

BEGIN = gzip.decompress((Path(__file__).parents[1] / "golden" / "callgrind-begin.out.gz").read_bytes()).decode()
CALLERS = """\
events: Ir
ob=(3) /usr/lib/x86_64-linux-gnu/libc.so.6
fl=(395) ./io/../sysdeps/unix/sysv/linux/lseek64.c
fn=(78870) lseek'FileSize'0x00000000003b00a0'PostgresMain
36 4
+2 1
fn=(12) pgstat_report_stat'PostgresMain
0 7
cfn=(13) pgstat_flush'pgstat_report_stat'PostgresMain
calls=1 0
0 90
fn=(14) PostgresMain
0 3
cfn=(12)
calls=1 0
0 97
fn=(13)
0 90
totals: 105
"""


def test_a_dump_has_the_instructions_of_each_function_itself_by_its_callers() -> None:
    dump = read_dump(BEGIN.splitlines())
    assert dump.total == dump.functions.total() == 9603
    # as callgrind_annotate prints them
    assert dump.functions["MemoryContextAllocZero"] == 33 + 261
    assert dump.functions["core_yy_scan_buffer"] == 17 + 16 + 7
    assert dump.functions[UNKNOWN] > 0
    # functions with callers are stacks, and the flush includes what it called
    dump = read_dump(CALLERS.splitlines())
    assert dump.functions == {
        f"PostgresMain;{UNKNOWN};FileSize;lseek": 5,
        "PostgresMain;pgstat_report_stat": 7,
        "PostgresMain;pgstat_report_stat;pgstat_flush": 90,
        "PostgresMain": 3,
    }
    assert dump.flush == 97


@pytest.mark.parametrize("text", [BEGIN[:5000], "", "fn=(3)\n", CALLERS.replace("totals: 105", "totals: 9")])
def test_a_dump_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"total|name"):
        read_dump(text.splitlines())


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes a perf of one's own, the first one in PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def write_script(script: str) -> None:
        (tmp_path / "perf").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "perf").chmod(0o755)

    return write_script


def record(folder: Path, *pids: int) -> None:
    with perf.record_samples(list(pids or [os.getpid()]), folder / "perf.data", folder / "perf.log"):
        pass


def test_a_missing_perf_names_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(perf.PerfError, match="perf is not installed") as missing:
        record(tmp_path)
    assert "linux-perf on Debian" in str(missing.value.hint)


def test_a_perf_that_fails_is_told_in_its_own_words(write: Callable[[str], None], tmp_path: Path) -> None:
    for script, message, hint in (
        ("echo 'Access to performance monitoring is limited: see perf_event_paranoid' >&2; exit 255",
         "perf may not sample the server", "sysctl kernel.perf_event_paranoid=1"),
        ("echo first >&2; echo 'WARNING: perf not found for kernel 7' >&2; exit 2",
         "perf failed: WARNING: perf not found for kernel 7", ""),
    ):  # fmt: skip
        write(script)
        with pytest.raises(perf.PerfError, match=message) as caught:
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
    with pytest.raises(perf.PerfError, match="perf failed: No such process"):
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
        with perf.record_samples([os.getpid()], tmp_path / "perf.data", tmp_path / "perf.log"):
            if not limit:
                raise KeyboardInterrupt(message)

    with pytest.raises((perf.PerfError, KeyboardInterrupt), match=message):
        run()
    # one that did not start in time may not have got as far as that
    with suppress(FileNotFoundError):
        assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    assert not says or (tmp_path / "pid").exists()


def test_an_output_that_hangs_or_has_no_samples_is_an_error(
    write: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf, "READ_S", 0.5)
    for script, message in (("echo 'postgres cycles:'; exec sleep 1000", "perf failed"), ("exit 0", "no sample")):
        write(script)
        with pytest.raises(perf.PerfError, match=message):
            perf.read_stacks(tmp_path / "perf.data", 0.0, 1.0, tmp_path / "perf.log")


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


def test_samples_are_counted_by_stack_of_which_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    found = perf.fold(RECORDED.splitlines())
    assert found.samples == {
        "postgres;_start;standard_ExecutorRun;[postgres];MemoryContextReset": 1,
        f"postgres;__libc_recv;do_syscall_64{perf.KERNEL}": 2,
        "sh -c x;[unknown];[dash]": 1,
        ":17;[unknown]": 1,
    }
    assert (found.event, found.unresolved) == ("cpu-clock:ppp", 2)
    # a file that was removed is not part of a function
    lines = [
        "postgres cycles:",
        "\t 1 hash_search (/usr/lib/postgresql/18/bin/postgres (deleted))",
        "\t 2 [unknown] (/dev/zero (deleted))",
    ]
    assert perf.fold(lines).samples == {"postgres;[zero];hash_search": 1}
    # memory is bounded by the number of stacks
    monkeypatch.setattr(perf, "MOST_STACKS", 2)
    lines = [line for name in "abcda" for line in ("p e:", f"\t 1 {name} (/x)")]
    assert perf.fold(lines).samples == {"p;a": 2, "p;b": 1, perf.OTHER: 2}


def test_hostile_names_and_long_lines_become_harmless() -> None:
    lines = ["p;x\x1b cycles:", "\t 1 a;b\x07\u202e</script> (/lib/x)", f"\t 2 {'n' * 1_000_000} (/lib/x)"]
    (stack,) = perf.fold(lines).samples
    process, outer, inner = stack.split(";")
    assert (process, inner) == ("p:x?", "a:b??</script>")
    assert len(outer) == perf.LONGEST_NAME + 1
    # a very long line is cut, and the next one is whole
    stream = io.BytesIO(b"x" * (3 * perf.LONGEST_LINE) + b"\nnext\nlast")
    assert [len(line) for line in perf.lines_of(stream)] == [perf.LONGEST_LINE, 4, 4]
