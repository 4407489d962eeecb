"""What the views show around a trial: preparation before it, checks behind it."""

from __future__ import annotations

import io

from rich.console import Console

from pgdyno.records import Outcome
from pgdyno.report.live import PlainView, TerminalView


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), width=80, force_terminal=terminal, color_system=None)


def written(to: Console) -> str:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


def test_a_check_behind_a_trial_is_shown_and_the_trial_keeps_its_name() -> None:
    to = console(terminal=True)
    view = TerminalView(to)
    view.trial_started(1, 2, "tpcb-like 4 clients", 10.0)
    view.interval(500.0, 2.0)
    view.set_up("checking the dataset's consistency")
    assert view.line().plain == "checking the dataset's consistency"
    view.trial_ended(Outcome.FAILED, 500.0, 2.0)
    assert "trial 1/2  tpcb-like 4 clients  failed  500 tps" in written(to)
    assert view.line().plain == ""


def test_a_log_has_each_step_once() -> None:
    to = console(terminal=False)
    view = PlainView(to)
    for _ in range(3):
        view.set_up("copying the template")
        view.set_up("writing a checkpoint")
    assert written(to).splitlines() == ["copying the template", "writing a checkpoint"]
