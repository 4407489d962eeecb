"""SCRAM's keys: derived once per run, or for every connection as in libpq. Rust's tests show which keys are used."""

import shutil
from pathlib import Path

import pytest

from tests.postgres.test_pgdrive_tls import PGDRIVE, run, secure
from tests.postgres.tls_server import TlsServer

__all__ = ["secure"]


@pytest.mark.parametrize("option", [(), ("--scram-cache=on",), ("--scram-cache=off",)])
def test_new_connections_come_in_with_kept_and_with_derived_keys(
    secure: TlsServer, tmp_path: Path, option: tuple[str, ...]
) -> None:
    script = tmp_path / "script.sql"
    script.write_text("SELECT 1;\n")
    args = ("user=by_scram sslmode=disable", "-n", "-f", str(script), "-C", "-c", "2", "-t", "3", *option)
    done = run(PGDRIVE, secure, *args)
    assert done.returncode == 0, done.stderr
    assert "number of transactions actually processed: 6/6" in done.stdout


def test_pgbench_has_no_option_for_it(secure: TlsServer, tmp_path: Path) -> None:
    pgbench = tmp_path / "pgbench"
    shutil.copy(PGDRIVE, pgbench)
    refused = run(pgbench, secure, "user=by_scram", "--scram-cache=off")
    assert refused.returncode == 1
    assert "unrecognized option '--scram-cache'" in refused.stderr


def test_a_word_that_is_neither_is_refused(secure: TlsServer) -> None:
    done = run(PGDRIVE, secure, "user=by_scram", "--scram-cache=never")
    assert done.returncode == 1
    assert 'invalid value of --scram-cache: "never"' in done.stderr
