"""A probe's samples on the trial's clock; what coincides with dips; heatmaps; loads in the background."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pgdyno.analyse.histogram import LatencyHistogram
from pgdyno.analyse.over_time.dips import Cause, explained
from pgdyno.analyse.over_time.probe_series import Probed, Span, background_figures
from pgdyno.analyse.over_time.timeline import Timeline, heatmap_of, timeline_of
from pgdyno.records import EventOutcome, EventRecord, PlacedLines
from pgdyno.store import RunFolder, load_run, parquet
from pgdyno.store.trial_tables import SeriesRow, WaitRow
from tests.present import present
from tests.unit.events_sample import blob_of, sample_events
from tests.unit.report_sample import interval_row
from tests.unit.store_sample import SETTINGS, sample_manifest, sample_record, seconds_of_rows

ORIGIN = 250_000
Sessions = tuple[str, str, str | None, int]
"""Backend type, type of wait, wait, sessions."""


def timeline(dip: tuple[int, int] = (60, 66)) -> Timeline:
    rates = [400 if dip[0] <= at < dip[1] else 1_000 for at in range(120)]
    return timeline_of(1, seconds_of_rows(interval_row(1, at, "measure", rate) for at, rate in enumerate(rates)))


def looks(*extra: Sessions, seconds: range = range(60, 66)) -> list[WaitRow]:
    """Returns two samples a second: four clients compute; in `seconds`, `extra` are added."""
    rows = []
    for half in range(240):
        t_us = ORIGIN + half * 500_000 + 100
        there: list[Sessions] = [("client backend", "CPU", None, 4)]
        there += extra if half // 2 in seconds else ()
        rows += [WaitRow(1, t_us, 0, kind, of, wait, None, sessions) for kind, of, wait, sessions in there]
    return rows


def counted(source: str, metric: str, values: dict[int, float], labels: str = "{}") -> list[SeriesRow]:
    """A counter's amounts, each at the end of its second."""
    return [
        SeriesRow(1, ORIGIN + at * 1_000_000, 0, 1_000_000, source, metric, labels, values.get(at, 0.0))
        for at in range(1, 121)
    ]


class _Sums(dict[Span, tuple[int, Sequence[WaitRow]]]):
    """Adds up samples of sessions within any stretch, as the store does."""

    def __init__(self, rows: Sequence[WaitRow]) -> None:
        self.rows = rows

    def get(self, span: Span, _default: object = None) -> tuple[int, Sequence[WaitRow]]:
        begin, end = (ORIGIN + each * 1e6 for each in span)
        inside = [row for row in self.rows if begin <= row.t_us < end]
        return len({row.t_us for row in inside}), inside


def causes(waits: Sequence[WaitRow], series: Sequence[SeriesRow] = (), **more: object) -> list[Cause]:
    (found,) = explained(timeline(), Probed(ORIGIN, series, _Sums(waits)), **more)  # type: ignore[arg-type]
    return [each.cause for each in found.coincidences]


def test_waits_counters_and_events_coincide() -> None:
    for extra, cause in (
        (("client backend", "Lock", "transactionid", 2), Cause.LOCKS),
        (("client backend", "LWLock", "WALWrite", 2), Cause.COMMIT),
        (("client backend", "IO", "WalSync", 2), Cause.COMMIT),
        (("client backend", "LWLock", "BufferMapping", 2), Cause.LIGHT_LOCKS),
        (("client backend", "IO", "DataFileRead", 2), Cause.STORAGE),
        (("checkpointer", "IO", "DataFileSync", 1), Cause.CHECKPOINT),
    ):
        assert causes(looks(extra)) == [cause]
        # a state that lasts the whole trial explains no dip
        assert causes(looks(extra, seconds=range(120))) == []
        # of four sessions, a tenth is the least
        assert causes(looks((*extra[:3], 1), seconds=range(60, 61))) == []
    dip = range(61, 67)
    assert causes(looks()) == []
    assert causes(looks(), counted("cpu", "steal", dict.fromkeys(dip, 0.3))) == [Cause.STEAL]
    assert causes(looks(), counted("wal", "full_page_images", dict.fromkeys(dip, 500))) == [Cause.FULL_PAGES]
    assert causes(looks(), counted("checkpoints", "sync_time", {67: 4_000})) == [Cause.CHECKPOINT]
    vacuum = [row for row in counted("vacuum", "blocks", {}) if 61 <= (row.t_us - ORIGIN) / 1e6 <= 66]
    assert causes(looks(), vacuum) == [Cause.VACUUM]
    event = EventRecord(number=1, do="checkpoint", at_s=60, began_s=60.1, seconds=1, outcome=EventOutcome.DONE)
    assert causes(looks(), events=[event]) == [Cause.PLANNED]
    assert causes(looks(), events=[event.model_copy(update={"began_s": 100.0})]) == []
    assert causes(looks(), worker_shares=[(62.0, 63.0, 0.95)]) == [Cause.GENERATOR]


def test_means_are_over_looks_and_amounts_over_the_samples_that_end_in_a_span() -> None:
    sums = _Sums(looks(("client backend", "Lock", "tuple", 2)))
    probe = Probed(ORIGIN, counted("wal", "bytes", {10: 5, 11: 7}), sums)
    assert probe.sessions((59, 61)) == {"CPU": 4, "Lock": 1}
    assert probe.sessions((60, 61), lambda row: row.wait) == {"tuple": 2}
    assert probe.looks((60, 61)) == 2
    assert (probe.amount("wal", "bytes", (9, 10)), probe.amount("wal", "bytes", (10, 11))) == (5, 7)
    assert probe.amount("io", "reads", (0, 10)) is None
    assert probe.amount("wal", "writes", (0, 10)) == 0
    rows = counted("cpu", "steal", {10: 0.2}, '{"cpu": "0"}') + counted("cpu", "steal", {10: 0.1})
    both = Probed(ORIGIN, sorted(rows, key=lambda row: row.t_us), {})
    assert both.mean("cpu", "steal", (9, 10)) == pytest.approx(0.3)


