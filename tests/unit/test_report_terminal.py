"""The terminal output of finished and running runs."""

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console
from rich.text import Text

from pgdyno.experiment.run_progress import RunProgress
from pgdyno.plan import Plan, planned_trials
from pgdyno.records import ErrorCount, Outcome, Point
from pgdyno.report.report_content import Extras, digest
from pgdyno.report.run_events import BytesDone, IntervalEnded, Noted, RowsDone, SetUp, TrialEnded, TrialStarted
from pgdyno.report.several_runs import arms_of, comparisons_of
from pgdyno.report.terminal.progress import (
    LiveView,
    PlainView,
    QuietView,
    TerminalView,
    TimeLeft,
    clock_time,
    live_view,
)
from pgdyno.report.terminal.run_report import all_lines, print_report
from pgdyno.report.terminal.summary_file import Layout
from pgdyno.report.terminal.text_drawing import Canvas, bar, printable, sparkline
from pgdyno.store import RunFolder
from tests.unit.report_sample import SampleRun, add_failure, add_trial, manifest, sweep, with_knee

LONG = "a-very-long-target-name-that-nobody-would-choose-but-somebody-will-and-it-goes-on"


def console(*, terminal: bool = True, width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None, legacy_windows=False)


def written(to: Console) -> str:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


def texts(run: SampleRun, width: int | None) -> list[Text]:
    """The report with its answer, without the audit."""
    of = digest(run)
    extras = Extras(comparisons=comparisons_of(of), arms=arms_of(of))
    return all_lines(of, Layout(width), extras)


def lines(run: SampleRun, width: int | None) -> list[str]:
    return [line.plain for line in texts(run, width)]


def row(of: list[str], begins: str) -> list[str]:
    return next(line.split() for line in of if line.split()[:1] == [begins])


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("targets", [("pg18",), ("pg18", "pg17", "pg16"), (LONG, "b"), ("東京" * 20, "b")])
def test_no_line_is_wider_than_the_terminal(targets: tuple[str, ...], width: int) -> None:
    run = sweep(targets, clients=(1, 8, 64))
    add_failure(run, targets[0], 128, message="x" * 300)
    add_failure(run, targets[0], 256, message="失敗" * 100)
    assert max(line.cell_len for line in texts(run, width)) <= width


def test_columns_are_aligned_below_names_of_wide_characters() -> None:
    shown = texts(sweep(("pg18", "東京サーバー"), clients=(1, 8)), None)
    table = [line for line in shown if re.match("(target|pg18|東京サーバー)  ", line.plain)]
    assert (len(table), len({line.cell_len for line in table})) == (5, 1)


def test_80_columns_hold_the_figures_and_a_bar() -> None:
    shown = lines(sweep(), 80)
    heading = next(line for line in shown if line.startswith("clients  "))
    assert heading.split() == ["clients", "tps", "±", "from", "p50", "p95", "p99", "max", "errors"]
    assert "█" in " ".join(row(shown, "64"))


def test_200_columns_hold_more() -> None:
    heading = next(line for line in lines(sweep(), 200) if line.startswith("clients  "))
    assert {"mean,", "trials", "second"} <= set(heading.split())


def test_several_targets_are_named_in_the_table_and_the_picture() -> None:
    shown = lines(sweep(("pg18", "pg17"), clients=(1, 4, 16)), 80)
    assert next(line for line in shown if line.startswith("target")).split()[:2] == ["target", "clients"]
    assert any("● pg18" in line and "■ pg17" in line for line in shown)


def test_peak_and_knee_are_marked() -> None:
    shown = lines(with_knee(), 80)
    assert row(shown, "2")[1] == "knee"
    assert row(shown, "4")[1] == "peak"


def test_failures_and_warnings_are_told() -> None:
    run = sweep(clients=(1, 4))
    add_failure(run, "pg18", 64, message="too many clients already")
    shown = "\n".join(lines(run, 80))
    failed = " ".join(shown.partition("Trials that did not finish")[2].split())
    assert "trial 7, series pg18, point 64 clients, repeat 1, outcome failed" in failed
    assert "why too many clients already, hint raise max_connections" in failed
    assert "- No trial finished: no figures: 64 clients." in shown


def test_a_run_without_a_result_is_told_too() -> None:
    run = SampleRun(manifest())
    for clients in range(1, 9):
        add_failure(run, "pg18", clients)
    shown = lines(run, 80)
    assert "No trial finished: 8 trials failed or were interrupted" in shown
    to = console(terminal=False)
    print_report(digest(run), to, Extras())
    assert "Noise grade" not in written(to)
    assert "and 3 more in the HTML report" in shown


def test_a_pipe_gets_whole_plain_lines_without_pictures() -> None:
    to = console(terminal=False)
    run = sweep(("pg18", "a" * 60), clients=(1, 8, 64))
    print_report(digest(run), to, Extras())
    text = written(to)
    assert "\x1b" not in text
    assert not set("█▁⠤┤") & set(text)
    assert "a" * 60 in text
    assert "mean, ms  p50, ms  p95, ms  p99, ms  max, ms" in text


