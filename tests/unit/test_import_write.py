"""Documents, tables and logs become ordinary run folders, with every output and figure, and nothing invented."""

import csv
import io
import json
import random
import re
import statistics
from collections.abc import Mapping
from pathlib import Path

import pytest

from pgdyno.errors import StoreError, UsageError
from pgdyno.importers.csv_tables import OURS, mapping_of
from pgdyno.importers.write import import_files
from pgdyno.messages import Message
from pgdyno.published import COLUMNS, published
from pgdyno.records import Latency, Outcome
from pgdyno.records.rate_unit import NEW_ORDERS, rate_unit
from pgdyno.report.export import CSV_HEADER, to_csv, to_json
from pgdyno.report.numbers import format_count
from pgdyno.report.report_content import NO_EXTRAS, digest
from pgdyno.report.report_tables import trial_table
from pgdyno.report.sections.every_point import points_table
from pgdyno.report.sections.key_figures import peaks_table
from pgdyno.store import RunData, load_run
from tests.present import present
from tests.unit import documents_sample as documents
from tests.unit.import_sample import SUMMARY, fields, import_texts, imported_run

REPORTS = {
    "graviton-pgbench": (documents.pgbench_report, 12),
    "hundred-billion": (documents.statements_report, 3),
    "power8-select-only": (documents.peaks_report, 36),
}


