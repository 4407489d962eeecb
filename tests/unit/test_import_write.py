"""Documents, tables and logs become ordinary run folders, with every output and figure, and nothing invented."""

import csv
import io
import json
import random
import re
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from pgdyno.errors import StoreError, UsageError
from pgdyno.importers.csv_tables import OURS, mapping_of
from pgdyno.importers.write import import_files
from pgdyno.messages import Message
from pgdyno.published import COLUMNS, published
from pgdyno.records import Latency, Outcome, TrialRecord
from pgdyno.records.rate_unit import NEW_ORDERS, rate_unit
from pgdyno.report.export import CSV_HEADER, to_csv, to_json
from pgdyno.report.full_report import judged_run
from pgdyno.report.numbers import format_count
from pgdyno.report.report_content import NO_EXTRAS, digest
from pgdyno.report.report_tables import trial_table
from pgdyno.report.sections.every_point import points_table
from pgdyno.report.sections.key_figures import peaks_table
from pgdyno.report.terminal.run_report import print_report
from pgdyno.store import RunData, load_run
from tests.present import present
from tests.unit import documents_sample as documents
from tests.unit.report_sample import render_html


@pytest.fixture(autouse=True)
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Calls of sync(2), which would wait for what others on this machine have written, too."""
    calls: list[int] = []
    monkeypatch.setattr("os.sync", lambda: calls.append(len(calls)))
    return calls


def imported(tmp_path: Path, text: str, name: str = "report.txt", **options: object) -> RunData:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return load_run(import_files([file], tmp_path / "runs", **options).run)  # type: ignore[arg-type]


def figures(trial: TrialRecord) -> dict[str, float]:
    return present(trial.imported).figures


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make", "count"),
    [
        ("graviton-pgbench", documents.pgbench_report, 12),
        ("aurora-sysbench", documents.sweep_report, 80),
        ("hundred-billion", documents.statements_report, 3),
        ("power8-select-only", documents.peaks_report, 36),
        ("pgecons-tprocc", documents.tpm_report, 114),
    ],
)
def test_a_published_report_imports_whole(
    name: str, make: Callable[[], str], count: int, tmp_path: Path, synced: list[int]
) -> None:
    run = imported(tmp_path, make())
    assert len(synced) == 1, "what was imported is on disk"
    assert len(run.trials) == count
    assert present(run.manifest.imported).unread == []
    compared = ("clients", "tps", "tpm", "latency_mean_ms", "latency_p95_ms", "latency_min_ms")
    want = [{column: row[column] for column in compared if column in row} for row in published(name).rows]
    # of pgbench's two rates, the one that later versions print, too
    want = [
        each | {"tps": row.get("tps_excluding_connections", row["tps"])} if "tps" in row else each
        for each, row in zip(want, published(name).rows, strict=True)
    ]
    got = [{column: value for column, value in figures(trial).items() if column in compared} for trial in run.trials]
    # prose repeats two peaks without their latencies, which the table of figures does not
    assert all(each in got for each in want)
    assert run.manifest.outcome is Outcome.FINISHED
    assert all(trial.repeat == 1 for trial in run.trials), "no two outputs are taken for one point"
    # what `pgdyno show` and `pgdyno report` do
    of, extras = judged_run(run)
    print_report(of, Console(file=io.StringIO()), extras)
    assert "report.txt" in render_html(run, "there")
    assert len(to_csv(run).splitlines()) == count + 1


def test_figures_that_were_not_printed_are_none(tmp_path: Path) -> None:
    run = imported(tmp_path, documents.tpm_report())
    trial = run.trials[0]
    assert (run.manifest.host, run.manifest.pgdrive, trial.started_at) == (None, None, None)
    assert trial.summary is not None
    assert (trial.summary.latency_ns, trial.summary.succeeded, trial.summary.measured_s) == (None, None, None)
    assert trial.summary.tps == figures(trial)["tpm"] / 60
    assert trial.point.protocol == ""
    (note,) = run.manifest.messages
    assert isinstance(note, Message)
    assert (note.id, note.parameters) == ("rate-per-minute", {"count": 114, "unit": "tpm"})
    assert run.manifest.notes == ["throughput of 114 trials was printed as tpm, and is shown divided by 60"]


def test_a_trial_says_where_its_figures_stood(tmp_path: Path) -> None:
    text = documents.sweep_report()
    run = imported(tmp_path, text)
    trial = run.trials[0]
    assert trial.imported is not None
    printed = trial.imported.printed["latency_p95_ms"]
    assert text.splitlines()[printed.line - 1].split()[-1] == f"{trial.imported.figures['latency_p95_ms']:g}"
    assert present(trial.summary).latency_ns == Latency(mean=20.41e6, min=19_100_000, max=235_450_000, p95=20_740_000)


def test_lengths_of_trials_are_points_not_repeats(tmp_path: Path) -> None:
    run = imported(tmp_path, documents.pgbench_report())
    assert {trial.point.variables["transactions"] for trial in run.trials} >= {"5000", "90000"}


def test_the_scale_of_a_script_is_what_the_command_says(tmp_path: Path) -> None:
    run = imported(tmp_path, documents.statements_report())
    assert {trial.point.scale for trial in run.trials} == {1_000_000}
    assert [row.text for row in run.statements(1)][-1] == "END;"
    assert {row.executions for row in run.statements(1)} == {None}


def test_tables_of_the_same_names_do_not_collide(tmp_path: Path) -> None:
    run = imported(tmp_path, documents.tpm_report())
    names = [target.name for target in run.manifest.targets]
    assert len(names) == 18
    assert "EC2, r5.2xlarge, 測定結果その2" in names
    assert "EC2, r5.2xlarge, 測定結果その2 (2)" in names


def test_conditions_that_a_document_tells_are_kept(tmp_path: Path) -> None:
    told = present(imported(tmp_path, documents.peaks_report()).manifest.imported)
    assert [line.text for line in told.facts["sweep"]] == ["-c clients [2..160]"]
    assert told.facts["tmpfs"][0].line == 3
    assert len(told.claims) == 8


def test_a_target_can_be_named(tmp_path: Path) -> None:
    run = imported(tmp_path, documents.statements_report(), target="pg11")
    assert {target.name.split(",")[0] for target in run.manifest.targets} == {"pg11"}


def test_a_file_is_read_once(tmp_path: Path) -> None:
    text = documents.statements_report()
    places = [tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "other.txt"]
    for place in places:
        place.write_text(text if place.name != "other.txt" else f"{text}\n", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to(places[0])
    twice = [*places, places[0], tmp_path / ".." / tmp_path.name / "a.txt", tmp_path / "link.txt"]
    found = import_files(twice, tmp_path / "runs", target="srv")
    once = import_files([places[0], places[2]], tmp_path / "runs", target="srv")
    assert found.trials == once.trials
    manifest = load_run(found.run).manifest
    assert [Path(each.path).name for each in present(manifest.imported).files] == ["a.txt", "other.txt"]
    (note,) = [note for note in found.notes if note.id == "copies-left-out"]
    assert note.parameters["count"] == 4
    assert str(note).startswith("4 files are copies of others and were left out: ")
    assert f"{places[1]} ({places[0]})" in str(note)
    assert str(note) in manifest.notes
    assert "copies-left-out" not in {note.id for note in once.notes}


def test_a_log_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "pgbench_log.7"
    transaction_log(log, 0, [500, 600, 700])
    found = import_files([log, log, str(log)], tmp_path / "runs")
    assert (found.trials, [note.id for note in found.notes]) == (1, ["copies-left-out"])
    (trial,) = load_run(found.run).trials
    assert present(trial.summary).succeeded == 3


# ---- CSV ----


def test_our_own_export_comes_back(tmp_path: Path) -> None:
    first = imported(tmp_path, documents.sweep_report())
    again = imported(tmp_path, to_csv(first), "export.csv")
    assert [trial.target for trial in again.trials] == [trial.target for trial in first.trials]
    for before, after in zip(first.trials, again.trials, strict=True):
        assert present(after.summary).latency_ns == present(before.summary).latency_ns
        assert (present(after.summary).tps, after.point.clients) == (present(before.summary).tps, before.point.clients)


def test_new_orders_of_our_own_export_stay_new_orders(tmp_path: Path) -> None:
    first = imported(tmp_path, "target,clients,nopm\na,8,60000\n", "t.csv")
    text = to_csv(first)
    assert [row["tps_counts"] for row in csv.DictReader(io.StringIO(text))] == ["new orders"]
    (again,) = imported(tmp_path, text, "export.csv").trials
    assert (present(again.summary).tps, rate_unit(again), figures(again)["nopm"]) == (1_000.0, NEW_ORDERS, 60_000.0)


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        # as spreadsheets write it
        ("target,tps,\na,1,\n", []),
        ("target,,tps\na,x,1\n", ["column 2 has no name, and is not read"]),
    ],
)
def test_a_column_without_a_name_is_listed_if_it_has_cells(text: str, unread: list[str], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    result = import_files([tmp_path / "t.csv"], tmp_path / "runs")
    assert [line.text for line in result.unread] == unread


@pytest.mark.parametrize(
    ("text", "mapping", "said"),
    [
        ("target,tps,tps\na,1,2\n", [], "several columns of the table are tps: 'tps', 'tps'"),
        ("target,tps,rate_b\na,1,2\n", ["tps=rate_b"], "several columns of the table are tps: 'tps', 'rate_b'"),
    ],
)
def test_two_columns_of_one_meaning_are_refused(text: str, mapping: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        imported(tmp_path, text, "t.csv", mapping=mapping_of(mapping))


def test_every_column_of_ours_needs_no_mapping() -> None:
    assert set(CSV_HEADER) <= OURS
    assert set(COLUMNS) <= OURS


def test_other_words_are_mapped_and_strange_ones_told(tmp_path: Path) -> None:
    run = imported(
        tmp_path, "system;Threads;tps;mood\na;8;100.5;good\na;16;x;bad\n", "t.csv",
        mapping=mapping_of(["target=system", "clients=Threads"]),
    )  # fmt: skip
    (trial,) = run.trials
    assert (trial.target, trial.point.clients) == ("a", 8)
    assert [line.line for line in present(run.manifest.imported).unread] == [1, 3]


@pytest.mark.parametrize(
    "table",
    [
        "Sekunde;tps\n1;1005,9\n2;1011,2\n",
        "timestamp,target,tps\n2026-11-27T12:00:01Z,a,1005.9\n2026-11-27T12:00:02Z,a,1011.2\n",
        "epoch,clients,tps\n1700000001,8,1005.9\n1700000002,8,1011.2\n",
        "elapsed_s,clients,tps\n1,8,1005.9\n2,8,1011.2\n1,8,1005.9\n",
    ],
)
def test_seconds_of_a_run_are_no_repeats(table: str, tmp_path: Path) -> None:
    column = re.split("[,;]", table)[0]
    with pytest.raises(StoreError) as caught:
        imported(tmp_path, table, "t.csv")
    told = (
        f"t.csv:1: the rows are moments of one run (column '{column}'): import its summary; if they are runs, name it"
    )
    assert told in str(caught.value.hint)
    run = imported(tmp_path, table, "t.csv", mapping=mapping_of([f"repeat={column}"]))
    assert len(run.trials) == len(table.splitlines()) - 1


@pytest.mark.parametrize(
    "table",
    [
        "time,clients,tps\n60.1,8,1005.9\n60.3,8,1011.2\n",
        "timestamp,clients,tps\n1700000001,8,1005.9\n1700000300,16,1011.2\n",
        "timestamp,host,tps\n1700000001,a,1005.9\n1700000300,b,1011.2\n",
        "time,repeat,tps\n12:00,1,1005.9\n13:00,2,1011.2\n",
    ],
)
def test_rows_with_the_lengths_or_times_of_runs_are_trials(table: str, tmp_path: Path) -> None:
    assert [trial.summary.tps for trial in imported(tmp_path, table, "t.csv").trials if trial.summary] == [
        1005.9,
        1011.2,
    ]


@pytest.mark.parametrize(
    ("table", "figures"),
    [
        ("target;clients;tps;latency_mean_ms;p95_ms\npg17;8;456,789;17,514;21,3\n", (456.789, 17.514, 21.3)),
        ("target;clients;tps;latency_mean_ms;p95_ms\npg17;8;456,789;17,514;21,345\n", (456.789, 17.514, 21.345)),
        ("target;clients;tps;latency_mean_ms;p95_ms\npg17;8;456.789;17.514;21.3\n", (456.789, 17.514, 21.3)),
        ("target;clients;tps;latency_mean_ms;p95_ms\npg17;8;456,789;17.514;21.3\n", (456_789, 17.514, 21.3)),
        ("target\tclients\ttps\tlatency_mean_ms\tp95_ms\npg17\t8\t1.456,789\t17,514\t21\n", (1456.789, 17.514, 21)),
        ('target,clients,tps,latency_mean_ms,p95_ms\npg17,8,"456,789",17.514,21.3\n', (456_789, 17.514, 21.3)),
        ('target,clients,tps,latency_mean_ms,p95_ms\npg17,8,"456,789","17,514","21,3"\n', (456.789, 17.514, 21.3)),
    ],
)
def test_a_table_has_one_decimal_sign(table: str, figures: tuple[float, float, float], tmp_path: Path) -> None:
    (trial,) = imported(tmp_path, table, "t.csv").trials
    found = present(trial.imported).figures
    assert (found["tps"], found["latency_mean_ms"], found["latency_p95_ms"]) == figures


@pytest.mark.parametrize("name", ["cpu.user", "latency.avg", "tps.max", "words.x", "asked.x", "shown.x", "."])
def test_a_column_with_a_dot_is_unknown_unless_it_is_ours(name: str, tmp_path: Path) -> None:
    run = imported(tmp_path, f"target,clients,tps,{name},settings.jit\npg17,8,1000,55,off\n", "t.csv")
    (trial,) = run.trials
    assert trial.point.settings == {"jit": "off"}
    assert (present(trial.imported).words, present(trial.imported).load) == ({}, {})
    assert [line.id for line in present(run.manifest.imported).unread] == ["column-unknown"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "target,clients,tps\npg17,99999999999999999999,1000\n"),
        ("t.csv", "target,clients,tps,p99_ms\npg17,8,1000,99999999999999999999\n"),
        ("t.md", "| clients | tps |\n|---|---|\n| 8 | 99999999999999999999 |\n"),
        (
            "t.summary.json",
            '{\n "Throughput (requests/second)": 100.5,\n "terminals": "99999999999999999999",\n "scalefactor": 1\n}\n',
        ),
    ],
)
def test_a_figure_that_no_run_can_hold_is_refused(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no output of a known tool") as caught:
        imported(tmp_path, text, name)
    assert "99999999999999999999" in str(caught.value.hint)


@pytest.mark.parametrize("pair", ["clients", "nothing=x", "clients="])
def test_a_mapping_that_makes_no_sense_is_refused(pair: str) -> None:
    with pytest.raises(UsageError, match="--map"):
        mapping_of([pair])


def test_a_file_without_outputs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no output of a known tool"):
        imported(tmp_path, "nothing but prose\n")
    assert not (tmp_path / "runs").exists()


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


def test_a_log_with_a_broken_line_is_refused(tmp_path: Path) -> None:
    transaction_log(tmp_path / "pgbench_log.5", 0, [500, 600, 700])
    with (tmp_path / "pgbench_log.5").open("a") as file:
        file.write("0 3 garbage\n")
    with pytest.raises(StoreError, match="cannot read the log"):
        import_files([tmp_path / "pgbench_log.5"], tmp_path / "runs")


HAMMERDB = """\
Vuser 1:1 Active Virtual Users configured
Vuser 1:TEST RESULT : System achieved 9000 NOPM from 20000 PostgreSQL TPM
"""
PGBENCH_13 = """\
transaction type: <builtin: select only>
scaling factor: 1
query mode: simple
number of clients: 4
number of threads: 1
duration: 10 s
number of transactions actually processed: 1000
latency average = 40.000 ms
tps = 100.000000 (including connections establishing)
"""


@pytest.mark.parametrize(
    ("text", "name", "retries", "failed"),
    [
        ("target,clients,tps\na,4,1000\n", "figures.csv", None, None),
        ("target,clients,tps,retried,retries,errors\na,4,1000,2,3,4\n", "figures.csv", 3, 4),
        ("target,clients,tps,errors\na,4,1000,0\n", "figures.csv", None, 0),
        (HAMMERDB, "report.txt", None, None),
        # it ends a client at its first failure, and prints that; without --max-tries, there are no retries
        (PGBENCH_13, "report.txt", 0, 0),
    ],
    ids=["csv", "csv with both", "csv without failures", "hammerdb", "pgbench 13"],
)
def test_retries_and_failures_that_were_not_counted_are_not_none(
    text: str, name: str, retries: int | None, failed: int | None, tmp_path: Path
) -> None:
    run = imported(tmp_path, text, name)
    (trial,) = run.trials
    assert (present(trial.summary).retries, present(trial.summary).failed) == (retries, failed)
    of = digest(run)
    table = trial_table(of)
    assert table.rows[0][table.headings.index("retries")] == format_count(retries)
    (row,) = csv.DictReader(io.StringIO(to_csv(run)))
    assert row["retries"] == ("" if retries is None else str(retries))
    cell = format_count(failed)
    for table in (points_table(of), trial_table(of)):
        assert table.rows[0][table.headings.index("errors")] == cell
    (point,) = json.loads(to_json(of, NO_EXTRAS))["points"]
    assert (point["retries"], point["failed"]) == (retries, failed)
    assert point["scheduled"] == present(trial.summary).scheduled
    assert [row[-1] for row in peaks_table(of, NO_EXTRAS).rows] == [cell]
