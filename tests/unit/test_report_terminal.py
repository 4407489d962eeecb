"""The terminal output of running and finished runs, of a trial over time, and of the doctor's checks."""

import io
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pgdyno.doctor import CHECKS
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.plan import Plan, planned_trials
from pgdyno.plan.model import SearchSpec
from pgdyno.records import Check, CheckVerdict, Outcome, Point
from pgdyno.records.probe import WAIT_CLASSES
from pgdyno.report import run_events
from pgdyno.report.report_content import Extras, digest
from pgdyno.report.sections.over_seconds.timelines import TrialSteps
from pgdyno.report.several_runs import arms_of, comparisons_of
from pgdyno.report.terminal import progress, timeline
from pgdyno.report.terminal.doctor_checks import check_lines
from pgdyno.report.terminal.run_report import all_lines, print_report
from pgdyno.report.terminal.summary_file import Layout
from pgdyno.report.terminal.text_drawing import Canvas, bar, printable, sparkline
from pgdyno.report.terminal.timeline import MOST_PLAIN, steps_for, timeline_lines
from pgdyno.store import RunFolder
from pgdyno.watch import page
from tests.unit.plan_sample import small_plan
from tests.unit.report_sample import SampleRun, add_failure, add_trial, manifest, sweep

LONG = "a-very-long-target-name-that-nobody-would-choose-but-somebody-will-and-it-goes-on"


def report_lines(run: SampleRun, **of_console: Any) -> str:  # noqa: ANN401 - rich's own
    options: dict[str, Any] = {"force_terminal": False, "color_system": None, **of_console}
    to = Console(file=io.StringIO(), width=80, legacy_windows=False, **options)
    print_report(digest(run), to, Extras())
    return cast("io.StringIO", to.file).getvalue()


def texts(run: SampleRun, width: int | None) -> list[Text]:
    """The report with its answer, without the audit."""
    of = digest(run)
    return all_lines(of, Layout(width), Extras(comparisons=comparisons_of(of), arms=arms_of(of)))


def lines(run: SampleRun, width: int | None = 80) -> list[str]:
    return [line.plain for line in texts(run, width)]


def row(of: list[str], begins: str) -> list[str]:
    return next(line.split() for line in of if line.split()[:1] == [begins] and "  " in line)


@pytest.mark.parametrize("targets", [("pg18",), ("pg18", "pg17", "pg16"), (LONG, "b"), ("東京" * 20, "b")])
def test_no_line_is_wider_than_the_terminal(targets: tuple[str, ...]) -> None:
    run = sweep(targets, clients=(1, 8, 64))
    add_failure(run, targets[0], 128, message="x" * 300)
    add_failure(run, targets[0], 256, message="失敗" * 100)
    for width in (40, 60, 80, 100, 200):
        assert max(line.cell_len for line in texts(run, width)) <= width


def test_columns_are_aligned_and_one_target_has_none() -> None:
    shown = texts(sweep(("pg18", "東京サーバー"), clients=(1, 8)), None)
    table = [line for line in shown if re.match("(target|pg18|東京サーバー)  ", line.plain)]
    assert (len(table), len({line.cell_len for line in table})) == (5, 1)
    # the golden texts have several targets: one has no column of its own, but bars
    plain = lines(sweep())
    assert row(plain, "clients") == ["clients", "tps", "±", "from", "p50", "p95", "p99", "max", "errors"]
    assert "█" in " ".join(row(plain, "64"))