def test_a_heatmap_counts_every_transaction_once() -> None:
    steps = {
        0.0: LatencyHistogram(np.array([1_000_000, 2_500_000]), np.array([3, 4])),
        1.0: LatencyHistogram(np.array([40_000_000]), np.array([5])),
        2.0: None,
    }
    heat = heatmap_of(steps, 3.0)
    assert heat.counts.sum() == 12
    assert (heat.seconds, heat.counts[2].sum()) == ((0.0, 1.0, 2.0), 0)
    assert len(heat.edges_ns) == heat.counts.shape[1] + 1
    for at, (latency, count) in ((0, (1_000_000, 3)), (0, (2_500_000, 4)), (1, (40_000_000, 5))):
        place = next(place for place in range(heat.counts.shape[1]) if latency < heat.edges_ns[place + 1] * 0.999)
        assert heat.counts[at, place] == count


def test_of_a_long_trial_only_needed_series_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, events = RunFolder.create(tmp_path, sample_manifest()), sample_events(4, 2, 500, 900)
    record = sample_record(1, events)
    writer = folder.begin_trial(record.slug)
    samples = [("processes", 40), ("cpu", 1), ("probe", 1)]
    lines = [
        {"event": "sample", "t_us": 1_000_000 * second, "wall_us": 0, "span_us": 1_000_000, "source": source,
         "rows": [{"labels": {"pid": str(pid)}, "values": {"steal": 0.1}} for pid in range(count)]}
        for second in range(1, 30) for source, count in samples
    ]  # fmt: skip
    writer.probe_lines.write_text("".join(json.dumps(line) + "\n" for line in lines))
    writer.commit(record, events=events, settings=SETTINGS, probed=[PlacedLines(writer.probe_lines, 0)])
    run = load_run(folder.path)
    monkeypatch.setattr(parquet, "MOST_READ", 1_000)
    assert len(run.series(1, ["cpu"])) == 29


# ---- loads in the background: which seconds count, and their figures ----

SECOND = 1_000_000
START = {"event": "start", "seed": 5, "workers": 1, "epoch_us": 0}


def engine(origin_us: int, intervals: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the events of an engine whose load began at `origin_us` since 1970."""
    connected = {"event": "connected", "origin_us": origin_us - 100}
    return [{**START, "epoch_us": 100}, connected, *intervals, {"event": "end", "workers": [{}, {}]}]


def interval(second: int, latencies: list[tuple[int, int]], phase: str = "measure", failed: int = 0) -> dict[str, Any]:
    count = sum(each for _, each in latencies)
    values = [latency for latency, _ in latencies]
    sums = {
        "sum": sum(latency * each for latency, each in latencies),
        "sum_of_squares": sum(latency * latency * each for latency, each in latencies),
    }
    figures = {**sums, "min": min(values, default=0), "max": max(values, default=0)} if count else None
    histogram = blob_of(tuple(latencies)).decode() if count else None
    counts = {"succeeded": count, "failed": failed, "skipped": 0}
    script = {**counts, "latency_ns": figures, "histogram": histogram}
    times = {"from_us": second * SECOND, "to_us": (second + 1) * SECOND}
    return {"event": "interval", "phase": phase, **times, "scripts": [script]}


def main_load() -> list[dict[str, Any]]:
    """Begins at 10 s, warms up for a second, measures for three."""
    phases = ["warm-up", "measure", "measure", "measure", "drain"]
    return engine(10 * SECOND, [interval(at, [(1000, 1)], phase) for at, phase in enumerate(phases)])


def test_whole_seconds_within_the_measured_part_count() -> None:
    # at 8.4, 9.4, ... 15.4 s; 11.4 to 12.4 and 12.4 to 13.4 lie within 11 to 14
    replica = engine(8_400_000, [interval(at, [(1000 * (at + 1), 100)], failed=at) for at in range(8)])
    found = present(background_figures("pgdyno_1", 3, replica, main_load()))
    assert (found.name, found.clients, found.seed, found.workers) == ("pgdyno_1", 3, 5, 2)
    assert (found.measured_s, found.succeeded, found.failed, found.tps) == (2.0, 200, 7, 100.0)
    latency = present(found.latency_ns)
    assert (latency.min, latency.max, latency.mean, latency.stddev) == (4000, 5000, 4500, 500)
    assert latency.p50 == pytest.approx(4000, rel=0.001)
    assert latency.p99 == pytest.approx(5000, rel=0.001)
    assert present(latency.p9999) <= present(latency.max)
    # a phase without a result is a gap
    phases = ["measure", "warm-up", "measure"]
    trial = engine(0, [interval(at, [(1, 1)], phase) for at, phase in enumerate(phases)])
    found = present(background_figures("a", 1, engine(0, [interval(at, [(9, 10**at)]) for at in range(3)]), trial))
    assert (found.measured_s, found.succeeded) == (2.0, 101)
    trial = engine(0, [interval(0, [(1, 1)])])
    found = present(background_figures("a", 1, engine(500_000, [interval(0, [(1, 1)])]), trial))
    assert (found.measured_s, found.tps, found.latency_ns) == (0, None, None)
    # a standstill is no throughput
    found = present(background_figures("a", 1, engine(0, [interval(0, [])]), trial))
    assert (found.tps, found.latency_ns) == (0, None)
    assert background_figures("a", 1, [], main_load()) is None
    assert background_figures("a", 1, [START, {"event": "end"}], main_load()) is None
