"""A probe's samples within parts of trials: sums and rows by DuckDB, of many trials at once."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.records import PlacedLines, ProbeRecord
from pgdyno.report.numbers import NOTHING
from pgdyno.report.sections.statement_tables import growth_table
from pgdyno.store import RunData, RunFolder, load_run
from pgdyno.store.probe_queries import server_statement_sums, table_sums
from pgdyno.store.probe_tables import write_probed
from tests.unit.store_sample import add_trial, sample_manifest

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