def test_failures_and_points_are_told_apart_in_notes() -> None:
    run = SampleRun(manifest())
    for clients in range(1, 9):
        add_failure(run, "pg18", clients)
    assert {"No trial finished: 8 trials failed or were interrupted", "and 3 more in the HTML report"} <= {*lines(run)}
    assert "Noise grade" not in report_lines(run)
    # points of a note are told apart, though names have commas
    run = SampleRun(manifest())
    for jit, geqo, repeats in (("on", "on", 1), ("on", "off", 1), ("off", "on", 2)):
        point = Point(clients=2, settings={"jit": jit, "geqo": geqo})
        for repeat in range(repeats):
            add_trial(run, "pg18", 2, 100.0, repeat=repeat + 1, seconds=2, point=point)
    note = next(line for line in lines(run, None) if line.startswith("- Only one trial"))
    assert note.endswith(": geqo on, jit on, 2 clients; geqo off, jit on, 2 clients.")


def test_pipes_terminals_without_unicode_and_hostile_names() -> None:
    text = report_lines(sweep(("pg18", "a" * 60), clients=(1, 8, 64)))
    assert "\x1b" not in text
    assert "\x1b[33m" in report_lines(sweep(clients=(1, 4)), force_terminal=True, color_system="standard")
    assert not set("█▁⠤┤") & set(text)
    assert "a" * 60 in text
    assert "mean, ms  p50, ms  p95, ms  p99, ms  max, ms" in text
    # nor does a terminal without Unicode get blocks
    shown = "\n".join(line.plain for line in all_lines(digest(sweep()), Layout(80, unicode=False), Extras()))
    assert not set("█▁⠤┤") & set(shown)
    # text from outside cannot control the terminal
    run = sweep(("\x1b[2Jpg",), clients=(1,), repeats=1)
    add_failure(run, "\x1b[2Jpg", 4, message="bad\x1b]0;title\x07\u202e[red]x")
    shown = "\n".join(lines(run))
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert "[red]x" in shown
    assert printable("a\x1b[1mb\nc") == "a\N{REPLACEMENT CHARACTER}[1mb c"


def test_bars_have_eighths_sparklines_average_and_a_canvas_writes_only_where_it_is_empty() -> None:
    assert [bar(share, 4) for share in (0.5, 1 / 32, 2.0, -1.0)] == ["██  ", "▏   ", "████", "    "]
    # from zero
    assert sparkline([0, 50, 100], 10) == "▁▄█"
    assert sparkline([100, 100, 50, 50], 2) == "█▄"
    assert sparkline([0, 0], 10) == "▁▁"
    assert sparkline([], 10) == ""
    canvas = Canvas(10, 2)
    canvas.line(0, 0.1, 9.9, 0.1)
    assert not canvas.write(2, 0, "peak")
    assert canvas.write(2, 1, "peak")
    assert not canvas.write(8, 1, "knee")
    assert canvas.lines()[1] == "  peak    "


def trial(steps: int = 12, **more: object) -> TrialSteps:
    made: dict[str, Any] = {
        "colour": 0, "n": 3, "name": "pg18, 16 clients, repeat 1", "step": 2.0, "begin": -4.0, "warm": 0.0,
        "tps": [1000 + 100 * at for at in range(steps)], "p99": [None, *[2.0 + at for at in range(steps - 1)]],
        "marks": [[2.0, "checkpoint (time)"]], "dips": [[6, 10]],
    }  # fmt: skip
    return TrialSteps(**(made | more))


PROBED: dict[str, Any] = {
    "waits": {"CPU": [4] * 12, "Lock": [0] * 6 + [8] * 6},
    "cpu": {"user": [50] * 12, "system": [20.0] * 11 + [None], "iowait": [30] * 12},
    "disk": {"data, sda: busy, %": [40] * 12, "data, sda: written, MB/s": [5] * 12},
    "wal": [20] * 12,
}


def drawn(width: int | None, *, steps: int = 12, **more: object) -> list[str]:
    return [line.plain for line in timeline_lines(trial(steps, **more), 8, width)]


@pytest.mark.parametrize("width", [80, 200])
def test_a_trial_over_time_fits_the_terminal(width: int) -> None:
    for lines in (drawn(width, **PROBED), drawn(width, steps=steps_for(width))):
        assert max(cell_len(line) for line in lines) <= width
    # a few steps are drawn so wide that they fill most of the room
    assert max(cell_len(line) for line in drawn(width)) > 0.8 * width


