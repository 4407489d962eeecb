"""Lines of the probe become tables, in the engine's time, though its host has another clock; parts of trials."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.probe.clock_offset import Round, align
from pgdyno.records import PlacedLines, ProbeRecord
from pgdyno.report.numbers import NOTHING
from pgdyno.report.sections.statement_tables import growth_table
from pgdyno.store import RunData, RunFolder, load_run
from pgdyno.store.probe_queries import series_steps, server_statement_sums, table_sums
from pgdyno.store.probe_tables import write_probed
from pgdyno.store.trial_tables import ServerStatementRow, StandbyWaitRow, columns
from tests.present import present
from tests.unit.events_sample import ORIGIN_US, sample_events
from tests.unit.store_sample import SETTINGS, add_trial, sample_manifest, sample_record

NAMES = ("series", "waits", "standby_series", "standby_waits")
LABELS = {"query_id": "-7000000000000000001", "user": "ann", "database": "shop"}


def test_statements_are_a_row_each_and_what_a_version_lacks_is_null(tmp_path: Path) -> None:
    row = {"labels": LABELS, "values": {"calls": 3, "rows": 6, "exec_time": 1.5}, "text": "SELECT $1"}
    said = [
        {"event": "start", "t_us": 0, "wall_us": 1},
        {"event": "statements", "t_us": 9_000_000, "wall_us": 9_000_001, "since_us": 1000, "rows": [row]},
    ]
    lines = tmp_path / "probe.jsonl"
    lines.write_text("".join(json.dumps(line) + "\n" for line in said) + '{"event":"statements","t_us":9')
    write_probed(tmp_path, 4, [PlacedLines(lines, -500)])
    table = duckdb.read_parquet(str(tmp_path / "server_statements.parquet"))
    assert table.columns == list(columns(ServerStatementRow))
    (found,) = table.fetchall()
    told = dict(zip(table.columns, found, strict=True))
    assert (told["trial"], told["since_us"], told["until_us"]) == (4, 500, 8_999_500)
    assert (told["query_id"], told["user"], told["text"]) == (-7000000000000000001, "ann", "SELECT $1")
    assert (told["calls"], told["rows"], told["exec_time_ms"], told["wal_bytes"]) == (3, 6, 1.5, None)
    assert duckdb.read_parquet(str(tmp_path / "waits.parquet")).fetchall() == []


def test_standbys_have_tables_of_their_own(tmp_path: Path) -> None:
    def write_lines(name: str, number: float) -> PlacedLines:
        look = {"backend_type": "startup", "wait_type": "CPU", "wait": None, "query_id": None, "sessions": 1}
        lines = [
            {"event": "start", "t_us": 0, "wall_us": 1},
            {"event": "waits", "t_us": 5, "wall_us": 6, "rows": [look]},
            {"event": "sample", "t_us": 7, "wall_us": 8, "source": "wal", "rows": [{"values": {"bytes": number}}]},
        ]
        path = tmp_path / name
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return PlacedLines(path, 100, standby=None if name == "primary" else name)

    write_probed(tmp_path, 2, [write_lines("primary", 1), write_lines("pgdyno_1", 2), write_lines("pgdyno_2", 3)])
    tables = {name: duckdb.read_parquet(str(tmp_path / f"{name}.parquet")) for name in NAMES}
    assert tables["series"].project("t_us, value").fetchall() == [(107, 1.0)]
    assert sorted(tables["standby_series"].project("standby, t_us, value").fetchall()) == [
        ("pgdyno_1", 107, 2.0),
        ("pgdyno_2", 107, 3.0),
    ]
    assert tables["standby_waits"].columns == list(columns(StandbyWaitRow))
    assert len(tables["standby_waits"]) == 2 * len(tables["waits"]) == 2


def test_a_sample_is_in_the_step_that_it_is_about(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, sample_manifest())
    events = sample_events(4, 4, 500, 900)
    record = sample_record(1, events).model_copy(update={"probe": ProbeRecord()})
    path = folder.begin_trial(record.slug).commit(record, events=events, settings=SETTINGS)
    lines = []
    for second in range(1, 5):
        # the probe samples just after the second
        at = {"t_us": ORIGIN_US + second * 1_000_000 + 300, "wall_us": 1, "span_us": 1_000_000}
        row = {"values": {"user": second / 10}}
        lines.append({**at, "event": "sample", "source": "cpu", "rows": [row]})
    probe = tmp_path / "probe.jsonl"
    probe.write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_probed(path, 1, [PlacedLines(probe, 0)])
    found = series_steps(load_run(folder), {1: 1_000_000})
    assert [(each.step, each.value) for each in found] == [(0, 0.1), (1, 0.2), (2, 0.3), (3, 0.4)]


_WRITE = """
import re, sys
from pathlib import Path
from pgdyno.records import PlacedLines
from pgdyno.store.probe_tables import write_probed
write_probed(Path(sys.argv[1]), 1, [PlacedLines(Path(sys.argv[1], "probe.jsonl"), 0)])
# ru_maxrss would start at the size of the process that started this one
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.long
def test_memory_hardly_grows_with_the_samples(tmp_path: Path) -> None:
    rows = [{"labels": {"pid": str(pid), "kind": "client backend"}, "values": {"cpu": pid}} for pid in range(200)]
    head = {"event": "sample", "wall_us": 0, "span_us": 1_000_000, "source": "processes"}

    def peak_kb(seconds: int) -> int:
        with (tmp_path / "probe.jsonl").open("w") as file:
            file.writelines(json.dumps({**head, "t_us": at, "rows": rows}) + "\n" for at in range(seconds))
        done = subprocess.run([sys.executable, "-c", _WRITE, tmp_path], capture_output=True, text=True, check=True)
        return int(done.stdout.split()[-1])

    # the second file has 80 MB more; two threads would need 500 MB more for it
    few, many = peak_kb(2_000), peak_kb(7_000)
    assert many < few + 200_000


