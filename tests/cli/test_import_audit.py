"""`pgdyno import`, and audit, show and report of imported runs."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from tests.cli.conftest import Run
from tests.unit import documents_sample as documents
from tests.unit.import_sample import PGBENCH_17, SYSBENCH
from tests.unit.test_import_hammerdb_jobs import FUNCTIONS, LOG, TABLES

SMALL = Path(__file__).parents[1] / "golden" / "small-outputs"


def test_a_document_goes_all_the_way(run: Run, tmp_path: Path) -> None:
    (tmp_path / "peaks.txt").write_text(documents.peaks_report() + "about 5 tps more\n", encoding="utf-8")
    brought = run("pgdyno", "import", "peaks.txt", "--into", "runs", "--json")
    assert brought.returncode == ExitCode.OK, brought.stderr
    told = json.loads(brought.stdout)
    line = len(documents.peaks_report().splitlines()) + 1
    assert told["unread"] == [{"file": "peaks.txt", "line": line, "text": "about 5 tps more"}]
    assert told["trials"] == 36
    assert [each["id"] for each in told["note_details"]] == ["clients-unknown", "lines-unread"]
    assert told["note_details"][1]["parameters"] == {"count": 1}
    assert told["notes"] == [
        "4 trials do not state their clients, first peaks.txt:20",
        "1 line with figures was not understood; manifest.json lists it",
    ]
    # what the lists say is no note as well
    printed = run("pgdyno", "import", "peaks.txt", "--into", "runs").stdout
    assert "peaks.txt:" in printed
    assert "lines with figures that the importer does not understand: 1" in printed
    assert printed.count("note:") == 1, "that of unknown clients"

    audited = run("pgdyno", "audit", told["run"], "--json")
    assert audited.returncode == ExitCode.INVALID
    heavy = [(each["rule"], each["severity"]) for each in json.loads(audited.stdout) if each["severity"] != "note"]
    # what is known to be wrong with these figures
    assert sorted(heavy) == [
        ("arithmetic", "caution"), ("connection-time", "caution"), ("connection-time", "invalid"),
        ("durability", "caution"), ("littles-law", "caution"), ("littles-law", "invalid"), ("no-repeats", "caution"),
        ("outside-plan", "caution"), ("price-unsound", "invalid"),
    ]  # fmt: skip

    shown = run("pgdyno", "show", told["run"])
    assert shown.returncode == ExitCode.OK, shown.stderr
    assert "invalid: littles-law: throughput" in shown.stdout
    assert "imported from peaks.txt" in shown.stdout
    reported = run("pgdyno", "report", told["run"])
    assert reported.returncode == ExitCode.OK, reported.stderr
    assert "the figures were imported from" in (tmp_path / told["run"] / "report.html").read_text()


def test_a_caution_alone_is_no_failure_and_a_line_that_pgdyno_wrote_has_an_id(run: Run, tmp_path: Path) -> None:
    (tmp_path / "sweep.csv").write_text("target,clients,tps\na,1,10\na,2,20\n")
    assert run("pgdyno", "import", "sweep.csv", "--into", "pgdyno-runs").returncode == ExitCode.OK
    audited = run("pgdyno", "audit")
    assert audited.returncode == ExitCode.OK, audited.stderr
    assert "caution  no-repeats" in audited.stdout
    (unchecked,) = [line for line in audited.stdout.splitlines() if "not checked" in line]
    assert unchecked.startswith("not checked, because the source lacks the input (--json names it): littles-law, ")
    assert "order-bias" in unchecked
    missing = run("pgdyno", "import", "nowhere.txt")
    assert missing.returncode == ExitCode.STORE
    assert "cannot read nowhere.txt: no such file or directory" in missing.stderr
    (tmp_path / "sweep.csv").write_text("target,clients,tps,colour\na,1,10,red\n")
    told = json.loads(run("pgdyno", "import", "sweep.csv", "--into", "runs", "--json").stdout)
    (line,) = told["unread"]
    assert (line["id"], line["parameters"]) == ("column-unknown", {"column": "colour"})
    assert line["text"] == "unknown column 'colour'; map it with --map OURS=colour"


SETTINGS = """\
diset tpcc pg_superuserpass sEcret
Changed tpcc:pg_pass from tpcc to sEcret for PostgreSQL
Value sEcret for tpcc:pg_pass is the same as existing value sEcret, no change made
"""
JSON = """\
<url>jdbc:postgresql://u:sEcret@h/db?password=sEcret</url> <password>sEcret</password> 5 tps
{
  "DBMS Type": "postgres",
  "url": "jdbc:postgresql://h/db?user=u&password=sEcret",
  "password": "sEcret",
  "Throughput (requests/second)": 1234.5,
  "terminals": 8
}
"""
PGBENCH = f"$ PGPASSWORD=sEcret pgbench -c 4 -T 30 postgresql://u:sEcret@{{}}/db\n{PGBENCH_17}\n"
DOCUMENT = [
    PGBENCH.format("h1"), PGBENCH.format("h2"), "# PGPASSWORD=sEcret\n\nexport PGPASSWORD=sEcret for 5 tps\n",
    SYSBENCH.replace("--tables=4", "--pgsql-password='sEcret' --tables=4", 1),
    "\n$ sysbench --pgsql-password=sEcret run: 5 tps\n", SETTINGS, LOG.format(version="4.12", setting=FUNCTIONS),
    "diset tpcc pg_pass sEcret ;# 5 tps\n", JSON,
    # on a continued line, for the name of a database, between tags and entities, in statements and settings
    "\nsysbench oltp_read_write --pgsql-password \\\n 'sEcret' --pgsql-db='host=h3 user=u password=sEcret' \\\n",
    "--threads=16 --time=60 --tables=4 run\n", SYSBENCH.partition("\n")[2],
    "PGPASSWORD=&quot;sEcret sEcret&quot; pgbench: 100 tps and more, <b>--password</b>=sEcret\n",
    PGBENCH.format("h4").replace("END;", "ALTER ROLE bench PASSWORD 'sEcret';"),
    "shared_buffers = 1GB # password=sEcret\n",
]  # fmt: skip
CSV = (
    "target,clients,tps,variables.dsn,variables.password,password\n"
    "postgresql://u:sEcret@h/db,8,100,host=h password=sEcret,sEcret,sEcret\n"
    "a,8,x,postgresql://u:sEcret@h/db,sEcret,sEcret\n"
)


def _job_store(path: Path) -> None:
    described = "tpcc {pg_count_ware 40 pg_superuserpass sEcret pg_pass {sEcret} pg_duration 5}"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(TABLES)
        connection.execute("INSERT INTO JOBMAIN VALUES ('AA', 'PostgreSQL', 'TPC-C', ?, '2026-01-01')", [described])
        lines = [*LOG.format(version="4.12", setting=FUNCTIONS).splitlines(), *SETTINGS.splitlines()]
        connection.executemany("INSERT INTO JOBOUTPUT VALUES ('AA', 1, ?)", [[line] for line in lines])
        connection.commit()


def _rates(run: Run, folder: Path, **columns: float) -> str:
    name = "-".join(columns)
    rows = [",".join(["pg", "8", *(f"{value + 13 * at:g}" for value in columns.values())]) for at in range(7)]
    (folder / f"{name}.csv").write_text("\n".join([f"target,clients,{','.join(columns)}", *rows, ""]))
    done = run("pgdyno", "import", f"{name}.csv", "--into", "runs", "--json")
    return str(json.loads(done.stdout)["run"])


def test_new_orders_are_not_compared_with_transactions_and_both_are_points(run: Run, tmp_path: Path) -> None:
    orders, transactions = _rates(run, tmp_path, nopm=10_000), _rates(run, tmp_path, tpm=23_000)
    for words in (["compare"], ["gate", "--max-regression", "3%"]):
        done = run("pgdyno", *words, orders, transactions)
        assert done.returncode == ExitCode.INVALID, done.stdout
        assert "unit: new orders vs transactions: different units of throughput" in done.stdout
        assert "remedy: import figures of one unit" in done.stdout
    assert run("pgdyno", "compare", transactions, _rates(run, tmp_path, tps=380)).returncode == ExitCode.OK
    # new orders are compared if all trials have them
    done = run("pgdyno", "compare", orders, _rates(run, tmp_path, nopm=10_000, tpm=23_000))
    assert done.returncode == ExitCode.OK, done.stdout
    assert "is the same as" in done.stdout
    assert "note: throughput here is new orders (NOPM divided by 60)" in done.stdout
    # within an import
    (tmp_path / "n.csv").write_text("target,clients,nopm\npg,8,10000\n")
    (tmp_path / "t.csv").write_text("target,clients,tpm\npg,8,23000\n")
    done = run("pgdyno", "import", "n.csv", "t.csv", "--into", "points", "--json")
    (note,) = json.loads(done.stdout)["note_details"]
    assert (note["id"], note["parameters"]["unit"]) == ("rate-per-minute", "tpm, nopm")
    records = [json.loads(path.read_text()) for path in sorted((tmp_path / "points").glob("*/trials/*/trial.json"))]
    assert [(each["repeat"], each["point"]["variables"]) for each in records] == [
        (1, {"unit": "new orders"}), (1, {"unit": "transactions"}),
    ]  # fmt: skip


def test_targets_of_which_one_has_no_transactions_are_compared_by_new_orders(run: Run, tmp_path: Path) -> None:
    rows = [f"pg16,8,{10_000 + at},{23_000 + at}\npg17,8,{10_000 + at},\n" for at in range(7)]
    (tmp_path / "both.csv").write_text("target,clients,nopm,tpm\n" + "".join(rows))
    imported = run("pgdyno", "import", "both.csv", "--into", "runs", "--json")
    assert json.loads(imported.stdout)["notes"][0].startswith("throughput of 14 trials was printed as nopm")
    stored = str(json.loads(imported.stdout)["run"])
    done = run("pgdyno", "compare", stored, "--by", "target")
    assert "pg17 is the same as pg16" in done.stdout
    # a run of an earlier version, which took the transactions where there were any
    for record in (tmp_path / "runs").glob("*/trials/*/trial.json"):
        told = json.loads(record.read_text())
        if "tpm" in told["imported"]["figures"]:
            told["summary"]["tps"] = told["imported"]["figures"]["tpm"] / 60
            record.write_text(json.dumps(told))
    done = run("pgdyno", "compare", stored, "--by", "target")
    assert "pg17 is the same as pg16" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("text", "trials", "kept"),
    [("".join(DOCUMENT), 7, "more, --password=***"), (CSV, 1, "postgresql://u:***@h/db"), (None, 1, "")],
    ids=["text", "csv", "store"],
)
def test_a_password_is_neither_stored_nor_printed(
    text: str | None, trials: int, kept: str, run: Run, tmp_path: Path
) -> None:
    if text is None:
        _job_store(tmp_path / "result")
    else:
        (tmp_path / "result").write_text(text)
    texts = []
    for words in (["import", "result", "--into", "runs", "--json"], ["import", "result", "--into", "runs"]):
        done = run("pgdyno", *words)
        assert done.returncode == ExitCode.OK, done.stderr
        texts += [done.stdout, done.stderr]
    assert json.loads(texts[0])["trials"] == trials
    stored = json.loads(texts[0])["run"]
    forms = (
        ["report", stored], ["show", stored, "--json"], ["show", stored], ["show", stored, "--csv"],
        ["audit", stored, "--json"], ["report", stored, "--md", "runs/report.md", "--csv", "runs/report.csv"],
    )  # fmt: skip
    # what is stored is the same for all forms: one of each source has them all
    for words in forms if text and text is not CSV else forms[:2]:
        done = run("pgdyno", *words)
        assert done.returncode in (ExitCode.OK, ExitCode.INVALID), done.stderr
        texts += [done.stdout, done.stderr]
    for path in (tmp_path / "runs").rglob("*"):
        texts += [str(path), path.read_bytes().decode("latin-1") if path.is_file() else ""]
    assert (tmp_path / stored / "report.html").exists()
    assert [text for text in texts if "sEcret" in text] == []
    assert kept in "".join(texts)


def test_a_refused_file_is_refused_without_its_password(run: Run, tmp_path: Path) -> None:
    (tmp_path / "result").write_text("PGPASSWORD=sEcret pgbench at postgresql://u:sEcret@h/db: 5 tps\n")
    done = run("pgdyno", "import", "result")
    assert done.returncode == ExitCode.STORE
    assert "result:1: PGPASSWORD=***" in done.stderr
    assert "sEcret" not in done.stdout + done.stderr


def test_rates_are_compared_without_connecting(run: Run) -> None:
    for name, sentence, code in (
        ("rates-13-and-16.md", "PG16 is the same as PG13 by throughput", ExitCode.OK),
        ("rates-of-two-kinds.md", "transactions, connecting included vs transactions", ExitCode.INVALID),
    ):
        imported = json.loads(run("pgdyno", "import", str(SMALL / name), "--into", "runs", "--json").stdout)
        compared = run("pgdyno", "compare", imported["run"], "--by", "target")
        assert compared.returncode == code
        assert sentence in compared.stdout + compared.stderr
