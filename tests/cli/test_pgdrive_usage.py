"""pgdrive before it connects: usage, scripts with syntax errors, unreachable servers."""

import json
import socket
from pathlib import Path

from tests.cli.conftest import Run


def test_version_and_help(run: Run) -> None:
    version, usage = run("pgdrive", "--version"), run("pgdrive", "--help")
    assert version.returncode == usage.returncode == 0
    assert version.stdout.startswith("pgdrive (pgdyno) ")
    assert "-c, --client=NUM" in usage.stdout


def test_a_script_that_does_not_parse_is_named_with_its_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.sql").write_text("SELECT 1;\n\\set x 1 +\nSELECT :x;\n")
    done = run("pgdrive", "-f", "bad.sql")
    assert done.returncode == 1
    assert "bad.sql:2:" in done.stderr
    assert "\\set x 1 +" in done.stderr
    assert "^" in done.stderr


def test_a_load_that_does_not_begin_has_a_reason_for_programs(run: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        done = run("pgdrive", "-h", "127.0.0.1", "-p", port, "-U", "u", "-n", "--events=-", "db")
    end = json.loads(done.stdout.splitlines()[-1])
    assert (end["event"], end["outcome"], end["reason"]) == ("end", "failed", "not-prepared")


def test_a_file_without_an_end_is_refused(run: Run) -> None:
    for option in ("--file", "--phases"):
        done = run("pgdrive", f"{option}=/dev/zero")
        assert done.returncode == 1
        assert done.stderr == 'pgdrive: error: could not read file "/dev/zero": file too large\n'
