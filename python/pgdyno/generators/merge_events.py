"""Merges the events of several generators into those of one engine; see docs/reference/events.md."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pgdyno.generators.merge_figures import (
    COUNTS,
    PERCENTILES,
    connects,
    end_of_workload,
    lag,
    latencies,
    scripts_of_end,
    scripts_of_interval,
    sum_parts,
)

Event = dict[str, Any]

_SUMS = (*COUNTS, "scheduled", "in_flight", "unstarted")
_EXCEPTIONAL = ("left_running", "unreported_errors")
_PHASE_ORDER = {"warm-up": 0, "measure": 1, "drain": 2}


class Merger:
    """Receives the events of generators 0, 1, 2… as they come, and yields those of the whole load.

    Times are those of the first generator: `t_us` counts from its start. Intervals are merged by their begin, which is
    the same for all: each counts from one agreed instant.
    """

    def __init__(self, generators: int, offsets_us: Sequence[int]) -> None:
        """`offsets_us` is the lead of each generator's wall clock over the clock of the load's times."""
        self._count = generators
        self._offsets_us = offsets_us
        self._starts: dict[int, Event] = {}
        self._connected: dict[int, Event] = {}
        self._waiting: list[deque[Event]] = [deque() for _ in range(generators)]
        self.ends: dict[int, Event] = {}
        """The `end` events by generator."""
        self._seq = 0

    def add(self, generator: int, event: Event) -> Iterator[Event]:
        """Add an `event` of `generator`; yield the events that are complete with it, except the `end` (see `end`)."""
        match event["event"]:
            case "start":
                self._starts[generator] = event
                if len(self._starts) == self._count:
                    yield self._start()
            case "ready":
                pass
            case "connected":
                self._connected[generator] = event
                if len(self._connected) == self._count:
                    yield self._all_connected()
            case "interval":
                self._waiting[generator].append(event)
                yield from self._complete_intervals()
            case "end":
                self.ends[generator] = event
                yield from self._complete_intervals()
            case _:
                ours = self._by_our_clock(generator, event)
                yield {**ours, "t_us": self._t_us(generator, event), "generator": generator + 1}

    def _by_our_clock(self, generator: int, event: Event) -> Event:
        if "began_epoch_us" not in event:
            return event
        return {**event, "began_epoch_us": event["began_epoch_us"] - self._offsets_us[generator]}

    def _shift_outages(self, generator: int, end: Event) -> Event:
        outages = [self._by_our_clock(generator, outage) for outage in end.get("outages") or ()]
        return {**end, "outages": outages} if "outages" in end else end

    @property
    def has_ended(self) -> bool:
        return len(self.ends) == self._count

    def _start(self) -> Event:
        first = self._starts[0]
        each = [self._starts[number] for number in range(self._count)]
        return {
            **first,
            "epoch_us": first["epoch_us"] - self._offsets_us[0],
            "clients": sum(start["clients"] for start in each),
            "workers": sum(start["workers"] for start in each),
            "part": None,
            "generators": self._count,
        }

    def _all_connected(self) -> Event:
        each = [self._connected[number] for number in range(self._count)]
        return {**each[0], "connect_us": max(connected["connect_us"] for connected in each)}

    def _t_us(self, generator: int, event: Event) -> int:
        """Convert to the first generator's axis: by the common origin or, before that is known, by the wall clocks."""
        if len(self._connected) == self._count:
            origins = [self._connected[number]["origin_us"] for number in (0, generator)]
            return int(event["t_us"] - origins[1] + origins[0])
        if len(self._starts) == self._count:
            epochs = [self._starts[number]["epoch_us"] - self._offsets_us[number] for number in (0, generator)]
            return int(event["t_us"] + epochs[1] - epochs[0])
        return int(event["t_us"])

    def _complete_intervals(self) -> Iterator[Event]:
        """Yield merged intervals to which no generator can add any more."""
        while any(self._waiting):
            heads = {number: waiting[0] for number, waiting in enumerate(self._waiting) if waiting}
            if any(number not in heads and number not in self.ends for number in range(self._count)):
                return
            begin = min(_place(event) for event in heads.values())
            together = {number: event for number, event in heads.items() if _place(event) == begin}
            for number in together:
                self._waiting[number].popleft()
            yield self._interval(together)

    def _interval(self, parts: Mapping[int, Event]) -> Event:
        each = list(parts.values())
        seq, self._seq = self._seq, self._seq + 1
        return {
            **each[0],
            "t_us": max(self._t_us(number, event) for number, event in parts.items()),
            "seq": seq,
            "to_us": max(event["to_us"] for event in each),
            **sum_parts(each, ("clients", "in_flight")),
            "workers": [
                {**worker, "generator": number + 1}
                for number, event in parts.items()
                for worker in event.get("workers") or ()
            ],
            "lulls_us": _intersect([event.get("lulls_us") or [] for event in each]),
            "steal_us": _known_sum([event.get("steal_us") for event in each]),
            "scripts": scripts_of_interval([script for event in each for script in event["scripts"]]),
        }

    def failure(self, hosts: Sequence[Mapping[str, Any]]) -> Event | None:
        """Return the `end` of a load that an engine could not run, or None.

        The first failure counts, because the other engines were told to stop after it.
        """
        for number, end in self.ends.items():
            if end["outcome"] == "failed":
                message = f"generator {number + 1} of {self._count} ({hosts[number]['host']}): {end.get('message')}"
                ends = (self.ends.get(each) for each in range(self._count))
                generators = [_of_generator(each or {}, host) for each, host in zip(ends, hosts, strict=True)]
                return {**end, "message": message, "generators": generators}
        return None

    def end(self, hosts: Sequence[Mapping[str, Any]]) -> Event:
        """Return the merged `end` after all have ended; `hosts` has additional fields of each generator."""
        failure = self.failure(hosts)
        if failure is not None:
            return failure
        each = [self._shift_outages(number, self.ends[number]) for number in range(self._count)]
        generators = [_of_generator(end, host) for end, host in zip(each, hosts, strict=True)]
        succeeded = sum(end["succeeded"] for end in each)
        measured_s = max(end["measured_s"] for end in each)
        merged = {
            **each[0],
            "t_us": max(self._t_us(number, end) for number, end in enumerate(each)),
            "outcome": next(
                (name for name in ("aborted", "interrupted") if name in _values_of(each, "outcome")), "finished"
            ),
            "exit_code": max(end["exit_code"] for end in each),
            "message": next((end["message"] for end in each if end.get("message")), None),
            "measured_s": measured_s,
            **sum_parts(each, (*_SUMS, "clients_aborted")),
            **_exceptional_counts(each),
            "tps": succeeded / measured_s if measured_s > 0 else 0.0,
            "histogram": None,
            **latencies(each, PERCENTILES),
            "scripts": scripts_of_end([script for end in each for script in end["scripts"]]),
            "phases": _phases([end["phases"] for end in each if end.get("phases")]),
            "connect": connects([end["connect"] for end in each if end.get("connect")]),
            "errors": _errors([error for end in each for error in end["errors"]]),
            "start_late_us": max(end.get("start_late_us") or 0 for end in each),
            "cpu_us": _cpu(each),
            "workers": [
                {**worker, "generator": number + 1}
                for number, end in enumerate(each)
                for worker in end.get("workers") or ()
            ],
            "steal_us": _known_sum(_values_of(each, "steal_us")),
            "memory": None,
            "generators": generators,
        }
        clients = [self._starts[number]["clients"] for number in range(self._count)]
        return merged | end_of_workload(each, clients, merged)


