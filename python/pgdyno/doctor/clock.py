"""The clock that every latency is read from: its source, and what reading it costs."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, repeat

from pgdyno.doctor.check import NOT_REPORTED, good, grade_value, note, unknown, warning
from pgdyno.doctor.system import System
from pgdyno.messages import Message
from pgdyno.records import Check

FOLDER = "sys/devices/system/clocksource/clocksource0"
SLOW_SOURCES = ("hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies")
"""Clock sources that need a system call and a slow device."""
CALLS, PASSES = 50_000, 5
COST_NOTE_NS, COST_WARNING_NS = 100, 300
"""From PostgreSQL's documentation of pg_test_timing: below 100 ns, nine of ten calls below 1 µs."""
LEAST_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class ClockCost:
    ns: float
    """Time per call, without the loop around it."""
    under_1_us: float
    """The share of calls that ended within 1 µs of the previous one."""


def measure_cost() -> ClockCost:
    """Return the best of several passes, because other processes only add to the time."""
    clock = time.CLOCK_MONOTONIC
    # both loops run in C and differ only by the clock
    loop_ns = min(_loop_ns(abs, clock)[0] for _ in range(PASSES))
    took_ns, readings = min((_loop_ns(time.clock_gettime_ns, clock) for _ in range(PASSES)), key=lambda pair: pair[0])
    steps = [later - earlier for earlier, later in pairwise(readings)]
    return ClockCost(max(took_ns - loop_ns, 0.0), sum(step < 1000 for step in steps) / len(steps))


def _loop_ns(function: Callable[[int], int], argument: int) -> tuple[float, list[int]]:
    begin = time.perf_counter_ns()
    results = list(map(function, repeat(argument, CALLS)))
    return (time.perf_counter_ns() - begin) / CALLS, results


def source(system: System) -> Check:
    """`clock.source`: the kernel's clock source, and the alternatives."""
    name = "clock.source"
    current = system.text(f"{FOLDER}/current_clocksource")
    available = (system.text(f"{FOLDER}/available_clocksource") or "").split()
    if not current:
        return unknown(name, NOT_REPORTED)
    others = [other for other in available if other != current]
    found = Message(
        "clock-source",
        "{current}; available: {others}" if others else "{current}; available: no other",
        current=current,
        others=", ".join(others),
    )
    change = f"echo tsc > /{FOLDER}/current_clocksource, or clocksource=tsc at boot" if "tsc" in others else ""
    if current in SLOW_SOURCES:
        means = Message(
            "clock-needs-call",
            "each reading is a system call, which slows down EXPLAIN ANALYZE, track_io_timing and the generator",
        )
        return warning(name, found, means, change or "the kernel's log says why it abandoned the faster source")
    if "tsc" in others and current not in ("kvm-clock", "hyperv_clocksource_tsc_page"):
        return note(name, found, Message("counter-faster", "the processor's own counter is faster"), change)
    return good(name, found)


def cost(measured: ClockCost) -> Check:
    """`clock.cost`: the time per call, and the share of calls below 1 µs."""
    found = Message(
        "clock-cost",
        "{call_ns:.0f} ns per call, {percent:.1f} % under 1 µs",
        call_ns=measured.ns,
        percent=100 * measured.under_1_us,
    )
    values = {"call_ns": round(measured.ns, 1), "under_1_us_share": round(measured.under_1_us, 5)}
    means = Message(
        "clock-adds", "the clock adds to short latencies, and to the cost of EXPLAIN ANALYZE and track_io_timing"
    )
    change = "see clock.source"
    if measured.under_1_us < LEAST_SHARE:
        return warning("clock.cost", found, means, change, values)
    limits = [(COST_NOTE_NS, note), (COST_WARNING_NS, warning)]
    return grade_value("clock.cost", measured.ns, limits, found, means, change, values)
