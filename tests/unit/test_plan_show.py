"""Plans and their problems as text."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from pgdyno.errors import PlanError, Problem
from pgdyno.plan import load_plan
from pgdyno.plan.output.plan_output import check_text, problem_lines, total
from pgdyno.plan.output.show_plan import show_json, show_lines

PROBLEMS = [
    Problem("target.pg18.version", "is missing", 12, 'such as version = "18"'),
    Problem("workload.scripts[0]", "it is " + "very " * 30 + "wrong"),
    Problem("", "is invalid TOML: invalid value", 3),
]


def shown(overrides: list[str]) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(show_lines(load_plan("quick", overrides)))
    return out.getvalue()


def test_problems_name_file_line_and_field() -> None:
    lines = check_text(PROBLEMS, "quick.toml").splitlines()
    assert lines[0] == "quick.toml:12: target.pg18.version: is missing"
    assert lines[1] == '    such as version = "18"'
    assert lines[2].startswith("quick.toml: workload.scripts[0]: it is very")
    assert lines[-1] == "quick.toml:3: is invalid TOML: invalid value"
    assert max(map(len, lines)) <= 80


def test_a_long_path_is_not_torn() -> None:
    path = "/" + "x" * 100
    assert path in check_text([Problem("target.a.bin", f"there is no folder {path}")], "p.toml", 40).splitlines()[-1]


def test_no_problems() -> None:
    assert check_text([], "quick.toml") == "quick.toml: no problems"


def test_the_lines_of_an_error_are_the_same() -> None:
    assert problem_lines(PlanError("a.toml", PROBLEMS)) == check_text(PROBLEMS, "a.toml").splitlines()


def test_hosts_of_the_load_are_shown() -> None:
    assert "load from" not in shown([])
    assert "load from local:2, ssh://a\n" in "\n".join(
        each.rstrip() for each in shown(['generators=["local:2", "ssh://a"]']).split("\n")
    )


def test_the_trials_of_a_plan_hold_80_columns() -> None:
    text = shown(["sweep.workers=[1]", 'sweep.protocol=["simple","prepared"]', "target.pg18.settings.jit=off"])
    assert max(len(line) for line in text.splitlines()) <= 80
    rows = [line.split() for line in text.splitlines()]
    assert ["1", "pg18", "2", "1", "simple", "10", "1", "1s", "+", "4s"] in rows
    assert ["36", "pg18", "64", "1", "prepared", "10", "3", "1s", "+", "4s"] in rows
    assert "36 trials, 3 min of measurement, plus starting servers and loading (1 dataset)" in text
    assert "target pg18: PostgreSQL 18, embedded, 1 setting changed" in text
    assert "before each trial: vacuum tellers and branches, empty the history; checkpoint" in text
    assert "plus about 1 min 03 s for the steps before each trial and the checks after it" in text


@pytest.mark.parametrize(
    ("dataset", "line"),
    [
        ("none", "2 trials, 1 min of measurement\n"),
        ("pgbench", "2 trials, 1 min of measurement, plus loading (1 dataset)\n"),
    ],
)
def test_a_server_that_exists_is_not_started(dataset: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT 1;")
    plan = tmp_path / "plan.toml"
    plan.write_text(f"""\
name = "own"
[target.test]
kind = "dsn"
dsn = "host=db.example.net"
database = "app"
allow_existing = true
[workload]
scripts = ["q.sql"]
dataset = "{dataset}"
[sweep]
clients = [1, 4]
[trial]
duration = "30s"
""")
    assert line in total(load_plan(plan).plan)


def test_settings_have_columns_while_there_is_room() -> None:
    text = shown(['sweep.settings.work_mem=["4MB","8MB"]', "sweep.settings.jit=off", "sweep.clients=4"])
    assert "every trial: jit off" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["trial", "target", "clients", "protocol", "scale", "work_mem", "repeat", "length"] in rows
    # the other value comes first where no seed is given
    assert ["2", "pg18", "4", "prepared", "10", "4MB", "1", "1s", "+", "4s"] in rows


def test_the_trials_of_tpch_have_no_scale_of_another_unit() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(show_lines(load_plan("tpch")))
    rows = [line.split() for line in out.getvalue().splitlines()]
    assert ["trial", "target", "clients", "work_mem", "repeat", "length"] in rows
    assert ["2", "pg18", "2", "4MB", "1", "power", "+", "throughput"] in rows


@pytest.mark.parametrize("plan", ["pgecons-tprocc", "aurora-sysbench"])
def test_workloads_that_send_statements_in_their_own_way_have_no_protocol(plan: str) -> None:
    out = io.StringIO()
    Console(file=out, width=200).print(show_lines(load_plan(plan)))
    assert " clients " in out.getvalue()
    assert "protocol" not in out.getvalue()


def test_many_settings_share_a_column() -> None:
    names = ("shared_buffers", "synchronous_commit", "wal_compression", "auto_explain.log_min_duration")
    text = shown([*(f"sweep.settings.{name}=[1,2]" for name in names), "sweep.clients=4", "trial.repeats=1"])
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.split()[:5] == ["1", "pg18", "4", "prepared", "10"] for line in lines)
    assert all(name in text.replace("\n", "").replace(" ", "") for name in names[:3])


def test_a_limit_in_transactions_has_no_time() -> None:
    # an override cannot remove a key
    plan = load_plan("quick").plan
    trial = plan.trial.model_copy(update={"duration": None, "warmup": 0.0, "transactions": 1000})
    loaded = load_plan("quick")
    changed = type(loaded)(plan.model_copy(update={"trial": trial}), loaded.source, loaded.text, loaded.folder)
    out = io.StringIO()
    Console(file=out, width=80).print(show_lines(changed))
    assert "1,000 tx/client" in out.getvalue()
    assert "18 trials; each ends after 1,000 transactions per client" in out.getvalue()


def test_show_as_json() -> None:
    data = json.loads(show_json(load_plan("quick", ["trial.repeats=1"])))
    assert (data["source"], data["measuring_s"], len(data["trials"])) == ("quick", 30.0, 6)
    assert data["trials"][2] == {
        "number": 3,
        "slug": "0003-pg18-c8",
        "target": "pg18",
        "repeat": 1,
        "block": 1,
        "control": False,
        "clients": 8,
        "workers": None,
        "protocol": "prepared",
        "scale": 10,
        "rate": None,
        "settings": {},
        "variables": {},
        "group": None,
        "step": None,
        "groups": {},
        "connect": None,
    }
    assert data["plan"]["trial"]["on_failure"] == "continue"


def test_a_search_is_counted_by_nobody() -> None:
    assert total(load_plan("quick", ["search.find=peak"]).plan) == (
        "searches for the peak of throughput from 2 to 64 clients; 3 trials per step; "
        "the number of steps depends on the results"
    )