def _place(event: Event) -> tuple[int, int]:
    return event["from_us"], _PHASE_ORDER[event["phase"]]


def _values_of(each: Sequence[Event], name: str) -> list[Any]:
    return [event.get(name) for event in each]


def _known_sum(values: Sequence[int | None]) -> int | None:
    return None if None in values else sum(value or 0 for value in values)


def _of_generator(end: Event, host: Mapping[str, Any]) -> Event:
    counts = ("outcome", "exit_code", "succeeded", "failed", "tps", "clients_aborted")
    names = (*counts, "start_late_us", "cpu_us", "steal_us", "memory")
    workers = end.get("workers") or ()
    shares = [worker["cpu_share"] for worker in workers if worker.get("cpu_share") is not None]
    worker_load = {"workers": len(workers), "busiest_cpu_share": max(shares, default=None)}
    return {**{name: end.get(name) for name in names}, **worker_load, **host}


def _cpu(each: Sequence[Event]) -> Event | None:
    """Return the CPU time of all engines; None if one is unknown."""
    known = [end["cpu_us"] for end in each if end.get("cpu_us")]
    return sum_parts(known, ("user", "system")) if len(known) == len(each) else None


def _exceptional_counts(each: Sequence[Event]) -> Event:
    """Return the sums of counts that an engine leaves out where they are 0, as its own events do."""
    sums = {name: sum(end.get(name, 0) for end in each) for name in _EXCEPTIONAL}
    return {name: count for name, count in sums.items() if count}


def _phases(each: Sequence[list[Event]]) -> list[Event] | None:
    if not each:
        return None
    merged = []
    for same in zip(*each, strict=True):
        measured_s = max(phase["measured_s"] for phase in same)
        sums = sum_parts(same, _SUMS)
        merged.append(
            {
                **same[0],
                **sums,
                "measured_s": measured_s,
                "tps": sums["succeeded"] / measured_s if measured_s > 0 else 0.0,
                "lag_ns": lag(same),
                "histogram": None,
                **latencies(same, PERCENTILES),
                "scripts": scripts_of_end([script for phase in same for script in phase["scripts"]]),
            }
        )
    return merged


def _errors(errors: Sequence[Event]) -> list[Event]:
    by_text: dict[tuple[str | None, str, bool], Event] = {}
    for error in errors:
        known = by_text.setdefault((error["sqlstate"], error["message"], "refused" in error), {**error, "count": 0})
        known["count"] += error["count"]
    return sorted(by_text.values(), key=lambda error: -error["count"])


def _intersect(each: Sequence[Sequence[Sequence[int]]]) -> list[list[int]]:
    common = [list(one) for one in each[0]]
    for other in each[1:]:
        cuts = [(max(a[0], b[0]), min(a[1], b[1])) for a in common for b in other]
        common = [[begin, end] for begin, end in cuts if begin < end]
    return sorted(common)
