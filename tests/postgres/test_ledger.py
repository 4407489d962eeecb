"""`pgdrive --ledger`: the results that clients received, compared with rows that SQL counts."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgdyno.run.commit_ledger import check_ledger, pages
from pgdyno.targets.cluster.installation import Installation
from tests.postgres.own_servers import OwnServer, running_server
from tests.present import present
from tests.run_program import PGDRIVE, run_program
from tests.waiting import PATIENCE_S, wait_until

ROW = "INSERT INTO pgdyno_ledger (client, seq) VALUES (:client_id, :ledger_seq);\n"
Result = dict[str, Any]


@pytest.fixture(scope="module")
def own(installed: Installation) -> Iterator[OwnServer]:
    with running_server(installed, "") as server:
        run_program([PGDRIVE, "-i", "-q"], env=server.environment(), check=True)
        yield server


def drive(server: OwnServer, folder: Path, *args: str, ledger: bool = True) -> tuple[Result, str]:
    json_file = folder / "result.json"
    options = ["--ledger"] if ledger else []
    done = run_program([PGDRIVE, "-n", *options, f"--json={json_file}", *args], env=server.environment(), cwd=folder)
    result = json.loads(json_file.read_text()) if json_file.exists() else {}
    return result, done.stderr


@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
@pytest.mark.parametrize("more", [[], ["--auto-pipeline"], ["-C"]])
def test_each_transaction_leaves_a_row(own: OwnServer, tmp_path: Path, mode: str, more: list[str]) -> None:
    result, said = drive(own, tmp_path, "-b", "tpcb-like", "-c", "3", "-t", "20", "-M", mode, *more)
    assert result["succeeded"] == 60, said
    ledger = result["ledger"]
    assert (ledger["acknowledged"], ledger["unknown"], ledger["refused"]) == (60, 0, 0)
    assert [(page["client"], page["last"]) for page in ledger["clients"]] == [(0, 20), (1, 20), (2, 20)]
    assert own.value("SELECT count(*) FROM pgdyno_ledger") == 60
    assert own.value("SELECT count(DISTINCT (client, seq)) FROM pgdyno_ledger WHERE seq BETWEEN 1 AND 20") == 60


def test_read_only_transactions_use_no_number(own: OwnServer, tmp_path: Path) -> None:
    result, _ = drive(own, tmp_path, "-b", "simple-update", "-b", "select-only", "-c", "2", "-t", "100")
    writes = next(script["succeeded"] for script in result["scripts"] if script["script"] == 0)
    assert 0 < writes < 200
    assert result["ledger"]["acknowledged"] == writes == own.value("SELECT count(*) FROM pgdyno_ledger")


def test_failed_transactions_leave_no_row(own: OwnServer, tmp_path: Path) -> None:
    (tmp_path / "fails.sql").write_text(f"BEGIN;\n{ROW}\\set x random(0, 1)\nSELECT 1 / :x;\nEND;\n")
    result, _ = drive(own, tmp_path, "-f", "fails.sql", "-c", "2", "-t", "50", "--continue-on-error")
    assert result["failed"] > 0
    ledger = result["ledger"]
    assert (ledger["acknowledged"], ledger["refused"]) == (result["succeeded"], result["failed"])
    with own.connect() as connection:
        found = check_ledger(present(pages([{"event": "end", **result}])), connection)
    assert (found.acknowledged, found.missing, found.refused_present) == (result["succeeded"], 0, 0)
    assert (found.present, found.strange) == (result["succeeded"], 0)


def test_transactions_in_flight_at_the_end_are_unknown(own: OwnServer, tmp_path: Path) -> None:
    (tmp_path / "sleeps.sql").write_text(f"{ROW}SELECT pg_sleep(30);\n")
    json_file = tmp_path / "result.json"
    process = subprocess.Popen(
        [PGDRIVE, "-n", "--ledger", f"--json={json_file}", "-f", "sleeps.sql", "-c", "2", "-T", "300"],
        env=own.environment(),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
    wait_until(lambda: own.value(sleeping) == 2)
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE_S)
    ledger = json.loads(json_file.read_text())["ledger"]
    assert (ledger["acknowledged"], ledger["unknown"]) == (0, 2)
    assert [page["unknown"] for page in ledger["clients"]] == [[[1, 1]], [[1, 1]]]


def test_a_ledger_of_nothing_is_refused(own: OwnServer, tmp_path: Path) -> None:
    for args, message in (
        (["-b", "select-only"], "no statement of the scripts uses :ledger_seq"),
        (["-b", "tpcb-like", "-D", "client_id=5"], "variable client_id cannot be defined with --ledger"),
        (["-b", "tpcb-like", "-D", "ledger_seq=5"], "variable ledger_seq cannot be defined with --ledger"),
    ):
        result, said = drive(own, tmp_path, *args, "-t", "1")
        assert result == {}
        assert message in said
    # without the option there is no table and no field
    own.execute("DROP TABLE IF EXISTS pgdyno_ledger")
    result, _ = drive(own, tmp_path, "-t", "5", ledger=False)
    assert result["ledger"] is None
    assert own.value("SELECT to_regclass('pgdyno_ledger')") is None