S = 1_000_000
SCANNED = {"labels": {"table": "public.t"}}


def lines(trial: int) -> Iterator[Mapping[str, object]]:
    """Six seconds with a sample per second and sessions every half second; tables in the first and the last."""
    yield {"event": "start", "t_us": 0, "wall_us": 1}
    for second in range(1, 7):
        at: dict[str, object] = {"t_us": second * S, "wall_us": second * S}
        values = {"blocks_read": 10 * second, "blocks_hit": 1000}
        yield {**at, "event": "sample", "source": "database", "span_us": S, "rows": [{"values": values}]}
        for half in (0, S // 2):
            wait = {"backend_type": "client backend", "wait_type": "Lock", "wait": "tuple"}
            seen = [{**wait, "query_id": query, "sessions": trial} for query in (1, 2)]
            yield {**at, "t_us": second * S - half, "event": "waits", "rows": seen}
    for second, size, dead in ((1, 8000, 0), (6, 24000, 40)):
        values = {"size": size, "live_rows": 100, "updated": 50, "hot_updated": 20} | (
            {"dead_rows": dead} if dead else {}
        )
        rows = [{**SCANNED, "values": values}]
        yield {"t_us": second * S, "wall_us": 1, "event": "sample", "source": "relations", "span_us": S, "rows": rows}
    told = [
        {"labels": {"query_id": str(number)}, "text": f"SELECT {number}", "values": {"calls": 10, "exec_time": spent}}
        for number, spent in ((1, 30.0), (2, 90.0))
    ]
    yield {"t_us": 6 * S, "wall_us": 1, "event": "statements", "since_us": 0, "rows": told}


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    folder = RunFolder.create(tmp_path, sample_manifest())
    for number in (1, 2):
        path = add_trial(folder, number)
        said = tmp_path / "probe.jsonl"
        said.write_text("".join(json.dumps(each) + "\n" for each in lines(number)))
        write_probed(path, number, [PlacedLines(said, 0)])
    data = load_run(folder)
    probe = ProbeRecord(version="0", waits_hz=2, host=True, server=True)
    return RunData(data.folder, [trial.model_copy(update={"probe": probe}) for trial in data.trials])


def test_a_stretch_has_the_samples_that_end_in_it(run: RunData) -> None:
    wanted = [("database", "blocks_read"), ("paging", "read")]
    found = run.amounts_within({1: [(0, 2 * S), (4 * S, 6 * S)], 2: [(S, 3 * S), (60 * S, 70 * S)]}, wanted)
    read = {place: amounts["database", "blocks_read"] for place, amounts in found.items()}
    assert read == {(1, 0): 30, (1, 1): 110, (2, 0): 50}
    assert all(("paging", "read") not in amounts for amounts in found.values())
    # a metric that is left out as zero gained nothing
    found = run.amounts_within({1: [(0, 2 * S)]}, [("database", "temp_written")])
    assert found == {(1, 0): {("database", "temp_written"): 0}}
    # rows come by trial and time
    rows = run.series_within({2: [(2 * S, 4 * S)], 1: [(0, S)]}, [("database", "blocks_hit")])
    assert [(row.trial, row.t_us) for row in rows] == [(1, S), (2, 3 * S), (2, 4 * S)]
    assert {row.metric for row in rows} == {"blocks_hit"}
    ((looks, (row,)),) = run.sessions_within({2: [(S, 2 * S)], 1: [(60 * S, 61 * S)]}).values()
    # looks at 1 and 1.5 s, the end not among them; queries and looks are added up
    assert (row.trial, looks, row.wait, row.sessions) == (2, 2, "tuple", 8)
    assert run.series_within({}, [("database", "blocks_hit")]) == []


def test_tables_grow_and_statements_take_time(run: RunData) -> None:
    (table,) = table_sums(run, 2)
    assert (table.name, table.bytes, table.grown_bytes) == ("public.t", 24000, 16000)
    assert (table.live_rows, table.dead_rows, table.updated, table.hot_updated) == (100, 40, 100, 40)
    assert growth_table(2, [table, replace(table, grown_bytes=None, updated=None)]).rows[0][2] == "0.0160"
    # a standby has no counts; an empty table has none to show
    uncounted = [replace(table, live_rows=0.0, dead_rows=0.0, bytes=size) for size in (16e6, 16_384.0)]
    assert [row[3:5] for row in growth_table(2, uncounted).rows] == [(NOTHING, NOTHING), ("0", "0")]
    first, second = server_statement_sums(run, 1)
    assert (first.text, first.calls, first.spent_ms, first.all_ms) == ("SELECT 2", 10, 90.0, 120.0)
    assert second.wal_bytes is None


START_US = 1_795_000_000_000_000.0


def round_at(t_us: int, *, rate: float = 1.0, trip_us: float = 200.0, late: float = 0.5, skew_us: int = 0) -> Round:
    """Returns a round trip answered at the fraction `late` of its time, by a clock that runs at `rate`."""
    true_us = START_US + rate * t_us
    return Round(true_us + (0.5 - late) * trip_us, t_us, round(true_us) + skew_us, trip_us)


def test_rounds_tell_the_offset_and_distant_ones_the_drift() -> None:
    found = present(align([round_at(1_000_000, skew_us=-7_000)], 11_000_000))
    assert (found.drift_ppm, found.drift_uncertainty_ppm) == (None, None)
    assert found.ahead_us == -7_000
    # half a round trip, and 100 ppm for the ten seconds after it
    assert found.uncertainty_us == 100 + 1_000
    assert found.local_us(2_000_000) == START_US + 2_000_000
    found = present(align([round_at(0, rate=1 / 1.00005), round_at(100_000_000, rate=1 / 1.00005)], 100_000_000))
    assert found.drift_ppm == pytest.approx(50, abs=0.01)
    assert found.drift_uncertainty_ppm == pytest.approx(2)
    assert found.uncertainty_us == 100
    # rounds that lie together tell none, and without a round nothing is known
    found = present(align([round_at(0), round_at(900_000, late=0)], 900_000))
    assert (found.drift_ppm, found.rate) == (None, 1.0)
    assert align([], 5) is None


def test_a_round_that_contradicts_the_line_widens_the_uncertainty() -> None:
    between = round_at(50_000_000)
    straight = align([round_at(0), between, round_at(100_000_000)], 100_000_000)
    stepped = Round(between.local_us + 20_000, between.t_us, between.wall_us, between.round_trip_us)
    bent = present(align([round_at(0), stepped, round_at(100_000_000)], 100_000_000))
    assert present(straight).uncertainty_us == 100
    assert bent.uncertainty_us == pytest.approx(100 + 20_000 - 100)


@given(
    st.floats(0.999, 1.001),
    st.lists(st.tuples(st.floats(50, 50_000), st.floats(0, 1)), min_size=2, max_size=5),
    st.floats(0, 1),
)
def test_no_sample_is_farther_than_the_uncertainty(rate: float, trips: list[tuple[float, float]], where: float) -> None:
    rounds = [round_at(10_000_000 * at, rate=rate, trip_us=us, late=late) for at, (us, late) in enumerate(trips)]
    last_us = rounds[-1].t_us + 5_000_000
    found = present(align(rounds, last_us))
    t_us = where * last_us
    # times since 1970 have 0.25 us in a double
    assert abs(found.local_us(t_us) - (START_US + rate * t_us)) <= found.uncertainty_us + 2
