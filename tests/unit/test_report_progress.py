"""The output of a running experiment: its line in a terminal, its lines in a log."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from pgdyno.experiment.run_progress import RunProgress
from pgdyno.plan import Plan, planned_trials
from pgdyno.plan.model import SearchSpec
from pgdyno.records import Outcome
from pgdyno.report import run_events
from pgdyno.report.terminal.progress import (
    LiveView,
    PlainView,
    QuietView,
    TerminalView,
    TimeLeft,
    clock_time,
    live_view,
)
from pgdyno.store import RunFolder


class Clock:
    """A clock that returns a given time."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def console(*, terminal: bool = True, width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None, legacy_windows=False)


def written(to: Console) -> str:
    return cast("io.StringIO", to.file).getvalue()


def line_after(*events: run_events.RunEvent, width: int = 80) -> str:
    view = TerminalView(console(width=width), Clock())
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
    view = TerminalView(console(), clock)
    view.event(run_events.TrialStarted(7, 24, "select-only 48 clients", 40.0, later=17))
    for tps in (20_000.0, 40_000.0, 71_300.0):
        view.event(run_events.IntervalEnded(tps, 2.1))
        clock.now += 1
    assert view.line().plain == "trial 7/24  select-only 48 clients  ▃▅█  71.3k tps  p99 2.10 ms  11:57 left"


@pytest.mark.parametrize("view_of", [TerminalView, PlainView])
def test_a_search_that_may_go_on_says_no_number_of_trials(view_of: type[TerminalView | PlainView]) -> None:
    to = console()
    with view_of(to, Clock()) as view:
        view.event(run_events.TrialStarted(33, 33, "pg18 2 clients", 1.0, later=0, is_open=True))
        view.event(FINISHED)
    assert "trial 33  pg18 2 clients  71.3k tps" in written(to)


def test_the_number_of_trials_is_open_while_a_search_may_add_some() -> None:
    plan = Plan.model_validate(
        {
            "name": "x", "target": {"pg18": {"kind": "embedded", "version": "18"}}, "trial": {"duration": "10s"},
            "workload": {"scripts": ["select-only"]}, "sweep": {"clients": [1, 2]},
        }
    )  # fmt: skip
    # a search chooses its trials one by one
    trials = planned_trials(plan)
    for search in (None, SearchSpec(find="peak")):
        told: list[run_events.TrialStarted] = []
        view = cast("LiveView", SimpleNamespace(event=told.append))
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
    with TerminalView(to, Clock()) as view:
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
    for line in (
        "trial 1/2  select-only 4 clients  71.3k tps  p99 2.10 ms",
        "trial 2/2  [red]x  failed",
        "too many clien",
    ):
        assert line in written(to)


def test_elsewhere_there_is_a_line_a_trial_and_step_and_no_control_character() -> None:
    to = console(terminal=False)
    with live_view(to) as view:
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


def test_a_log_hears_of_a_long_trial_now_and_then() -> None:
    to, seconds = console(terminal=False, width=200), 0.0
    view = PlainView(to, clock=lambda: seconds)
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
    assert isinstance(live_view(console()), TerminalView)
    with (tmp_path / "log").open("w") as file:
        assert isinstance(live_view(Console(file=file)), PlainView)
    with live_view(console(), quiet=True) as view:
        assert isinstance(view, QuietView)
        for event in (
            run_events.SetUp("x"),
            run_events.BytesDone(1, 2),
            STARTED,
            MEASURING,
            FINISHED,
            run_events.Noted("x"),
        ):
            view.event(event)
    assert capsys.readouterr() == ("", "")


def test_time_left_counts_down_and_learns_what_trials_take() -> None:
    clock = Clock()
    left = TimeLeft(clock)
    assert left.left_s() is None
    # unknown for a first trial without length
    left.trial_started(2, None)
    assert left.left_s() is None
    left = TimeLeft(clock)
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
    assert [clock_time(seconds) for seconds in (0, 59.6, 700, 3729)] == ["0:00", "1:00", "11:40", "1:02:09"]
