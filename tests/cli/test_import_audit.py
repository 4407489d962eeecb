"""`pgdyno import`, and audit, show and report of imported runs."""

from __future__ import annotations

import json
from pathlib import Path

from pgdyno.errors import ExitCode
from tests.cli.conftest import Run
from tests.unit import documents_sample as documents


def test_a_document_goes_all_the_way(run: Run, tmp_path: Path) -> None:
    (tmp_path / "peaks.txt").write_text(documents.peaks_report() + "about 5 tps more\n", encoding="utf-8")
    brought = run("pgdyno", "import", "peaks.txt", "--into", "runs", "--json")
    assert brought.returncode == ExitCode.OK, brought.stderr
    told = json.loads(brought.stdout)
    line = len(documents.peaks_report().splitlines()) + 1
    assert told["unread"] == [{"file": "peaks.txt", "line": line, "text": "about 5 tps more"}]
    assert told["trials"] == 36
    assert [each["id"] for each in told["note_details"]] == ["lines-unread"]
    assert told["note_details"][0]["parameters"] == {"count": 1}
    assert told["notes"] == ["1 line with figures was not understood; manifest.json lists it"]

    audited = run("pgdyno", "audit", told["run"], "--json")
    assert audited.returncode == ExitCode.INVALID
    heavy = [(each["rule"], each["severity"]) for each in json.loads(audited.stdout) if each["severity"] != "note"]
    # what is known to be wrong with these figures
    assert sorted(heavy) == [
        ("arithmetic", "caution"),
        ("connection-time", "caution"),
        ("connection-time", "invalid"),
        ("durability", "caution"),
        ("littles-law", "caution"),
        ("littles-law", "invalid"),
        ("no-repeats", "caution"),
        ("outside-plan", "caution"),
        ("price-unsound", "invalid"),
    ]

    shown = run("pgdyno", "show", told["run"])
    assert shown.returncode == ExitCode.OK, shown.stderr
    assert "invalid: littles-law: throughput" in shown.stdout
    assert "imported from peaks.txt" in shown.stdout
    reported = run("pgdyno", "report", told["run"])
    assert reported.returncode == ExitCode.OK, reported.stderr
    assert "the figures were imported from" in (tmp_path / told["run"] / "report.html").read_text()


def test_what_the_lists_say_is_no_note_as_well(run: Run, tmp_path: Path) -> None:
    (tmp_path / "peaks.txt").write_text(documents.peaks_report() + "about 5 tps more\n", encoding="utf-8")
    brought = run("pgdyno", "import", "peaks.txt", "--into", "runs")
    assert "peaks.txt:" in brought.stdout
    assert "lines with figures that the importer does not understand: 1" in brought.stdout
    assert "note:" not in brought.stdout


def test_a_line_that_pgdyno_wrote_has_an_id(run: Run, tmp_path: Path) -> None:
    (tmp_path / "sweep.csv").write_text("target,clients,tps,colour\na,1,10,red\n")
    told = json.loads(run("pgdyno", "import", "sweep.csv", "--into", "runs", "--json").stdout)
    (line,) = told["unread"]
    assert (line["id"], line["parameters"]) == ("column-unknown", {"column": "colour"})
    assert line["text"] == "unknown column 'colour'; map it with --map OURS=colour"


def test_a_caution_alone_is_no_failure(run: Run, tmp_path: Path) -> None:
    (tmp_path / "sweep.csv").write_text("target,clients,tps\na,1,10\na,2,20\n")
    assert run("pgdyno", "import", "sweep.csv", "--into", "pgdyno-runs").returncode == ExitCode.OK
    audited = run("pgdyno", "audit")
    assert audited.returncode == ExitCode.OK, audited.stderr
    assert "caution  no-repeats" in audited.stdout
    (unchecked,) = [line for line in audited.stdout.splitlines() if "not checked" in line]
    assert unchecked.startswith("not checked, because the source lacks the input (--json names it): littles-law, ")
    assert "order-bias" in unchecked


def test_files_that_cannot_be_had_are_named(run: Run) -> None:
    done = run("pgdyno", "import", "nowhere.txt")
    assert done.returncode == ExitCode.STORE
    assert "cannot read nowhere.txt: no such file or directory" in done.stderr
