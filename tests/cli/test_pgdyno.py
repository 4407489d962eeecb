"""pgdyno without a server: help, versions, invalid plans, missing runs."""

import json
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from commands_page import commands
from pgdyno.cli import app
from pgdyno.commands.plan import check, show
from pgdyno.errors import ExitCode
from tests.cli.conftest import Run
from tests.json_schema import SCHEMA, validated

ROOT = Path(__file__).parents[2]
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


def test_every_command_has_help_and_versions_and_completion_are_there(run: Run) -> None:
    every = run("pgdyno", "--help").stdout
    assert max(map(len, every.splitlines())) <= 80
    for words, _ in commands(typer.main.get_command(app), ("pgdyno",)):
        assert words[1] in every
        assert f"Usage: {' '.join(words)}" in CliRunner().invoke(app, [*words[1:], "--help"], prog_name="pgdyno").stdout
    for option in ("--version", "-V"):
        done = run("pgdyno", option)
        assert done.returncode == 0
        assert re.search(r"^pgdyno \d+\.\d+\.\d+$", done.stdout, re.MULTILINE)
        assert re.search(r"^pgdrive \d+\.\d+\.\d+ \(/", done.stdout, re.MULTILINE)
    for shell in ("bash", "zsh", "fish"):
        done = run("pgdyno", env={"_PGDYNO_COMPLETE": f"source_{shell}"})
        assert done.returncode == 0
        assert "_PGDYNO_COMPLETE" in done.stdout


