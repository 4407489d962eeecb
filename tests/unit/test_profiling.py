"""Profiles: which loads get one after the trials, their functions and flame graphs in reports, stored stacks, and
files of Valgrind's callgrind.
"""

import gzip
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
from pgdyno.probe.perf import PerfError
from pgdyno.records import Point, ProfileRecord
from pgdyno.report.report_content import ArmProfile, Extras
from pgdyno.report.sections.function_shares import baseline_of, function_table, function_tables, profile_lines
from pgdyno.safe_output import visible
from pgdyno.store import RunFolder
from pgdyno.store.profiles import keep_profile, read_profile
from tests.present import present
from tests.unit.report_sample import SampleRun, add_trial, manifest, render_html, sweep

PLAN = """\
name = "profiled"
[target.pg18]
kind = "embedded"
version = "18"
[workload]
scripts = ["select-only"]
[sweep]
clients = {clients}
[trial]
duration = "5s"
[probe]
profile = true
"""
SEARCH = """\
[search]
find = "settings"
over.random_page_cost = "1..4"
"""


def stored(folder: Path, plan: str, points: list[Point]) -> tuple[LoadedPlan, RunFolder]:
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
    """What profiles need of a run's context."""

    plan: Plan
    loaded: LoadedPlan
    folder: RunFolder


def profiled(folder: Path, plan: str, points: list[Point]) -> list[tuple[Point, float]]:
    loaded, run = stored(folder, plan, points)
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
    loaded, run = stored(tmp_path, PLAN.format(clients='4\nsettings.work_mem = ["4MB", "64MB"]'), points)
    notes: list[Message] = []

    def run_unstored(*_: object) -> None:
        raise PerfError("perf is not installed", hint="install its package")

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
OTHER = arm("b", {"p;main;scan": 100, "p;main": 60, "p;main;sort": 40})


def test_functions_are_compared_by_their_own_share() -> None:
    # those of a single profile are those with the most time
    assert function_tables([BASE])[0].rows == (("scan", "50.00"), ("read", "30.00"), ("main", "20.00"))
    table = function_table(OTHER, BASE)
    assert table.headings == ("function", "a, %", "b, %", "difference, points", "±")
    assert [row[:4] for row in table.rows] == [
        ("read", "30.00", "0.00", "-30.00"),
        ("sort", "0.00", "20.00", "+20.00"),
        ("main", "20.00", "30.00", "+10.00"),
        ("scan", "50.00", "50.00", "+0.00"),
    ]
    # sqrt(0.3 x 0.7 / 100) x 1.96
    assert table.rows[0][4] == "8.98"


def test_the_baseline_is_the_first_arm_at_the_same_point() -> None:
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


def test_stored_stacks_are_read_again(tmp_path: Path) -> None:
    file = keep_profile(tmp_path, "a", BASE.stacks)
    assert (tmp_path / file).read_text() == "p;main 20\np;main;scan 50\np;main;scan;read 30\n"
    assert read_profile(tmp_path, BASE.record) == BASE.stacks
    (tmp_path / file).unlink()
    assert read_profile(tmp_path, BASE.record) is None


@pytest.mark.parametrize("content", ["p;main\n", "p;main -1\n", "p;main 1e9\n", f"p {10**13}0\n", "5\n"])
def test_damaged_stacks_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / keep_profile(tmp_path, "a", BASE.stacks)
    path.write_text(content)
    with pytest.raises(StoreError, match="line 1 is not a stack and a number"):
        read_profile(tmp_path, BASE.record)


def test_a_profile_outside_the_run_folder_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / keep_profile(tmp_path, "a", BASE.stacks)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symbolic link"):
        read_profile(tmp_path, BASE.record)
    outside = BASE.record.model_copy(update={"file": "../../elsewhere"})
    assert read_profile(tmp_path, outside) is None


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


def test_a_dump_has_the_instructions_of_each_function_itself() -> None:
    dump = read_dump(BEGIN.splitlines())
    assert dump.total == dump.functions.total() == 9603
    # as callgrind_annotate prints them
    assert dump.functions["MemoryContextAllocZero"] == 33 + 261
    assert dump.functions["core_yy_scan_buffer"] == 17 + 16 + 7
    assert dump.functions[UNKNOWN] > 0


def test_functions_with_callers_are_stacks_and_the_flush_includes_what_it_called() -> None:
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