def test_every_strip_says_what_it_shows() -> None:
    lines = drawn(80, **PROBED)
    assert lines[0] == "trial 3: pg18, 16 clients, repeat 1"
    # without the two steps of warm-up
    assert lines[1] == "throughput: 1,200 to 2,100 transactions a second"
    assert "p99: 3.00 to 12.0 ms, log axis" in lines
    assert "active sessions: Lock 55 %, CPU 45 %; 8 processors" in lines
    assert "        CPU: 50.0 to 70.0 %" in lines
    assert "        2 s: checkpoint (time)" in lines
    assert "        6 to 10 s: dip" in lines
    dips, events = (next(line for line in lines if line.split()[:1] == [name]) for name in ("dips", "events"))
    # 72 cells for 24 s: three a second, from four seconds of warm-up
    assert next(line for line in lines if line.endswith(" 20 s")).split() == ["0", "5", "10", "15", "20", "s"]
    assert (dips.index("━") - 8, dips.count("━"), events.index("▲") - 8) == (5 * 5, 2 * 5, 3 * 5)


def test_plain_lines_where_nobody_looks_and_bars_as_high_as_their_share() -> None:
    lines = drawn(None, **PROBED)
    assert lines[1].split() == ["from,", "s", "tps", "p99,", "ms", "active", "CPU,", "%", "WAL,", "MB/s"]
    assert len(lines) == 2 + 12
    assert lines[2].endswith("warm-up")
    assert [line.split()[0] for line in lines[2:6]] == ["-4", "-2", "0", "2"]
    assert lines[2].split()[2] == "-"
    assert lines[5].endswith("checkpoint (time)")
    assert lines[7].endswith("dip")
    assert "".join(lines).isascii()
    assert steps_for(None) == MOST_PLAIN
    # a bar's height is its share
    lines = drawn(80, tps=[0, 50, 100])[2:8]
    cells = [line[8:].ljust(69) for line in lines]
    assert [row[0] for row in cells] == [" "] * 6
    assert [row[30] for row in cells] == [" "] * 3 + ["█"] * 3
    assert [row[60] for row in cells] == ["█"] * 6


def test_a_load_without_a_rate_has_only_what_the_probe_saw() -> None:
    none: list[float | None] = [None] * 12
    lines = drawn(80, tps=none, p99=none, **PROBED)
    assert lines[1] == "active sessions: Lock 55 %, CPU 45 %; 8 processors"
    assert not [line for line in lines if "throughput" in line or "p99" in line]
    assert drawn(None, tps=none, p99=none, **PROBED)[1].split() == ["from,", "s", "active", "CPU,", "%", "WAL,", "MB/s"]


def test_steps_without_samples_are_left_empty() -> None:
    cpu = {"user": [50.0] * 6 + [None] + [60.0] * 5, "system": [20.0] * 6 + [None] + [10.0] * 5}
    assert "        CPU: 70.0 to 70.0 %" in drawn(80, cpu=cpu)
    none: list[float | None] = [None]
    apart = [5.0] * 5 + none * 4 + [5.0] + none + [5.0]
    lines = drawn(None, tps=apart, p99=none * 12, waits={"CPU": apart}, marks=[], dips=[])
    assert [line.split()[-1] for line in lines[-7:]] == ["-", "-", "-", "-", "5.00", "-", "5.00"]