def test_a_plan_with_three_mistakes_names_all_with_their_lines(run: Run, tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(THREE_MISTAKES)
    for command in (["plan", "check"], ["run"]):
        done = run("pgdyno", *command, "base.toml")
        assert done.returncode == ExitCode.PLAN
        assert "plan base.toml has 3 problems" in done.stderr
        for place in ("1: name", "5: target.pg18.version", "11: sweep.clients[0]"):
            assert f"base.toml:{place}: " in done.stderr
        assert "\x1b[" not in done.stdout + done.stderr
    assert not (tmp_path / "pgdyno-runs").exists()
    # those of a plan that extends it are where they were written
    (tmp_path / "mine.toml").write_text('extends = "base"\nname = "mine"\ntrial.repeats = 0\n')
    done = run("pgdyno", "plan", "check", "mine.toml", "--set", "trial.warmup=x")
    assert done.returncode == ExitCode.PLAN
    assert [line.split(": ")[:2] for line in done.stderr.splitlines() if ".toml" in line][1:] == [
        ["mine.toml:3", "trial.repeats"],
        ["mine.toml", "trial.warmup"],
        ["base.toml:5", "target.pg18.version"],
        ["base.toml:11", "sweep.clients[0]"],
    ]


def test_a_script_and_a_workload_are_checked(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.sql").write_text("SELECT 1;\n\\if 1 +\nSELECT 2;\n\\endif\n")
    right = THREE_MISTAKES.replace("three mistakes", "one").replace("eighteen", "18").replace("[0]", "[1]")
    for line, said in (
        # a script that does not parse is a problem of the plan
        ('scripts = ["bad.sql"]', ["workload.scripts: bad.sql:2: ", "    \\if 1 +\n", "^ error found here"]),
        ('name = "tpc-h"', ['workload.name: there is no workload "tpc-h"\n    There are: tpcc, tpch, oltp-']),
    ):
        (tmp_path / "plan.toml").write_text(right.replace('scripts = ["select-only"]', line))
        done = run("pgdyno", "plan", "check", "plan.toml")
        assert done.returncode == ExitCode.PLAN
        assert f"plan.toml:8: {said[0]}" in done.stderr
        assert [each for each in said if each not in done.stderr] == []


def test_catalogue_and_schema_are_printed(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = run("pgdyno", "plan", "list")
    names = [line.split()[0] for line in listed.stdout.splitlines()[1:] if not line.startswith(" ")]
    assert "quick" in names
    for name in names:
        # as the command does, whose arguments and exit codes other tests cover
        check(name, noise=True, runs=tmp_path)
        checked = capsys.readouterr().out
        assert f"{name}: the plan is valid\n" in checked
        assert "warning: " not in checked
        show(name)
        assert re.search(r"\d trials\b", capsys.readouterr().out)
    done = run("pgdyno", "plan", "schema")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["title"] == "pgdyno plan"


def test_a_new_plan_can_be_checked_and_is_not_written_twice(run: Run, tmp_path: Path) -> None:
    assert run("pgdyno", "plan", "new").returncode == 0
    assert run("pgdyno", "plan", "new", "other.toml").returncode == 0
    for file in ("plan.toml", "other.toml"):
        done = run("pgdyno", "plan", "check", file)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"{file}: the plan is valid\n12 trials, 2 min 24 s of measurement, plus ")
    again = run("pgdyno", "plan", "new")
    assert (again.returncode, again.stdout) == (ExitCode.USAGE, "")
    assert "plan.toml already exists" in again.stderr
    assert run("pgdyno", "plan", "new", "x.toml", "--target", "cloud").returncode == ExitCode.USAGE
    assert not (tmp_path / "x.toml").exists()


def test_plan_show_lists_the_points_of_a_sweep(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'extends = "quick"\n[sweep]\nclients = "2..8 doubling"\nworkers = "clients / 2"\n'
        '"settings.work_mem" = ["4MB", "8MB"]\nexclude = ["clients == 4", "clients > 99"]\n[trial]\nrepeats = 2\n'
    )
    shown = run("pgdyno", "plan", "show", "mine.toml").stdout
    assert 'excluded by "clients == 4": 2 points\nexcluded by "clients > 99": nothing\n' in shown
    rows = [line.split() for line in shown.splitlines() if re.match(r" +\d+ +pg18 ", line)]
    assert [row[2] for row in rows] == ["2", "2", "8", "8"] * 2
    assert [{row[-5] for row in rows[at : at + 2]} for at in range(0, 8, 2)] == [{"4MB", "8MB"}] * 4
    assert "8 trials, 40 s of measurement, plus starting servers, loading (1 dataset) and changing" in " ".join(
        shown.split()
    )
    listed = json.loads(run("pgdyno", "plan", "show", "mine.toml", "--json").stdout)
    assert (listed["order"], listed["trials"][1]["slug"]) == ("interleaved", "0002-pg18-c2-w1-4MB")


IMPOSSIBLE = """
run nosuch                                        | USAGE  | plan nosuch does not exist
show                                              | STORE  | there are no runs in pgdyno-runs
show 2026                                         | STORE  | 2026
show --runs typo                                  | STORE  | there are no runs in typo: the folder does not exist
list --runs typo                                  | STORE  | folder typo does not exist
ab --version 18 --set jit=on,off --clients 0      | USAGE  | 0: not a number of clients
ab --version 9.6,18 --set jit=on                  | USAGE  | --version: there is no PostgreSQL 9.6 to
watch "host=127.0.0.1 prt=5"                      | USAGE  | connection string: invalid connection option "prt"
watch "host=127.0.0.1 port=5"                     | TARGET | hint: check host and port
capture "host=x password=y" --into c              | USAGE  | password is not allowed in the connection
frobnicate                                        | USAGE  | No such command
run quick --set nonsense                          | USAGE  | nonsense
run                                               | USAGE  | nothing to run
run quick --redo-failed                           | USAGE  | --redo-failed needs --resume
run quick --resume latest                         | USAGE  | --resume takes the plan from the run itself
run --resume latest --set a=1                     | USAGE  | --resume takes the plan from the run itself
run --resume latest                               | STORE  | there are no runs in pgdyno-runs
run --resume s3://bench/x                         | USAGE  | runs on object storage cannot be resumed
run quick --runs s3://bench/x                     | USAGE  | the folder of runs must be local
report latest --cluster local:2                   | USAGE  | --cluster needs several reports
run quick --keep 2h                               | USAGE  | --keep applies to rented servers, and the plan rents none
run quick --generators local:0                    | USAGE  | --generators: 'local:0' is not a number
copy latest s3://                                 | USAGE  | 's3://' is no address of object storage
copy latest s4://bucket                           | USAGE  | 's4://bucket' is no address of object storage
history nosuch                                    | STORE  | folder nosuch does not exist
show --json --csv                                 | USAGE  | exclude each other
copy latest                                       | USAGE  | pgdyno copy [OPTIONS] RUN... LOCATION
run --resume ./nowhere                            | STORE  | there is no such folder
"""


@pytest.mark.parametrize("line", IMPOSSIBLE.strip().splitlines())
def test_impossible_requests_give_the_reason(run: Run, line: str) -> None:
    words, code, said = (part.strip() for part in line.split("|"))
    done = run("pgdyno", *shlex.split(words))
    assert done.returncode == ExitCode[code]
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_engine_that_is_missing_or_mute_and_an_empty_folder_are_said(run: Run) -> None:
    missing = run("pgdyno", "run", "quick", env={"PGDYNO_PGDRIVE": "/nowhere/pgdrive"})
    assert missing.returncode == ExitCode.ENGINE
    assert "PGDYNO_PGDRIVE names /nowhere/pgdrive, which is not executable" in missing.stderr
    mute = run("pgdyno", "run", "quick", env={"PGDYNO_PGDRIVE": "/bin/false"})
    assert mute.returncode == ExitCode.ENGINE
    done = run("pgdyno", "list")
    assert (done.returncode, done.stdout) == (0, "no runs in pgdyno-runs\n")


def test_exit_codes_are_documented() -> None:
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    rows = re.findall(r"^\| (\d+) \| ([a-z-]+) \|", page, re.MULTILINE)
    assert {(int(code), name.replace("-", "_").upper()) for code, name in rows} == {(c.value, c.name) for c in ExitCode}


def test_output_matches_its_schema() -> None:
    runs = str(ROOT / "tests" / "golden")
    for name, words in (
        ("plan-check", ["plan", "check", "quick"]),
        ("plan-show", ["plan", "show", "quick"]),
        ("plan-cost", ["plan", "cost", "quick"]),
        ("list", ["list", "--runs", runs]),
        ("show", ["show", f"{runs}/run-format-1"]),
        ("analyse", ["analyse", f"{runs}/run-format-1"]),
        ("audit", ["audit", f"{runs}/run-format-1"]),
        ("history", ["history", runs]),
    ):
        validated(name, CliRunner().invoke(app, [*words, "--json"]).stdout)


def test_every_command_with_json_has_a_schema() -> None:
    of = typer.main.get_command(app)
    having = {
        "-".join(words) for words, command in commands(of, ()) if any("--json" in each.opts for each in command.params)
    }
    assert having <= set(SCHEMA["$defs"])
