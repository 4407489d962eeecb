"""pgdrive before it connects: usage, scripts with syntax errors, unreachable servers."""

import json
import socket
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_version_and_help(run: Run) -> None:
    version = run("pgdrive", "--version")
    assert version.returncode == 0
    assert version.stdout.startswith("pgdrive (pgdyno) ")
    usage = run("pgdrive", "--help")
    assert usage.returncode == 0
    assert "-c, --client=NUM" in usage.stdout
    assert all(len(line) <= 80 for line in usage.stdout.splitlines())


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--nosuch"], "pgdrive: unrecognized option '--nosuch'"),
        (["-c"], "pgdrive: option requires an argument -- 'c'"),
        (["-c", "none"], 'pgdrive: error: invalid value "none" for option -c/--client'),
        (["-b", "nosuch"], 'pgdrive: error: no builtin script found for name "nosuch"'),
        (["-b", "s"], "pgdrive: error: ambiguous builtin name"),
        (["-f", "missing.sql"], 'pgdrive: error: could not open file "missing.sql": No such file or directory'),
        (["-d", "nosuch=1"], 'invalid connection option "nosuch"'),
    ],
)
def test_usage_errors_exit_with_1(run: Run, args: list[str], said: str) -> None:
    done = run("pgdrive", *args)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stdout == ""


def test_a_script_that_does_not_parse_is_named_with_its_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.sql").write_text("SELECT 1;\n\\set x 1 +\nSELECT :x;\n")
    done = run("pgdrive", "-f", "bad.sql")
    assert done.returncode == 1
    assert "bad.sql:2:" in done.stderr
    assert "\\set x 1 +" in done.stderr
    assert "^" in done.stderr


def test_builtins_are_listed_and_shown(run: Run) -> None:
    listed = run("pgdrive", "-b", "list")
    assert listed.returncode == 0
    assert "tpcb-like: <builtin: TPC-B (sort of)>" in listed.stderr
    shown = run("pgdrive", "--show-script=select-only")
    assert "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;" in shown.stderr


def test_a_load_that_does_not_begin_has_a_reason_for_programs(run: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        done = run("pgdrive", "-h", "127.0.0.1", "-p", port, "-U", "u", "-n", "--events=-", "db")
    end = json.loads(done.stdout.splitlines()[-1])
    assert (end["event"], end["outcome"], end["reason"]) == ("end", "failed", "not-prepared")


def test_a_port_that_nothing_listens_on(run: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: refused
        port = taken.getsockname()[1]
        done = run("pgdrive", "-h", "127.0.0.1", "-p", str(port), "-U", "nobody", "none")
    assert done.returncode == 1
    assert f'connection to server at "127.0.0.1", port {port} failed: Connection refused' in done.stderr


def test_a_socket_that_is_not_there(run: Run, tmp_path: Path) -> None:
    done = run("pgdrive", "-h", str(tmp_path), "-U", "nobody", "none")
    assert done.returncode == 1
    assert f'connection to server on socket "{tmp_path}/.s.PGSQL.5432" failed: No such file or directory' in done.stderr


@pytest.mark.parametrize("option", ["--file", "--phases"])
def test_a_file_without_an_end_is_refused(run: Run, option: str) -> None:
    done = run("pgdrive", f"{option}=/dev/zero")
    assert done.returncode == 1
    assert done.stderr == 'pgdrive: error: could not read file "/dev/zero": file too large\n'