def test_waits_have_colours_or_letters() -> None:
    lines = [line.plain for line in timeline_lines(trial(12, **PROBED), 8, 80, colours=False)]
    assert "active sessions: L Lock 55 %, C CPU 45 %; 8 processors" in lines
    drawn_waits = [line[8:] for line in lines if set(line[8:]) <= set("CL ") and line[6:8] in (" \u2524", " \u2502")]
    assert [row[-1] for row in drawn_waits if row.strip()] == ["L", "L", "L", "C"]
    assert [row[0] for row in drawn_waits if row.strip()][-1] == "C"
    # each class has a colour and a letter
    assert set(timeline.COLOURS) == set(timeline.LETTERS) == set(WAIT_CLASSES)
    # I/O has PostgreSQL's own name in `watch --json`
    assert [name.replace("IO", "I/O") for name in page.STYLES] == list(WAIT_CLASSES)
    assert len(set(timeline.LETTERS.values())) == len(WAIT_CLASSES)


LONG_PATH = f"/{'a/very/long/path/that/goes/on/and/on/' * 3}the/end (data of pg18)"
CHECKED = [
    Check(id=name, verdict=verdict, found=found, means=means, change=change)
    for name, verdict, found, means, change in (
        ("cpu.cores", CheckVerdict.GOOD, "16 processors, 2 to a core", "", ""),
        ("cpu.governor", CheckVerdict.UNKNOWN, "frequency not visible", "", ""),
        ("storage.fsync", CheckVerdict.NOTE, f"{LONG_PATH}: median 3 ms", "333 commits per second", "a better disk"),
        ("machine.load", CheckVerdict.WARNING, "81 % busy", "trials compete with it", "end it"),
        ("storage.free", CheckVerdict.STOP, "1 GiB free; the plan needs 20", "the disk runs full", "a smaller scale"),
    )
]


def checked(width: int | None) -> list[str]:
    return [line.plain for line in check_lines(CHECKED, width)]


def test_checks_fit_the_terminal_and_have_colours_and_counts() -> None:
    for width in (60, 80, 89, 90, 120, 160, 250):
        assert max(map(cell_len, checked(width))) <= width
    assert any(LONG_PATH in line for line in checked(None))
    # names leave room at 60 columns, and what was found is below them
    assert max(map(len, CHECKS)) <= 24
    lines = checked(60)
    assert lines[:2] == ["good     cpu.cores", "         16 processors, 2 to a core"]
    assert "         to change it: end it" in lines
    # 160 have it next to the name and are not used up
    lines = checked(160)
    assert lines[0] == "good     cpu.cores      16 processors, 2 to a core"
    assert lines[lines.index("warning  machine.load   81 % busy") + 1].strip() == "trials compete with it"
    assert max(map(len, lines)) <= 145
    styled = check_lines([*CHECKED, CHECKED[2]], 80)
    assert styled[-1].plain == "6 checks: 1 good, 1 unknown, 2 notes, 1 warning, 1 stop"
    styles = {line.plain.partition(" ")[0]: str(line.style) for line in styled}
    assert styles | {"good": "green", "warning": "yellow", "stop": "red"} == styles


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def console(*, terminal: bool = True, width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None, legacy_windows=False)


def written(to: Console) -> str:
    return cast("io.StringIO", to.file).getvalue()


def line_after(*events: run_events.RunEvent, width: int = 80) -> str:
    view = progress.TerminalView(console(width=width), Clock())
    for event in events:
        view.event(event)
    return view.line().plain


STARTED = run_events.TrialStarted(1, 2, "select-only 4 clients", 10.0, later=1)
FINISHED = run_events.TrialEnded(Outcome.FINISHED, 71_300.0, 2.1)
MEASURING = run_events.IntervalEnded(71_300.0, 2.1, "measuring")


