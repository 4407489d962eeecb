"""Screens of a frame: their size, their figures, and that no control character reaches a terminal."""

import io
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from pgdyno.watch.screen import Looks, Table, line, nice_top, page, screen, stacked
from tests.unit.watch_sample import ESCAPE, history, session

LOOKS = Looks(notes=["waits: no right"])
NASTY = f"a{ESCAPE}\nb\u202e"


def text_of(shown: RenderableType, size: tuple[int, int]) -> str:
    written = io.StringIO()
    console = Console(
        file=written,
        force_terminal=True,
        color_system=None,
        width=size[0],
        height=size[1],
        markup=False,
        highlight=False,
    )
    console.print(shown, height=size[1], end="")
    return written.getvalue()


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (120, 40), (40, 10), (20, 5)], ids=str)
@pytest.mark.parametrize("table", list(Table))
def test_a_screen_fills_the_window_and_no_more(size: tuple[int, int], table: Table) -> None:
    told = history(90, "alice", *[session(at, "UPDATE t SET a = 1") for at in range(60)])
    looks = replace(LOOKS, table=table, notes=["x" * 300])
    lines = text_of(screen(told.frame(1), told.points, looks, *size), size).splitlines()
    assert len(lines) == size[1]
    assert {len(each) for each in lines} == {size[0]}


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=str)
def test_figures_are_not_cut(size: tuple[int, int]) -> None:
    told = history(60, "alice", session(4, "UPDATE t SET a = 1"))
    text = text_of(screen(told.frame(1), told.points, LOOKS, *size), size)
    words = " ".join(text.split())
    for word in ("alice@db/shop", "PostgreSQL 18.1", "tps 989", "CPU 70 %", "steal 5", "WAL 1.91 MB/s", "90.0 % hit"):
        assert word in words, text
    for word in (
        "disk 45 % vda (data wal)",
        "4 CPU ┤",
        "■ CPU 2.0",
        "LWLock:WALWrite",
        "4711 alice@shop UPDATE",
        "50 %",
    ):
        assert word in words, text
    assert "12 waits for tuple" in words
    assert "waits: no right" in text.splitlines()[-1]


def test_the_chart_is_stacked_from_zero_with_a_line_at_the_processors() -> None:
    lines = stacked([{"CPU": 2.0, "Lock": 2.0}] * 3, 12, 8, 2.0)
    assert [line.plain[-3:] for line in lines] == [*["███"] * 4, "╌╌╌", *["███"] * 3]
    styles = [str(line.spans[-1].style) for line in lines]
    assert (styles[0], styles[-1]) == ("red", "green")
    plain = [line.plain[-3:] for line in stacked([{"CPU": 2.0, "Lock": 2.0}] * 3, 12, 8, None, colours=False)]
    assert plain == ["LLL"] * 4 + ["CCC"] * 4


def test_a_line_of_many_processors_does_not_flatten_the_chart() -> None:
    lines = stacked([{"CPU": 2.0}], 20, 8, 64.0)
    assert not any("CPU" in line.plain for line in lines)
    assert lines[0].plain[-1] == "█"
    assert [nice_top(each) for each in (0.0, 1.2, 2.0, 7.0, 61.0)] == [1, 1.5, 2, 8, 80]


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=str)
@pytest.mark.parametrize("table", list(Table))
def test_names_from_outside_cannot_steer_the_terminal(size: tuple[int, int], table: Table) -> None:
    server = {"server": NASTY, "server_version": NASTY, "processors": None}
    told = history(3, NASTY, session(4, NASTY, NASTY, f"idle{NASTY}"), queries=True, server=server)
    looks = Looks(table=table, notes=[NASTY], queries=True)
    shown = screen(told.frame(1), told.points, looks, *size)
    for text in (text_of(shown, size), text_of(page(told.frame(1), looks), (120, 99)), line(told.frame(1))):
        assert not {"\x1b", "\x07", "\u202e"} & set(text)


@pytest.mark.parametrize(
    ("table", "heading"), [(Table.STATEMENTS, "statements by time"), (Table.SESSIONS, "state or wait")]
)
def test_80_columns_hold_the_heading_of_each_table(table: Table, heading: str) -> None:
    told = history(3)
    looks = replace(LOOKS, table=table)
    assert heading in text_of(screen(told.frame(1), told.points, looks, 80, 24), (80, 24))


def test_one_frame_as_text() -> None:
    told = history(3, "alice", session(4, "UPDATE t SET a = 1"))
    text = text_of(page(told.frame(1), LOOKS), (100, 60))
    words = " ".join(text.split())
    for word in ("tps 989", "sessions 40 4 active", "CPU 2.0", "WAL 1.0", "Lock 1.0", "90.0 % hit", "CPU 70 %"):
        assert word in words, text
    assert "12 waits for tuple of 13" in words


def test_a_line_for_a_log() -> None:
    assert "989" in line(history().frame(1))
    assert line(history().frame(1)).endswith("CPU 2.0")


def test_a_server_that_is_away_is_said_to_be_once() -> None:
    told = history(3)
    frame = {**told.frame(1), "away": "connection refused", "active": None, "waits": None}
    text = text_of(page(frame, LOOKS), (100, 60))
    assert text.count("no connection to the server: connection refused") == 1