def table_run(folder: Path, text: str, *pairs: str) -> RunData:
    return imported_run(folder, text, names=["t.csv"], mapping=mapping_of(pairs))


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, RunData]:
    folder = tmp_path_factory.mktemp("reports")
    return {name: imported_run(folder / name, make()) for name, (make, _) in REPORTS.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", REPORTS)
def test_a_published_report_imports_whole(name: str, reports: Mapping[str, RunData]) -> None:
    run, (_, count) = reports[name], REPORTS[name]
    assert len(run.trials) == count
    assert present(run.manifest.imported).unread == []
    compared = ("clients", "tps", "tpm", "latency_mean_ms", "latency_p95_ms", "latency_min_ms")
    want = [{column: row[column] for column in compared if column in row} for row in published(name).rows]
    # of pgbench's two rates, the one that later versions print, too
    want = [
        each | {"tps": row.get("tps_excluding_connections", row["tps"])} if "tps" in row else each
        for each, row in zip(want, published(name).rows, strict=True)
    ]
    figures = fields(run.trials, "imported.figures")
    got = [{column: value for column, value in each.items() if column in compared} for each in figures]
    # prose repeats two peaks without their latencies, which the table of figures does not
    assert all(each in got for each in want)
    assert run.manifest.outcome is Outcome.FINISHED
    assert all(trial.repeat == 1 for trial in run.trials), "no two outputs are taken for one point"


TPM = "# 測定結果\n\n- r5.2xlarge (vCPU)\n\n接続数\tTPM\t\n\tEC2\tRDS\n32\t6000\t7200\n\n"


def test_what_a_report_tells_is_kept(reports: Mapping[str, RunData], tmp_path: Path) -> None:
    pgbench, statements, peaks = reports.values()
    tpm = imported_run(tmp_path, TPM * 2)
    # figures that were not printed are none
    trial = tpm.trials[0]
    assert (tpm.manifest.host, tpm.manifest.pgdrive, trial.started_at, trial.point.protocol) == (None, None, None, "")
    summary = present(trial.summary)
    assert (summary.latency_ns, summary.succeeded, summary.measured_s) == (None, None, None)
    assert summary.tps == 100
    (note,) = tpm.manifest.messages
    assert isinstance(note, Message)
    assert (note.id, note.parameters) == ("rate-per-minute", {"count": 4, "unit": "tpm"})
    assert tpm.manifest.notes == ["throughput of 4 trials was printed as tpm, and is shown divided by 60"]
    # tables of the same names do not collide
    assert fields(tpm.manifest.targets, "name") == ["EC2", "RDS", "EC2 (2)", "RDS (2)"]
    # a trial says where its figures stood
    (sweep,) = imported_run(tmp_path, "thc min avg max p95 tps\n 2 19.10 20.41 235.45 20.74 97.98\n").trials
    assert present(sweep.imported).printed["latency_p95_ms"].line == 2
    latency = Latency(mean=20.41e6, min=19_100_000, max=235_450_000, p95=20_740_000)
    assert present(sweep.summary).latency_ns == latency
    # lengths of trials are points, not repeats
    assert {trial.point.variables["transactions"] for trial in pgbench.trials} >= {"5000", "90000"}
    # the scale of a script is what the command says
    assert {trial.point.scale for trial in statements.trials} == {1_000_000}
    assert statements.statements(1)[-1].text == "END;"
    assert {row.executions for row in statements.statements(1)} == {None}
    # conditions that a document tells
    told = present(peaks.manifest.imported)
    assert fields(told.facts["sweep"], "text") == ["-c clients [2..160]"]
    assert (told.facts["tmpfs"][0].line, len(told.claims)) == (3, 8)


def test_a_file_is_read_once_and_what_was_imported_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    monkeypatch.setattr("os.sync", lambda: synced.append(True))
    text = documents.statements_report()
    places = [tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "other.txt"]
    for place in places:
        place.write_text(text if place.name != "other.txt" else f"{text}\n", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to(places[0])
    twice = [*places, places[0], tmp_path / ".." / tmp_path.name / "a.txt", tmp_path / "link.txt"]
    found = import_files(twice, tmp_path / "runs", target="srv")
    assert synced == [True]
    once = import_files([places[0], places[2]], tmp_path / "runs", target="srv")
    assert found.trials == once.trials
    manifest = load_run(found.run).manifest
    assert {target.name.split(",")[0] for target in manifest.targets} == {"srv"}
    assert [Path(each.path).name for each in present(manifest.imported).files] == ["a.txt", "other.txt"]
    (note,) = [note for note in found.notes if note.id == "copies-left-out"]
    assert note.parameters["count"] == 4
    assert str(note).startswith("4 files are copies of others and were left out: ")
    assert f"{places[1]} ({places[0]})" in str(note)
    assert str(note) in manifest.notes
    assert "copies-left-out" not in {note.id for note in once.notes}
    log = tmp_path / "pgbench_log.7"
    transaction_log(log, 0, [500, 600, 700])
    found = import_files([log, log, str(log)], tmp_path / "runs")
    assert (found.trials, fields(found.notes, "id")) == (1, ["copies-left-out"])
    assert fields(load_run(found.run).trials, "summary.succeeded") == [3]


# ---- CSV ----


def test_our_own_export_comes_back(reports: Mapping[str, RunData], tmp_path: Path) -> None:
    first = reports["graviton-pgbench"]
    again = table_run(tmp_path, to_csv(first))
    compared = "target summary.latency_ns summary.tps point.clients"
    assert fields(again.trials, compared) == fields(first.trials, compared)
    # new orders stay new orders
    text = to_csv(table_run(tmp_path, "target,clients,nopm\na,8,60000\n"))
    assert [row["tps_counts"] for row in csv.DictReader(io.StringIO(text))] == ["new orders"]
    (trial,) = table_run(tmp_path, text).trials
    figures = present(trial.imported).figures
    assert (present(trial.summary).tps, rate_unit(trial), figures["nopm"]) == (1_000.0, NEW_ORDERS, 60_000.0)


def test_a_column_without_a_name_is_listed_if_it_has_cells(tmp_path: Path) -> None:
    for text, unread in (
        # as spreadsheets write it
        ("target,tps,\na,1,\n", []),
        ("target,,tps\na,x,1\n", ["column 2 has no name, and is not read"]),
    ):
        assert fields(import_texts(tmp_path, text, names=["t.csv"]).unread, "text") == unread


def test_columns_have_one_meaning_and_other_words_are_mapped(tmp_path: Path) -> None:
    for name, mapping in (("tps", ()), ("rate_b", ("tps=rate_b",))):
        with pytest.raises(UsageError, match=f"several columns of the table are tps: 'tps', '{name}'"):
            table_run(tmp_path, f"target,tps,{name}\na,1,2\n", *mapping)
    for pair in ("clients", "nothing=x", "clients="):
        with pytest.raises(UsageError, match="--map"):
            mapping_of([pair])
    # every column of ours needs no mapping
    assert {*CSV_HEADER, *COLUMNS} <= OURS
    text = "system;Threads;tps;mood\na;8;100.5;good\na;16;x;bad\n"
    run = table_run(tmp_path, text, "target=system", "clients=Threads")
    assert fields(run.trials, "target point.clients") == [("a", 8)]
    assert fields(present(run.manifest.imported).unread, "line") == [1, 3]


def test_seconds_of_a_run_are_no_repeats_and_lengths_of_runs_no_seconds(tmp_path: Path) -> None:
    for table in (
        "Sekunde;tps\n1;1005,9\n2;1011,2\n",
        "timestamp,target,tps\n2026-11-27T12:00:01Z,a,1005.9\n2026-11-27T12:00:02Z,a,1011.2\n",
        "epoch,clients,tps\n1700000001,8,1005.9\n1700000002,8,1011.2\n",
    ):
        column = re.split("[,;]", table)[0]
        with pytest.raises(StoreError) as caught:
            table_run(tmp_path, table)
        told = f"the rows are moments of one run (column '{column}'): import its summary; if they are runs, name it"
        assert f"t.csv:1: {told}" in str(caught.value.hint)
        assert len(table_run(tmp_path, table, f"repeat={column}").trials) == len(table.splitlines()) - 1
    # rows with the lengths or times of runs are trials
    for table in (
        "timestamp,clients,tps\n1700000001,8,1005.9\n1700000300,16,1011.2\n",
        "timestamp,host,tps\n1700000001,a,1005.9\n1700000300,b,1011.2\n",
        "time,repeat,tps\n12:00,1,1005.9\n13:00,2,1011.2\n",
    ):
        assert fields(table_run(tmp_path, table).trials, "summary.tps") == [1005.9, 1011.2]


def test_a_table_has_one_decimal_sign(tmp_path: Path) -> None:
    for separator, row, figures in (
        (";", "pg17;8;456,789;17,514;21,3", (456.789, 17.514, 21.3)),
        (";", "pg17;8;456,789;17,514;21,345", (456.789, 17.514, 21.345)),
        (";", "pg17;8;456.789;17.514;21.3", (456.789, 17.514, 21.3)),
        (";", "pg17;8;456,789;17.514;21.3", (456_789, 17.514, 21.3)),
        ("\t", "pg17\t8\t1.456,789\t17,514\t21", (1456.789, 17.514, 21)),
        (",", 'pg17,8,"456,789",17.514,21.3', (456_789, 17.514, 21.3)),
        (",", 'pg17,8,"456,789","17,514","21,3"', (456.789, 17.514, 21.3)),
    ):
        head = separator.join(["target", "clients", "tps", "latency_mean_ms", "p95_ms"])
        (found,) = fields(table_run(tmp_path, f"{head}\n{row}\n").trials, "imported.figures")
        assert (found["tps"], found["latency_mean_ms"], found["latency_p95_ms"]) == figures


@pytest.mark.parametrize("name", ["cpu.user", "latency.avg", "tps.max", "words.x", "asked.x", "shown.x", "."])
def test_a_column_with_a_dot_is_unknown_unless_it_is_ours(name: str, tmp_path: Path) -> None:
    run = table_run(tmp_path, f"target,clients,tps,{name},settings.jit\npg17,8,1000,55,off\n")
    assert fields(run.trials, "point.settings imported.words imported.load") == [({"jit": "off"}, {}, {})]
    assert fields(present(run.manifest.imported).unread, "id") == ["column-unknown"]


def test_files_without_a_possible_figure_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no output of a known tool"):
        import_texts(tmp_path, "nothing but prose\n")
    assert not (tmp_path / "runs").exists()
    figure = "99999999999999999999"
    for name, text in (
        ("t.csv", "target,clients,tps\npg17,{},1000\n"),
        ("t.csv", "target,clients,tps,p99_ms\npg17,8,1000,{}\n"),
        ("t.md", "| clients | tps |\n|---|---|\n| 8 | {} |\n"),
        ("t.json", '{{\n "Throughput (requests/second)": 100.5,\n "terminals": "{}",\n "scalefactor": 1\n}}\n'),
    ):
        with pytest.raises(StoreError, match="no output of a known tool") as caught:
            import_texts(tmp_path, text.format(figure), names=[name])
        assert figure in str(caught.value.hint)


# ---- logs ----


def transaction_log(path: Path, client: int, latencies: list[int], *, start_us: int = 1_700_000_000_250_000) -> None:
    at, lines = start_us, []
    for number, latency in enumerate(latencies):
        at += latency
        lines.append(f"{client} {number} {latency} 0 {at // 1_000_000} {at % 1_000_000}\n")
    path.write_text("".join(lines))


def test_a_transaction_log_gives_exact_counts_and_percentiles_to_three_digits(tmp_path: Path) -> None:
    chance = random.Random(7)
    by_client = [[chance.randrange(200, 90_000) for _ in range(2000)] for _ in range(2)]
    files = [tmp_path / "pgbench_log.99", tmp_path / "pgbench_log.99.1"]
    for client, (file, latencies) in enumerate(zip(files, by_client, strict=True)):
        transaction_log(file, client, latencies)
    with files[0].open("a") as log:
        log.write("0 2000 skipped 0 1700000080 5\n0 2001 deadlock 0 1700000080 6\n")
    (trial,) = (run := load_run(import_files(files, tmp_path / "runs").run)).trials
    every = sorted(latency for latencies in by_client for latency in latencies)
    summary = present(trial.summary)
    assert (summary.succeeded, summary.skipped, summary.failed, summary.scheduled) == (4000, 1, 1, 4002)
    assert (trial.point.clients, trial.point.workers) == (2, 2)
    latency = present(summary.latency_ns)
    assert latency.mean == pytest.approx(statistics.fmean(every) * 1000)
    assert latency.stddev == pytest.approx(statistics.pstdev(every) * 1000)
    assert (latency.min, latency.max) == (every[0] * 1000, every[-1] * 1000)
    assert latency.p99 == pytest.approx(every[int(0.99 * 4000) - 1] * 1000, rel=1e-3)
    assert summary.measured_s == pytest.approx(max(sum(each) for each in by_client) / 1e6, abs=10)
    rows = run.intervals(1)
    assert sum(row.succeeded for row in rows) == 4000
    assert [row.second for row in rows] == sorted({row.second for row in rows})
    assert rows[0].to_us == 750_000, "the first second of a clock is not a whole one"
    # one with a broken line is refused
    transaction_log(tmp_path / "pgbench_log.5", 0, [500, 600, 700])
    with (tmp_path / "pgbench_log.5").open("a") as broken:
        broken.write("0 3 garbage\n")
    with pytest.raises(StoreError, match="cannot read the log"):
        import_files([tmp_path / "pgbench_log.5"], tmp_path / "runs")


HAMMERDB = """\
Vuser 1:1 Active Virtual Users configured
Vuser 1:TEST RESULT : System achieved 9000 NOPM from 20000 PostgreSQL TPM
"""
PGBENCH_13 = SUMMARY.replace("without initial connection time", "including connections establishing").replace(
    "initial connection time = 397.804 ms\n", ""
)


def test_retries_and_failures_that_were_not_counted_are_not_none(tmp_path: Path) -> None:
    for text, name, retries, failed in (
        ("target,clients,tps\na,4,1000\n", "figures.csv", None, None),
        ("target,clients,tps,retried,retries,errors\na,4,1000,2,3,4\n", "figures.csv", 3, 4),
        ("target,clients,tps,errors\na,4,1000,0\n", "figures.csv", None, 0),
        (HAMMERDB, "report.txt", None, None),
        # it ends a client at its first failure, and prints that; without --max-tries, there are no retries
        (PGBENCH_13, "report.txt", 0, 0),
    ):
        run = imported_run(tmp_path, text, names=[name])
        ((*counted, scheduled),) = fields(run.trials, "summary.retries summary.failed summary.scheduled")
        assert counted == [retries, failed]
        of = digest(run)
        table = trial_table(of)
        assert table.rows[0][table.headings.index("retries")] == format_count(retries)
        (row,) = csv.DictReader(io.StringIO(to_csv(run)))
        assert row["retries"] == ("" if retries is None else str(retries))
        cell = format_count(failed)
        for table in (points_table(of), trial_table(of)):
            assert table.rows[0][table.headings.index("errors")] == cell
        (point,) = json.loads(to_json(of, NO_EXTRAS))["points"]
        assert (point["retries"], point["failed"], point["scheduled"]) == (retries, failed, scheduled)
        assert [row[-1] for row in peaks_table(of, NO_EXTRAS).rows] == [cell]