def test_the_line_of_a_running_trial_draws_its_throughput_in_any_width() -> None:
    for width, label, line in (
        (30, "pg18 select-only 16 clients", "…  71.3k tps  p99…"),
        (50, "pg18 select-only 16 clients", "p…  71.3k tps  p99 2.10 ms  16:00 left"),
        (60, "pg18 select-only 16 clients", "pg18 select…  71.3k tps  p99 2.10 ms  16:00 left"),
        (80, "pg18 select-only 16 clients", "pg18 select-only 16 clients  71.3k tps  p99 2.10 ms  16:00 left"),
        (80, "pg17 tpcb-like 16 clients", "pg17 tpcb-like 16 clients  █████  71.3k tps  p99 2.10 ms  16:00 left"),
        (160, "16 clients", "16 clients  measuring  ████████████  71.3k tps  p99 2.10 ms  16:00 left"),
    ):
        found = line_after(run_events.TrialStarted(3, 24, label, 60.0, later=15), *[MEASURING] * 30, width=width)
        assert found == f"trial 3/24  {line}"
        assert len(found) <= width
    clock = Clock()
    view = progress.TerminalView(console(), clock)
    view.event(run_events.TrialStarted(7, 24, "select-only 48 clients", 40.0, later=17))
    for tps in (20_000.0, 40_000.0, 71_300.0):
        view.event(run_events.IntervalEnded(tps, 2.1))
        clock.now += 1
    assert view.line().plain == "trial 7/24  select-only 48 clients  ▃▅█  71.3k tps  p99 2.10 ms  11:57 left"


@pytest.mark.parametrize("view_of", [progress.TerminalView, progress.PlainView])
def test_a_search_that_may_go_on_says_no_number_of_trials(
    view_of: type[progress.TerminalView | progress.PlainView],
) -> None:
    to = console()
    with view_of(to, Clock()) as view:
        view.event(run_events.TrialStarted(33, 33, "pg18 2 clients", 1.0, later=0, is_open=True))
        view.event(FINISHED)
    assert "trial 33  pg18 2 clients  71.3k tps" in written(to)


def test_the_number_of_trials_is_open_while_a_search_may_add_some() -> None:
    plan = Plan.model_validate(tomllib.loads(small_plan(sweep="clients = [1, 2]")))
    # a search chooses its trials one by one
    trials = planned_trials(plan)
    for search in (None, SearchSpec(find="peak")):
        told: list[run_events.TrialStarted] = []
        view = cast("progress.LiveView", SimpleNamespace(event=told.append))
        of = plan.model_copy(update={"search": search})
        RunProgress(of, cast("RunFolder", None), view, trials).trial_started(trials[0])
        assert [event.is_open for event in told] == [search is not None]


def test_setting_up_shows_the_transfer_and_a_load_its_share_rate_and_time_left() -> None:
    fetching = run_events.SetUp("fetching PostgreSQL 18.6")
    known, unknown = run_events.BytesDone(7_340_032, 14_680_064), run_events.BytesDone(7_340_032, None)
    assert line_after(fetching, known) == "fetching PostgreSQL 18.6  ██████████           7.0 MiB of 14.0 MiB"
    assert line_after(fetching, known, unknown) == "fetching PostgreSQL 18.6  7.0 MiB"
    assert line_after(fetching, known, run_events.SetUp("starting")) == "starting"
    for rows, left_s, line in (
        (2_500_000, 4.2, "█████                24 %  1.90M rows/s  0:04 left"),
        (10_001_099, 0.0, "████████████████████ 99 %  1.90M rows/s  0:00 left"),
        (10_001_100, 0.0, "████████████████████ 100 %  1.90M rows/s"),
    ):
        done = run_events.RowsDone(rows, 10_001_100, 1_900_000.0, left_s)
        found = line_after(run_events.SetUp("loading pgbench at scale 100"), done)
        assert found == f"loading pgbench at scale 100  {line}"


def test_the_terminal_keeps_a_line_for_each_trial_and_note() -> None:
    to = console()
    with progress.TerminalView(to, Clock()) as view:
        for event in (STARTED, run_events.IntervalEnded(71_300.0, 2.1)):
            view.event(event)
        # a check after a trial is shown, and the trial keeps its name
        view.event(run_events.SetUp("checking the dataset's consistency"))
        assert view.line().plain == "checking the dataset's consistency"
        view.event(FINISHED)
        assert view.line().plain == ""
        view.event(run_events.TrialStarted(2, 2, "[red]x", 10.0, later=0))
        view.event(run_events.TrialEnded(Outcome.FAILED, None, None))
        view.event(run_events.Noted("too many clients"))
    for line in ("trial 1/2  select-only 4 clients  71.3k tps  p99 2.10 ms", "trial 2/2  [red]x  failed"):
        assert line in written(to)
    assert "too many clien" in written(to)


