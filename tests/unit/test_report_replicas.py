"""Standbys in reports: a row per trial and standby, apart from the figures of the primary."""

from pgdyno.records import BackgroundFigures, ProbeRecord, ReplicaLag, StandbyProbeRecord, TrialRecord
from pgdyno.report.run_notes import background_table, replica_table
from pgdyno.report.table import Table, first_rows
from pgdyno.report.terminal.block_lines import table_lines
from pgdyno.report.terminal.summary_file import Layout
from tests.unit.report_sample import latency_of
from tests.unit.store_sample import trial_record

LOAD = BackgroundFigures(
    name="pgdyno_1", clients=2, measured_s=4, succeeded=8000, failed=3, skipped=0, tps=2000,
    latency_ns=latency_of(((500_000, 99), (2_000_000, 1))), seed=1, workers=1,
)  # fmt: skip
LAG = ReplicaLag(
    name="pgdyno_1", sync_state="async", samples=5, bytes_last=10, bytes_max=12_300,
    write_lag_max_s=None, flush_lag_max_s=None, replay_lag_max_s=0.0045, replay_lag_last_s=None,
)  # fmt: skip


PROBE = StandbyProbeRecord(name="pgdyno_1", active=1.25, waits={"startup: CPU": 2.0, "IO:DataFileRead": 1.25})


def trial(number: int, loads: list[BackgroundFigures], lags: list[ReplicaLag]) -> TrialRecord:
    return trial_record(number, background=loads, replication=lags)


def test_a_row_has_how_far_a_standby_was_behind() -> None:
    quiet = LAG.model_copy(update={"name": "pgdyno_2", "bytes_max": None, "replay_lag_max_s": None})
    probed = {"probe": ProbeRecord(standbys=[PROBE])}
    table = replica_table([trial(3, [LOAD], [LAG, quiet]).model_copy(update=probed)])
    assert table is not None
    assert table.rows == (
        ("3", "pgdyno_1", "12.3", "4.50", "1.2", "startup: CPU 2.0"),
        ("3", "pgdyno_2", *["–"] * 4),  # noqa: RUF001
    )
    lines = table_lines(table, Layout(80))
    assert len(lines) == 4
    assert max(map(len, lines)) <= 80


def test_a_row_has_what_ran_in_the_background() -> None:
    idle = LOAD.model_copy(update={"name": "idle", "tps": 0.0, "latency_ns": None, "failed": 0})
    # an earlier version called it by the standby
    older = trial(3, [LOAD, idle], []).model_dump(mode="json")
    older["replica_load"] = older.pop("background")
    table = background_table([TrialRecord.model_validate(older)])
    assert table is not None
    assert table.rows == (
        ("3", "pgdyno_1", "2", "2,000", "0.500", "0.500", "3"),
        ("3", "idle", "2", "0", "–", "–", "0"),  # noqa: RUF001
    )
    assert background_table([trial(1, [], [LAG])]) is None


def test_without_standbys_there_is_nothing() -> None:
    assert replica_table([trial(1, [], [])]) is None


def test_a_terminal_gets_the_first_of_many() -> None:
    table = replica_table([trial(number, [LOAD], [LAG]) for number in range(1, 31)])
    assert table is not None
    shown, more = first_rows(table, 12)
    assert isinstance(shown, Table)
    assert (len(shown.rows), more) == (12, "and 18 more in the HTML report")
