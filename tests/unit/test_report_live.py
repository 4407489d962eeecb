"""The output of a running trial: preparation before it, checks after it."""

import io

import pytest
from rich.console import Console

from pgdyno.records import Outcome
from pgdyno.report.run_events import IntervalEnded, SetUp, TrialEnded, TrialStarted
from pgdyno.report.terminal.progress import PlainView, TerminalView


def console(*, terminal: bool, width: int = 80) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)


def written(to: Console) -> str:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


def test_a_check_behind_a_trial_is_shown_and_the_trial_keeps_its_name() -> None:
    to = console(terminal=True)
    view = TerminalView(to)
    view.event(TrialStarted(1, 2, "tpcb-like 4 clients", 10.0, later=1))
    view.event(IntervalEnded(500.0, 2.0))
    view.event(SetUp("checking the dataset's consistency"))
    assert view.line().plain == "checking the dataset's consistency"
    view.event(TrialEnded(Outcome.FAILED, 500.0, 2.0))
    assert "trial 1/2  tpcb-like 4 clients  failed  500 tps" in written(to)
    assert view.line().plain == ""


def test_a_log_has_each_step_once() -> None:
    to = console(terminal=False)
    view = PlainView(to)
    for _ in range(3):
        view.event(SetUp("copying the template"))
        view.event(SetUp("writing a checkpoint"))
    assert written(to).splitlines() == ["copying the template", "writing a checkpoint"]


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (60, "trial 3/24  pg18 select…  71.3k tps  p99 2.10 ms  16:00 left"),
        (80, "trial 3/24  pg18 select-only 16 clients  71.3k tps  p99 2.10 ms  16:00 left"),
        (160, "trial 3/24  pg18 select-only 16 clients  measuring  ████████████  71.3k tps  p99 2.10 ms  16:00 left"),
    ],
)
def test_a_narrow_window_keeps_the_figures(width: int, line: str) -> None:
    view = TerminalView(console(terminal=True, width=width), clock=lambda: 0.0)
    view.event(TrialStarted(3, 24, "pg18 select-only 16 clients", 60.0, later=15))
    for _ in range(20):
        view.event(IntervalEnded(71_300.0, 2.1, "measuring"))
    assert view.line().plain == line
    assert view.line().cell_len <= width


def test_a_log_hears_of_a_long_trial_now_and_then() -> None:
    to, seconds = console(terminal=False, width=200), 0.0
    view = PlainView(to, clock=lambda: seconds)
    view.event(TrialStarted(2, 4, "select-only 1 client", 60.0, later=1))
    for seconds in range(1, 31):
        view.event(IntervalEnded(500.0, 2.0, "warm-up" if seconds <= 10 else "measuring"))
    view.event(TrialEnded(Outcome.FINISHED, 500.0, 2.0))
    assert written(to).splitlines() == [
        "trial 2/4  select-only 1 client  warm-up  500 tps  p99 2.00 ms  1:50 left",
        "trial 2/4  select-only 1 client  measuring  500 tps  p99 2.00 ms  1:40 left",
        "trial 2/4  select-only 1 client  measuring  500 tps  p99 2.00 ms  1:30 left",
        "trial 2/4  select-only 1 client  500 tps  p99 2.00 ms",
    ]
