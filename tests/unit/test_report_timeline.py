"""A trial over time in a terminal: drawings that fit, and plain lines where drawings are not visible."""

from typing import Any

import pytest
from rich.cells import cell_len

from pgdyno.report.sections.over_seconds.timelines import TrialSteps
from pgdyno.report.terminal.timeline import MOST_PLAIN, steps_for, timeline_lines


def trial(steps: int = 12, **more: object) -> TrialSteps:
    made: dict[str, Any] = {
        "colour": 0,
        "n": 3,
        "name": "pg18, 16 clients, repeat 1",
        "step": 2.0,
        "begin": -4.0,
        "warm": 0.0,
        "tps": [1000 + 100 * at for at in range(steps)],
        "p99": [None, *[2.0 + at for at in range(steps - 1)]],
        "marks": [[2.0, "checkpoint (time)"]],
        "dips": [[6, 10]],
    }
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
def test_it_fits_the_terminal(width: int) -> None:
    many = steps_for(width)
    for lines in (drawn(width, **PROBED), drawn(width, steps=many)):
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


def test_a_bar_s_height_is_its_share() -> None:
    lines = drawn(80, tps=[0, 50, 100])[2:8]
    cells = [line[8:].ljust(69) for line in lines]
    assert [row[0] for row in cells] == [" "] * 6
    assert [row[30] for row in cells] == [" "] * 3 + ["█"] * 3
    assert [row[60] for row in cells] == ["█"] * 6


def test_plain_lines_where_nobody_looks() -> None:
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


def test_a_load_without_a_rate_has_only_what_the_probe_saw() -> None:
    none: list[float | None] = [None] * 12
    lines = drawn(80, tps=none, p99=none, **PROBED)
    assert lines[1] == "active sessions: Lock 55 %, CPU 45 %; 8 processors"
    assert not [line for line in lines if "throughput" in line or "p99" in line]
    columns = drawn(None, tps=none, p99=none, **PROBED)[1].split()
    assert columns == ["from,", "s", "active", "CPU,", "%", "WAL,", "MB/s"]


def test_processors_are_not_idle_in_a_step_without_a_sample() -> None:
    cpu = {"user": [50.0] * 6 + [None] + [60.0] * 5, "system": [20.0] * 6 + [None] + [10.0] * 5}
    assert "        CPU: 70.0 to 70.0 %" in drawn(80, cpu=cpu)


def test_steps_without_samples_are_left_empty() -> None:
    none: list[float | None] = [None]
    apart = [5.0] * 5 + none * 4 + [5.0] + none + [5.0]
    lines = drawn(None, tps=apart, p99=none * 12, waits={"CPU": apart}, marks=[], dips=[])
    assert [line.split()[-1] for line in lines[-7:]] == ["-", "-", "-", "-", "5.00", "-", "5.00"]


def test_without_colours_waits_are_letters() -> None:
    lines = [line.plain for line in timeline_lines(trial(12, **PROBED), 8, 80, colours=False)]
    assert "active sessions: L Lock 55 %, C CPU 45 %; 8 processors" in lines
    drawn_waits = [line[8:] for line in lines if set(line[8:]) <= set("CL ") and line[6:8] in (" \u2524", " \u2502")]
    assert [row[-1] for row in drawn_waits if row.strip()] == ["L", "L", "L", "C"]
    assert [row[0] for row in drawn_waits if row.strip()][-1] == "C"
