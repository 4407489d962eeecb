"""The doctor's table at every width."""

import pytest

from pgdyno.doctor import CHECKS
from pgdyno.records import Check, CheckVerdict
from pgdyno.report.terminal.doctor_checks import check_lines

LONG = "/a/very/long/path/that/nobody/would/choose/but/somebody/will/and/it/goes/on/and/on/until/the/end (data of pg18)"
CHECKED = [
    Check(id="cpu.cores", verdict=CheckVerdict.GOOD, found="16 processors, 2 to a core"),
    Check(id="cpu.governor", verdict=CheckVerdict.UNKNOWN, found="frequency not visible"),
    Check(
        id="storage.fsync",
        verdict=CheckVerdict.NOTE,
        found=f"{LONG}: median 3 ms",
        means="one client commits at most 333 times a second",
        change="a better disk",
    ),
    Check(
        id="machine.load",
        verdict=CheckVerdict.WARNING,
        found="81 % busy",
        means="trials compete with it",
        change="end it",
    ),
    Check(
        id="storage.free",
        verdict=CheckVerdict.STOP,
        found="1 GiB free; the plan needs 20 GiB",
        means="the disk runs full",
        change="a smaller scale",
    ),
]


@pytest.mark.parametrize("width", [60, 80, 89, 90, 120, 160, 250])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(line.cell_len for line in check_lines(CHECKED, width)) <= width


def test_60_columns_have_what_was_found_below_the_name() -> None:
    lines = [line.plain for line in check_lines(CHECKED, 60)]
    assert lines[:2] == ["good     cpu.cores", "         16 processors, 2 to a core"]
    assert "         to change it: end it" in lines


def test_160_columns_have_it_beside_the_name_and_are_not_used_up() -> None:
    lines = [line.plain for line in check_lines(CHECKED, 160)]
    assert lines[0] == "good     cpu.cores      16 processors, 2 to a core"
    assert lines[lines.index("warning  machine.load   81 % busy") + 1].strip() == "trials compete with it"
    assert max(map(len, lines)) <= 145


def test_a_file_gets_whole_lines() -> None:
    assert any(LONG in line.plain for line in check_lines(CHECKED, None))


def test_verdicts_have_colours_and_are_counted() -> None:
    lines = check_lines([*CHECKED, CHECKED[2]], 80)
    assert lines[-1].plain == "6 checks: 1 good, 1 unknown, 2 notes, 1 warning, 1 stop"
    styles = {
        line.plain.split()[0]: str(line.style) for line in lines if line.plain.startswith(("good", "warn", "stop"))
    }
    assert styles == {"good": "green", "warning": "yellow", "stop": "red"}


def test_names_leave_room_at_60_columns() -> None:
    assert max(map(len, CHECKS)) <= 24
