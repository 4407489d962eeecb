"""Screens of a frame: their size, their content, and that no control character reaches a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, Group

from pgdyno.watch.chart import nice_top, stacked
from pgdyno.watch.panels import Right
from pgdyno.watch.screen import Looks, screen
from pgdyno.watch.views import line_of, text_of
from tests.unit.watch_sample import ESCAPE, history, session

LOOKS = Looks(title="alice@db/shop", version="18.1", interval=1, processors=4.0, notes=["waits: no right"])
NASTY = f"a{ESCAPE}\nb\u202e"


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (120, 40), (40, 10), (20, 5)], ids=str)
@pytest.mark.parametrize("right", list(Right))
def test_a_screen_fills_the_window_and_no_more(size: tuple[int, int], right: Right) -> None:
    told = history(90, "alice", *[session(at, "UPDATE t SET a = 1") for at in range(60)])
    looks = Looks("alice@db/shop", "18.1", 1, right=right, notes=["x" * 300], processors=4.0)
    lines = screen(told.frame(1), told.points, looks, *size)
    assert len(lines) == size[1]
    assert max(line.cell_len for line in lines) <= size[0]


def test_80_columns_hold_what_matters() -> None:
    told = history(60, "alice", session(4, "UPDATE t SET a = 1"))
    lines = [line.plain for line in screen(told.frame(1), told.points, LOOKS, 80, 24)]
    text = "\n".join(lines)
    for word in ("alice@db/shop", "PostgreSQL 18.1", "tps 989", "CPU 70 %", "steal 5", "WAL 1.91 MB/s"):
        assert word in text, word
    for word in ("disk vda (data wal) 45 %", "4 CPU ┤", "■ CPU 2.0", "LWLock:WALWrite", "4711 alice@shop UPDATE"):
        assert word in text, word
    assert "waits: no right" in lines[-1]
    assert "q quit" in lines[-1]


def test_200_columns_hold_all_tables() -> None:
    told = history(60, "alice", session(4, "UPDATE t SET a = 1"))
    text = "\n".join(line.plain for line in screen(told.frame(1), told.points, LOOKS, 200, 60))
    for word in ("active by wait", "processes by I/O", "state or wait", "12 waits for tuple of 13", "checkpoint"):
        assert word in text, word


def test_the_chart_is_stacked_from_zero_with_a_line_at_the_processors() -> None:
    lines = stacked([{"CPU": 2.0, "Lock": 2.0}] * 3, 12, 8, 2.0)
    assert [line.plain[-3:] for line in lines] == [*["███"] * 4, "╌╌╌", *["███"] * 3]
    styles = [str(line.spans[-1].style) for line in lines]
    assert styles[0] == "red"
    assert styles[-1] == "green"
    plain = [line.plain[-3:] for line in stacked([{"CPU": 2.0, "Lock": 2.0}] * 3, 12, 8, None, colours=False)]
    assert plain == ["LLL"] * 4 + ["CCC"] * 4


def test_a_line_of_many_processors_does_not_flatten_the_chart() -> None:
    lines = stacked([{"CPU": 2.0}], 20, 8, 64.0)
    assert not any("CPU" in line.plain for line in lines)
    assert lines[0].plain[-1] == "█"
    assert [nice_top(each) for each in (0.0, 1.2, 2.0, 7.0, 61.0)] == [1, 1.5, 2, 8, 80]


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=str)
@pytest.mark.parametrize("right", list(Right))
def test_names_from_outside_cannot_steer_the_terminal(size: tuple[int, int], right: Right) -> None:
    told = history(3, NASTY, session(4, NASTY, NASTY, f"idle{NASTY}"), queries=True)
    looks = Looks(NASTY, NASTY, 1, right=right, notes=[NASTY], queries=True)
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, color_system=None, width=size[0], height=size[1])
    console.print(Group(*screen(told.frame(1), told.points, looks, *size)))
    page = text_of(told.frame(1), NASTY, NASTY, 120, queries=True)
    for text in (written.getvalue(), page, line_of(told.frame(1))):
        assert not {"\x1b", "\x07", "\u202e"} & set(text)


def test_one_frame_as_text() -> None:
    told = history(3, "alice", session(4, "UPDATE t SET a = 1"))
    page = text_of(told.frame(1), "alice@db/shop", "18.1", 100)
    for word in ("tps          989", "40 sessions", "CPU 2.0, WAL 1.0, Lock 1.0", "90.0 % hit", "CPU          70 %"):
        assert word in page, word
    assert "12 waits for tuple of 13" in page
    assert max(len(line) for line in page.splitlines()) <= 100


def test_a_line_for_a_log() -> None:
    assert "989" in line_of(history().frame(1))
    assert line_of(history().frame(1)).endswith("CPU 2.0")
