"""A probe's samples on the trial's clock; what coincides with dips; cycles, activity, heatmaps, statements, curves."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pgdyno.analyse.histogram import LatencyHistogram
from pgdyno.analyse.over_time.dips import Cause, explained, trial_evidence
from pgdyno.analyse.over_time.probe_series import Probed, active_seconds, checkpoint_cycles, trial_activity
from pgdyno.analyse.over_time.timeline import Timeline, heatmap_of, timeline_of
from pgdyno.analyse.scaling import along
from pgdyno.analyse.summary import statement_shares, summarise
from pgdyno.records import EventOutcome, EventRecord, PlacedLines
from pgdyno.store import RunFolder, load_run, parquet
from pgdyno.store.trial_tables import SeriesRow, StatementRow, WaitRow
from tests.unit.events_sample import sample_events
from tests.unit.report_sample import SampleRun, interval_row, manifest, sweep
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


def causes(waits: Sequence[WaitRow], series: Sequence[SeriesRow] = (), **more: object) -> list[Cause]:
    (found,) = explained(timeline(), Probed(ORIGIN, waits, series), **more)  # type: ignore[arg-type]
    return [each.cause for each in found.coincidences]


@pytest.mark.parametrize(
    ("extra", "cause"),
    [
        (("client backend", "Lock", "transactionid", 2), Cause.LOCKS),
        (("client backend", "LWLock", "WALWrite", 2), Cause.COMMIT),
        (("client backend", "IO", "WalSync", 2), Cause.COMMIT),
        (("client backend", "LWLock", "BufferMapping", 2), Cause.LIGHT_LOCKS),
        (("client backend", "IO", "DataFileRead", 2), Cause.STORAGE),
        (("checkpointer", "IO", "DataFileSync", 1), Cause.CHECKPOINT),
    ],
)
def test_waits_that_are_more_than_in_quiet_seconds_coincide(extra: Sessions, cause: Cause) -> None:
    assert causes(looks(extra)) == [cause]
    # a state that lasts the whole trial explains no dip
    assert causes(looks(extra, seconds=range(120))) == []
    # of four sessions, a tenth is the least
    assert causes(looks((*extra[:3], 1), seconds=range(60, 61))) == []


def test_counters_and_events_coincide_too() -> None:
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
    probe = Probed(ORIGIN, looks(("client backend", "Lock", "tuple", 2)), counted("wal", "bytes", {10: 5, 11: 7}))
    assert probe.sessions((59, 61)) == {"CPU": 4, "Lock": 1}
    assert probe.sessions((60, 61), lambda row: row.wait) == {"tuple": 2}
    assert probe.looks((60, 61)) == 2
    assert (probe.amount("wal", "bytes", (9, 10)), probe.amount("wal", "bytes", (10, 11))) == (5, 7)
    assert probe.amount("io", "reads", (0, 10)) is None
    assert probe.amount("wal", "writes", (0, 10)) == 0


def test_active_sessions_stand_beside_throughput() -> None:
    found = active_seconds(timeline(), Probed(ORIGIN, looks(("client backend", "Lock", "tuple", 3)), ()))
    assert len(found) == 120
    assert (found[59].tps, found[59].sessions) == (1_000, {"CPU": 4})
    assert (found[60].tps, found[60].sessions) == (400, {"CPU": 4, "Lock": 3})


def test_cycles_go_from_checkpoint_to_checkpoint() -> None:
    series = counted("checkpoints", "timed", {30: 1, 90: 1}) + counted("checkpoints", "requested", {})
    series += counted("wal", "full_page_images", {32: 80, 60: 20})
    before, whole, after = checkpoint_cycles(timeline(), Probed(ORIGIN, (), series))
    assert [(each.from_s, each.to_s, each.whole) for each in (before, whole, after)] == [
        (0, 30, False), (30, 90, True), (90, 120, False),
    ]  # fmt: skip
    assert whole.tps == pytest.approx((54 * 1_000 + 6 * 400) / 60)
    assert (whole.full_page_images, after.full_page_images) == (0.8, None)


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


class _Told(SampleRun):
    """A run whose statements are these."""

    def statements(self, trial: int) -> list[StatementRow]:
        told = (("BEGIN", 100, 1e5), ("UPDATE", 100, 7e5), ("never", 0, None), ("END", 100, 2e5))
        return [
            StatementRow(trial, 0, at, at + 1, text, count, 0, mean, None, None, None, None)
            for at, (text, count, mean) in enumerate(told)
        ]


def test_statements_come_by_the_time_that_they_took() -> None:
    found = statement_shares(_Told(manifest(trials_planned=1)), 1)
    assert [(each.text, round(each.share, 3)) for each in found] == [("UPDATE", 0.7), ("END", 0.2), ("BEGIN", 0.1)]
    assert found[0].total_s == pytest.approx(0.07)


def test_points_lie_along_any_parameter() -> None:
    run = sweep(clients=(1, 2, 4), seconds=2)
    points = summarise(run)
    curves = along(points, "clients")
    assert [curve.values for curve in curves] == [(1, 2, 4)] * len({point.series for point in points})
    assert along(points, "scale") == []
    first = points[0]
    sizes = [first.point.model_copy(update={"settings": {"work_mem": size}}) for size in ("8", "64", "16")]
    swept = [replace(first, point=at) for at in sizes]
    (curve,) = along(swept, "settings.work_mem")
    assert curve.values == (8, 16, 64)


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
    assert trial_evidence(run, 1) is not None
    assert trial_activity(run, 1) is not None