def test_text_from_outside_cannot_control_the_terminal() -> None:
    run = sweep(("\x1b[2Jpg",), clients=(1,), repeats=1)
    add_failure(run, "\x1b[2Jpg", 4, message="bad\x1b]0;title\x07\u202e[red]x")
    shown = "\n".join(lines(run, 80))
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert "[red]x" in shown


def test_a_terminal_without_unicode_gets_no_blocks() -> None:
    shown = "\n".join(line.plain for line in all_lines(digest(sweep()), Layout(80, unicode=False), Extras()))
    assert not set("█▁⠤┤") & set(shown)


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    run = sweep(clients=(1, 4))
    add_trial(run, "pg18", 4, 100, 900, failed=3, errors=[ErrorCount(sqlstate=None, message="x", count=3)])

    def colours() -> bool:
        to = Console(file=io.StringIO(), force_terminal=True, width=80, color_system="standard", legacy_windows=False)
        print_report(digest(run), to, Extras())
        return any(f"\x1b[{code}m" in written(to) for code in (31, 33, 36))

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colours()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colours()


def test_bars_have_eighths() -> None:
    assert bar(0.5, 4) == "██  "
    assert bar(1 / 32, 4) == "▏   "
    assert bar(2.0, 4) == "████"
    assert bar(-1.0, 4) == "    "


def test_sparklines_begin_at_zero_and_average_what_does_not_fit() -> None:
    assert sparkline([0, 50, 100], 10) == "▁▄█"
    assert sparkline([100, 100, 50, 50], 2) == "█▄"
    assert sparkline([0, 0], 10) == "▁▁"
    assert sparkline([], 10) == ""


def test_a_canvas_writes_only_where_it_is_empty() -> None:
    canvas = Canvas(10, 2)
    canvas.line(0, 0.1, 9.9, 0.1)
    assert not canvas.write(2, 0, "peak")
    assert canvas.write(2, 1, "peak")
    assert not canvas.write(8, 1, "knee")
    assert canvas.lines()[1] == "  peak    "


def test_control_characters_are_replaced() -> None:
    assert printable("a\x1b[1mb\nc") == "a\N{REPLACEMENT CHARACTER}[1mb c"


