"""Pages of a frame: their size, their figures, and that no control character reaches a terminal."""

import io

import pytest
from rich.console import Console

from pgdyno.watch.page import Page, line
from tests.unit.watch_sample import ESCAPE, frame, history, session

NASTY = f"a{ESCAPE}\nb\u202e"


def text_of(page: Page, width: int) -> str:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, color_system=None, width=width, markup=False, highlight=False)
    console.print(page)
    return written.getvalue()


def many_sessions() -> dict[str, object]:
    return {**frame(history(3, "alice", *[session(at, "UPDATE t SET a = 1") for at in range(60)]))}


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (120, 40), (40, 18)], ids=str)
def test_a_page_fills_the_terminal_and_no_more(size: tuple[int, int]) -> None:
    lines = text_of(Page(many_sessions(), False, ["x" * 300], size[1]), size[0]).splitlines()
    assert size[1] - 3 <= len(lines) <= size[1]
    assert max(len(each) for each in lines) == size[0]


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (100, None)], ids=str)
def test_figures_are_not_cut(size: tuple[int, int | None]) -> None:
    found = frame(history(3, "alice", session(4, "UPDATE t SET a = 1")))
    text = text_of(Page(found, False, ["waits: no right"], size[1]), size[0])
    words = " ".join(text.split())
    for word in (
        "alice@db/shop", "PostgreSQL 18.1", "tps 989", "CPU 70 %", "steal 5", "WAL 2.00 MB/s", "90.0 % hit",
        "disk 45 % vda (data wal)", "4 cores", "■ CPU 2.0", "WAL 1.0", "Lock 1.0", "LWLock:WALWrite",
        "4711 alice@shop UPDATE", "50 %", "12 waits for tuple", "state or wait",
    ):  # fmt: skip
        assert word in words, text
    assert "waits: no right" in text.splitlines()[-1]


def test_without_a_limit_tables_have_ten_rows_on_average() -> None:
    rows = [each for each in text_of(Page(many_sessions(), False), 100).splitlines() if "alice@shop shop" in each]
    # three tables, of which the first two have one and four rows
    assert len(rows) == 30 - 1 - 4


@pytest.mark.parametrize("width", [80, 200])
def test_names_from_outside_cannot_steer_the_terminal(width: int) -> None:
    samples = history(3, NASTY, session(4, NASTY, NASTY, f"idle{NASTY}"))
    found = frame(samples, queries=True, server=NASTY, server_version=NASTY, processors=None)
    for text in (text_of(Page(found, True, [NASTY]), width), line(found)):
        assert not {"\x1b", "\x07", "\u202e"} & set(text)


def test_a_line_for_a_log() -> None:
    assert "989" in line(frame(history()))
    assert line(frame(history())).endswith("CPU 2.0")


def test_a_server_that_is_away_is_said_to_be_once() -> None:
    found = frame(history(3), away="connection refused")
    text = text_of(Page(found, False), 100)
    assert text.count("no connection to the server: connection refused") == 1
    assert line(found).endswith("away: connection refused")