def test_elsewhere_there_is_a_line_a_trial_and_step_and_now_and_then_of_a_long_trial() -> None:
    to = console(terminal=False)
    with progress.live_view(to) as view:
        for _ in range(3):
            view.event(run_events.SetUp("copying the template"))
            view.event(run_events.BytesDone(1, 2))
            view.event(run_events.SetUp("writing a checkpoint"))
        for event in (STARTED, run_events.IntervalEnded(1.0, None), FINISHED):
            view.event(event)
        view.event(run_events.TrialStarted(2, 2, "select-only \x1b8 clients", 10.0, later=0))
        view.event(run_events.TrialEnded(Outcome.INTERRUPTED, 5.0, None))
        view.event(run_events.Noted("that was all"))
    assert written(to).splitlines() == [
        "copying the template",
        "writing a checkpoint",
        "trial 1/2  select-only 4 clients  71.3k tps  p99 2.10 ms",
        "trial 2/2  select-only \N{REPLACEMENT CHARACTER}8 clients  interrupted  5.00 tps",
        "that was all",
    ]
    # a log hears of a long trial now and then
    to, seconds = console(terminal=False, width=200), 0.0
    view = progress.PlainView(to, clock=lambda: seconds)
    view.event(run_events.TrialStarted(2, 4, "select-only 1 client", 60.0, later=1))
    for seconds in range(1, 31):
        view.event(run_events.IntervalEnded(500.0, 2.0, "warm-up" if seconds <= 10 else "measuring"))
    view.event(run_events.TrialEnded(Outcome.FINISHED, 500.0, 2.0))
    assert written(to).splitlines() == [
        "trial 2/4  select-only 1 client  warm-up  500 tps  p99 2.00 ms  1:50 left",
        "trial 2/4  select-only 1 client  measuring  500 tps  p99 2.00 ms  1:40 left",
        "trial 2/4  select-only 1 client  measuring  500 tps  p99 2.00 ms  1:30 left",
        "trial 2/4  select-only 1 client  500 tps  p99 2.00 ms",
    ]


def test_the_view_suits_the_console(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(progress.live_view(console()), progress.TerminalView)
    with (tmp_path / "log").open("w") as file:
        assert isinstance(progress.live_view(Console(file=file)), progress.PlainView)
    with progress.live_view(console(), quiet=True) as view:
        assert isinstance(view, progress.QuietView)
        said = (run_events.SetUp("x"), run_events.BytesDone(1, 2), STARTED, MEASURING, FINISHED, run_events.Noted("x"))
        for event in said:
            view.event(event)
    assert capsys.readouterr() == ("", "")


def test_time_left_counts_down_and_learns_what_trials_take() -> None:
    clock = Clock()
    left = progress.TimeLeft(clock)
    assert left.left_s() is None
    # unknown for a first trial without length
    left.trial_started(2, None)
    assert left.left_s() is None
    left = progress.TimeLeft(clock)
    left.trial_started(2, 10.0)
    assert left.left_s() == 30
    clock.now += 4
    assert left.left_s() == 26
    clock.now += 11
    # preparing took five seconds more than the plan says
    left.trial_started(1, 10.0)
    assert left.left_s() == 30
    clock.now += 100
    assert left.left_s() == 15
    # as on a clock
    assert [progress.clock_time(seconds) for seconds in (0, 59.6, 700, 3729)] == ["0:00", "1:00", "11:40", "1:02:09"]