class Clock:
    """A clock that returns a given time."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_line_of_a_running_trial() -> None:
    clock = Clock()
    view = TerminalView(console(), clock)
    view.event(TrialStarted(7, 24, "select-only 48 clients", 40.0, later=17))
    for tps in (20_000.0, 40_000.0, 71_300.0):
        view.event(IntervalEnded(tps, 2.1))
        clock.now += 1
    assert view.line().plain == "trial 7/24  select-only 48 clients  ▃▅█  71.3k tps  p99 2.10 ms  11:57 left"


@pytest.mark.parametrize("view_of", [TerminalView, PlainView])
def test_a_search_that_may_go_on_says_no_number_of_trials(view_of: type[TerminalView | PlainView]) -> None:
    to = console()
    with view_of(to, Clock()) as view:
        view.event(TrialStarted(33, 33, "pg18 2 clients", 1.0, later=0, is_open=True))
        view.event(TrialEnded(Outcome.FINISHED, 71_300.0, 2.1))
    assert "trial 33  pg18 2 clients  71.3k tps" in written(to)


@pytest.mark.parametrize("search", [None, {"find": "peak"}])
def test_the_number_of_trials_is_open_while_a_search_may_add_some(search: dict[str, str] | None) -> None:
    plan = Plan.model_validate(
        {
            "name": "x",
            "target": {"pg18": {"kind": "embedded", "version": "18"}},
            "workload": {"scripts": ["select-only"]},
            "sweep": {"clients": [1, 2]},
            "trial": {"duration": "10s"},
            "search": search,
        }
    )
    told: list[object] = []
    view = cast("LiveView", SimpleNamespace(event=told.append))
    # a search chooses its trials one by one
    trials = planned_trials(plan.model_copy(update={"search": None}))
    RunProgress(plan, cast("RunFolder", None), view, trials).trial_started(trials[0])
    (event,) = told
    assert isinstance(event, TrialStarted)
    assert event.is_open == (search is not None)


def test_points_of_a_note_are_told_apart_though_names_have_commas() -> None:
    run = SampleRun(manifest())
    for at, (jit, geqo) in enumerate((("on", "on"), ("on", "off"), ("off", "on"))):
        point = Point(clients=2, settings={"jit": jit, "geqo": geqo})
        for repeat in range(1, 1 + (at == 2) + 1):
            add_trial(run, "pg18", 2, 100.0 + repeat, 900, repeat=repeat, seconds=2, point=point)
    note = next(line for line in lines(run, None) if line.startswith("- Only one trial"))
    assert note.endswith(": geqo on, jit on, 2 clients; geqo off, jit on, 2 clients.")


def test_80_columns_name_the_whole_point_beside_its_figures() -> None:
    view = TerminalView(console(width=80), Clock())
    view.event(TrialStarted(16, 36, "pg17 tpcb-like 16 clients", 40.0, later=20))
    for _ in range(30):
        view.event(IntervalEnded(1_440.0, 4.76, "measuring"))
    assert view.line().plain == "trial 16/36  pg17 tpcb-like 16 clients  ████  1.44k tps  p99 4.76 ms  14:00 left"


@pytest.mark.parametrize("width", [30, 50, 60, 80, 120])
def test_the_line_fits_and_keeps_its_figures(width: int) -> None:
    view = TerminalView(console(width=width), Clock())
    view.event(TrialStarted(7, 24, "a workload with a long name, 48 clients", 40.0, later=17))
    for _ in range(30):
        view.event(IntervalEnded(71_300.0, 2.1))
    assert view.line().cell_len <= width
    if width >= 50:
        assert "71.3k tps  p99 2.10 ms" in view.line().plain


def test_setting_up_shows_the_transfer() -> None:
    view = TerminalView(console(), Clock())
    view.event(SetUp("fetching PostgreSQL 18.6"))
    view.event(BytesDone(7_340_032, 14_680_064))
    assert view.line().plain == "fetching PostgreSQL 18.6  ██████████           7.0 MiB of 14.0 MiB"
    view.event(BytesDone(7_340_032, None))
    assert view.line().plain == "fetching PostgreSQL 18.6  7.0 MiB"
    view.event(SetUp("starting"))
    assert view.line().plain == "starting"


def test_a_load_shows_its_share_its_rate_and_the_time_left() -> None:
    view = TerminalView(console(), Clock())
    view.event(SetUp("loading pgbench at scale 100"))
    view.event(RowsDone(2_500_000, 10_001_100, 1_900_000.0, 4.2))
    bar = "\N{FULL BLOCK}" * 5 + " " * 15
    assert view.line().plain == f"loading pgbench at scale 100  {bar} 24 %  1.90M rows/s  0:04 left"
    view.event(RowsDone(10_001_099, 10_001_100, 1_900_000.0, 0.0))
    assert " 99 %  1.90M rows/s  0:00 left" in view.line().plain
    view.event(RowsDone(10_001_100, 10_001_100, 1_900_000.0, 0.0))
    assert view.line().plain.endswith(" 100 %  1.90M rows/s")


def test_the_terminal_keeps_a_line_for_each_trial_and_note() -> None:
    to = console()
    with TerminalView(to, Clock()) as view:
        view.event(TrialStarted(1, 2, "select-only 4 clients", 10.0, later=1))
        view.event(IntervalEnded(71_300.0, 2.1))
        view.event(TrialEnded(Outcome.FINISHED, 71_300.0, 2.1))
        view.event(TrialStarted(2, 2, "[red]x", 10.0, later=0))
        view.event(TrialEnded(Outcome.FAILED, None, None))
        view.event(Noted("too many clients"))
    text = written(to)
    assert "trial 1/2  select-only 4 clients  71.3k tps  p99 2.10 ms" in text
    assert "trial 2/2  [red]x  failed" in text
    assert "too many clients" in text


def test_elsewhere_there_is_a_line_a_trial_and_no_control_character() -> None:
    to = console(terminal=False)
    with live_view(to) as view:
        view.event(SetUp("starting PostgreSQL 18.6"))
        view.event(BytesDone(1, 2))
        view.event(SetUp("starting PostgreSQL 18.6"))
        view.event(TrialStarted(1, 2, "select-only 4 clients", 10.0, later=1))
        view.event(IntervalEnded(1.0, None))
        view.event(TrialEnded(Outcome.FINISHED, 71_300.0, 2.1))
        view.event(TrialStarted(2, 2, "select-only \x1b8 clients", 10.0, later=0))
        view.event(TrialEnded(Outcome.INTERRUPTED, 5.0, None))
        view.event(Noted("that was all"))
    assert written(to).splitlines() == [
        "starting PostgreSQL 18.6",
        "trial 1/2  select-only 4 clients  71.3k tps  p99 2.10 ms",
        "trial 2/2  select-only \N{REPLACEMENT CHARACTER}8 clients  interrupted  5.00 tps",
        "that was all",
    ]


def test_the_view_suits_the_console(tmp_path: Path) -> None:
    assert isinstance(live_view(console()), TerminalView)
    assert isinstance(live_view(console(), quiet=True), QuietView)
    with (tmp_path / "log").open("w") as file:
        assert isinstance(live_view(Console(file=file)), PlainView)


def test_the_quiet_view_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with QuietView() as view:
        view.event(SetUp("x"))
        view.event(BytesDone(1, 2))
        view.event(TrialStarted(1, 1, "x", 1.0, later=0))
        view.event(IntervalEnded(1.0, 1.0))
        view.event(TrialEnded(Outcome.FAILED, None, None))
        view.event(Noted("x"))
    assert capsys.readouterr() == ("", "")


def test_time_left_counts_down_and_learns_what_trials_take() -> None:
    clock = Clock()
    left = TimeLeft(clock)
    assert left.left_s() is None
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


def test_time_left_is_unknown_for_a_first_trial_without_length() -> None:
    left = TimeLeft(Clock())
    left.trial_started(2, None)
    assert left.left_s() is None


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (700, "11:40"), (3729, "1:02:09")])
def test_clock_time(seconds: float, text: str) -> None:
    assert clock_time(seconds) == text
