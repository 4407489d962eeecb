"""pgdyno before any server is needed: help, versions, plans that are wrong, runs that are not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from tests.cli.conftest import Run

COMMANDS = ["run", "list", "show", "report", "plan check", "plan show", "plan list"]

THREE_MISTAKES = """\
name = "three mistakes"

[target.pg18]
kind = "embedded"
version = "eighteen"

[workload]
scripts = ["select-only"]

[sweep]
clients = [0]

[trial]
duration = "10s"
"""


def test_help_names_every_command(run: Run) -> None:
    done = run("pgdyno", "--help")
    assert done.returncode == 0
    for command in COMMANDS:
        assert command.split()[0] in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(run: Run, command: str) -> None:
    done = run("pgdyno", *command.split(), "--help")
    assert done.returncode == 0
    assert f"Usage: pgdyno {command}" in done.stdout


def test_version_names_both_programs(run: Run) -> None:
    done = run("pgdyno", "--version")
    assert done.returncode == 0
    assert re.search(r"^pgdyno \d+\.\d+\.\d+$", done.stdout, re.MULTILINE)
    assert re.search(r"^pgdrive \d+\.\d+\.\d+ \(/", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_offered(run: Run, shell: str) -> None:
    done = run("pgdyno", env={"_PGDYNO_COMPLETE": f"source_{shell}"})
    assert done.returncode == 0
    assert "_PGDYNO_COMPLETE" in done.stdout


def test_a_plan_with_three_mistakes_names_all_with_their_lines(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(THREE_MISTAKES)
    for command in (["plan", "check"], ["run"]):
        done = run("pgdyno", *command, "bad.toml")
        assert done.returncode == ExitCode.PLAN
        assert "plan bad.toml has 3 problems" in done.stderr
        assert "bad.toml:1: name: " in done.stderr
        assert "bad.toml:5: target.pg18.version: " in done.stderr
        assert "bad.toml:11: sweep.clients[0]: " in done.stderr
    assert not (tmp_path / "pgdyno-runs").exists()


def test_a_script_that_does_not_parse_is_a_problem_of_the_plan(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.sql").write_text("SELECT 1;\n\\if 1 +\nSELECT 2;\n\\endif\n")
    (tmp_path / "plan.toml").write_text(
        THREE_MISTAKES.replace("three mistakes", "script")
        .replace("eighteen", "18")
        .replace("[0]", "[1]")
        .replace("select-only", "bad.sql")
    )
    done = run("pgdyno", "plan", "check", "plan.toml")
    assert done.returncode == ExitCode.PLAN
    assert "bad.sql:2: " in done.stderr
    assert "    \\if 1 +\n" in done.stderr
    assert "^ error found here" in done.stderr


def test_the_catalogue_is_listed_and_can_be_checked(run: Run) -> None:
    listed = run("pgdyno", "plan", "list")
    names = [line.split()[0] for line in listed.stdout.splitlines()[1:] if not line.startswith(" ")]
    assert "quick" in names
    for name in names:
        assert run("pgdyno", "plan", "check", name).returncode == 0
        assert "trials, " in run("pgdyno", "plan", "show", name).stdout


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["run", "nosuch"], ExitCode.USAGE, "there is no plan nosuch"),
        (["show"], ExitCode.STORE, "there are no runs in pgdyno-runs"),
        (["show", "2026"], ExitCode.STORE, "2026"),
        (["frobnicate"], ExitCode.USAGE, "No such command"),
        (["run", "quick", "--set", "nonsense"], ExitCode.USAGE, "nonsense"),
        (["run"], ExitCode.USAGE, "there is nothing to run"),
        (["run", "quick", "--redo-failed"], ExitCode.USAGE, "--redo-failed goes only with --resume"),
        (["run", "quick", "--resume", "latest"], ExitCode.USAGE, "--resume takes the plan from the run itself"),
        (["run", "--resume", "latest", "--set", "a=1"], ExitCode.USAGE, "--resume takes the plan from the run itself"),
        (["run", "--resume", "latest"], ExitCode.STORE, "there are no runs in pgdyno-runs"),
        (["run", "--resume", "./nowhere"], ExitCode.STORE, "there is no such folder"),
    ],
)
def test_what_cannot_be_done_says_why(run: Run, args: list[str], code: ExitCode, said: str) -> None:
    done = run("pgdyno", *args)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_empty_folder_has_no_runs(run: Run) -> None:
    done = run("pgdyno", "list")
    assert (done.returncode, done.stdout) == (0, "no runs in pgdyno-runs\n")


def test_an_engine_that_is_missing_or_mute_is_said(run: Run) -> None:
    missing = run("pgdyno", "run", "quick", env={"PGDYNO_PGDRIVE": "/nowhere/pgdrive"})
    assert missing.returncode == ExitCode.ENGINE
    assert "PGDYNO_PGDRIVE names /nowhere/pgdrive, which cannot be run" in missing.stderr
    mute = run("pgdyno", "run", "quick", env={"PGDYNO_PGDRIVE": "/bin/false"})
    assert mute.returncode == ExitCode.ENGINE


def test_colours_are_for_terminals(run: Run) -> None:
    done = run("pgdyno", "run", "nosuch")
    assert "\x1b[" not in done.stdout + done.stderr


def test_exit_codes_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "exit-codes.md").read_text()
    rows = re.findall(r"^\| (\d+) \| ([a-z-]+) \|", page, re.MULTILINE)
    assert {(int(code), name.replace("-", "_").upper()) for code, name in rows} == {(c.value, c.name) for c in ExitCode}
