"""[[event]], trial.reconnect and trial.ledger of a plan: errors with their lines, and resolved values."""

from pathlib import Path

import pytest

from pgdyno.plan import Plan
from pgdyno.plan.output.plan_output import in_each_trial
from pgdyno.records import Point
from pgdyno.report.plan_toml import plan_toml
from pgdyno.run.engine import trial_options
from tests.unit.plan_sample import load, problems, small_plan, the_problem

PLAN = small_plan('scripts = ["tpcb-like"]', new="18")


@pytest.fixture(autouse=True)
def sql_files(tmp_path: Path) -> None:
    (tmp_path / "plain.sql").write_text("INSERT INTO t VALUES (1);\n")
    (tmp_path / "books.sql").write_text("INSERT INTO pgdyno_ledger (client, seq) VALUES (:client_id, :ledger_seq);\n")


def event(text: str) -> str:
    return f"{PLAN}[[event]]\n{text}\n"


def options(plan: Plan) -> list[str]:
    return trial_options(plan, Point(clients=1), 1, Path("phases.toml"))


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ('at = "3s"\ndo = "restrat"', "event[0].do", "is not known"),
        ('at = "3s"\ndo = { comand = "true" }', "event[0].do", "is not known"),
        ('at = "3s"\ndo = { command = " " }', "event[0].do", "write the command as text"),
        ('at = 3\ndo = "kill"', "event[0].at", "give the duration a unit"),
        ('do = "kill"', "event[0].at", "is missing"),
        ('at = "10s"\ndo = "kill"', "event[0].at", "is after the trial's end at 10s"),
        ('at = "8s"\ndo = "pause"\nfor = "3s"', "event[0].for", "ends after the trial's end at 10s"),
        ('at = "8s"\ndo = "pause"', "event[0]", "lacks the duration of the pause"),
        ('at = "8s"\ndo = "kill"\nfor = "1s"', "event[0].for", "applies to a pause, not to a kill"),
        ('at = "8s"\ndo = "promote"', "event[0].do", "is not possible at target new: it has no replica"),
        ('at = "8s"\ndo = "kill"\nfro = "1s"', "event[0].fro", "unknown key"),
    ],
)
def test_errors_in_events_are_reported_with_their_line(tmp_path: Path, text: str, field: str, message: str) -> None:
    problem = the_problem(tmp_path, event(text))
    assert problem.path == field
    assert message in problem.message
    assert problem.line is not None
    assert problem.line > PLAN.count("\n")


DSN = PLAN.replace('kind = "embedded"\nversion = "18"', 'kind = "dsn"\ndsn = "host=db.example.net user=bench"')
FOLLOWED = PLAN.replace("[workload]", "[target.new.replicas]\ncount = 1\n[workload]")


@pytest.mark.parametrize("do", ["restart", "kill", "pause", "promote"])
def test_events_that_need_an_own_server_are_refused_over_the_network(tmp_path: Path, do: str) -> None:
    lasts = 'for = "1s"\n' if do == "pause" else ""
    problem = the_problem(tmp_path, f'{DSN}[[event]]\nat = "1s"\n{lasts}do = "{do}"\n')
    assert problem.path == "event[0].do"
    assert "is not possible at target new: pgdyno does not run that server" in problem.message
    assert problem.hint == 'use a command of your own: do = { command = "..." }'
    assert problem.line == DSN.count("\n") + (4 if lasts else 3)


@pytest.mark.parametrize("do", ['"checkpoint"', '"vacuum"', '{ command = "true" }'])
def test_events_that_need_only_a_connection_are_possible_over_the_network(tmp_path: Path, do: str) -> None:
    (event,) = load(tmp_path, f'{DSN}[[event]]\nat = "1s"\ndo = {do}\n').event
    assert event.at == 1


@pytest.mark.parametrize(
    ("before", "after", "wrong"),
    [
        ('at = "1s"\ndo = "kill"', 'at = "3s"\ndo = "promote"', None),
        ('at = "1s"\ndo = "promote"', 'at = "3s"\ndo = "checkpoint"', None),
        ('at = "1s"\ndo = "promote"', 'at = "3s"\ndo = "kill"', "event[1].do"),
        ('at = "1s"\ndo = "promote"', 'at = "3s"\ndo = "promote"', "event[1].do"),
        ('at = "3s"\ndo = "restart"', 'at = "1s"\ndo = "promote"', "event[0].do"),
        ('at = "1s"\ndo = "pause"\nfor = "3s"', 'at = "2s"\ndo = "promote"', "event[0].do"),
    ],
)
def test_no_event_may_follow_a_promote(tmp_path: Path, before: str, after: str, wrong: str | None) -> None:
    text = f"{FOLLOWED}[[event]]\n{before}\n[[event]]\n{after}\n"
    if wrong is None:
        assert len(load(tmp_path, text).event) == 2
        return
    problem = the_problem(tmp_path, text)
    assert problem.path == wrong
    assert "is after the promote at " in problem.message
    assert problem.line is not None


def test_clients_come_back_where_events_drop_connections(tmp_path: Path) -> None:
    plan = load(tmp_path, event('at = "3s"\ndo = "kill"'))
    assert plan.reconnect() == plan.as_resolved()["trial"]["reconnect"] == "always"
    assert "--reconnect" in options(plan)
    assert in_each_trial(plan) == ["in each trial: kill at 3s", "clients that lose their connection reconnect"]
    quiet = load(tmp_path, event('at = "3s"\ndo = "checkpoint"'))
    assert quiet.reconnect() == "off"
    assert not any(option.startswith("--reconnect") for option in options(quiet))


def test_the_time_for_reconnecting_can_be_limited(tmp_path: Path) -> None:
    plan = load(
        tmp_path, event('at = "3s"\ndo = { command = "true" }').replace("[trial]", '[trial]\nreconnect = "30s"')
    )
    assert plan.as_resolved()["trial"]["reconnect"] == 30
    assert "--reconnect=30s" in options(plan)
    assert "or give up after 30 s" in in_each_trial(plan)[1]


@pytest.mark.parametrize(("value", "message"), [("30", 'write "off"'), ('"soon"', "not a duration"), ('"0s"', "more")])
def test_a_wrong_patience_is_said(tmp_path: Path, value: str, message: str) -> None:
    problem = the_problem(tmp_path, PLAN + f"reconnect = {value}\n")
    assert (problem.path, problem.line) == ("trial.reconnect", PLAN.count("\n") + 1)
    assert message in problem.message + (problem.hint or "")


def test_clients_may_not_stay_away_where_events_send_them(tmp_path: Path) -> None:
    problem = the_problem(tmp_path, event('at = "3s"\ndo = "restart"').replace("[trial]", '[trial]\nreconnect = "off"'))
    assert (problem.path, problem.hint) == ("trial.reconnect", "remove it: clients then reconnect")


@pytest.mark.parametrize(
    ("scripts", "writes"),
    [
        ('["tpcb-like"]', True),
        ('["select-only@9", "simple-update"]', True),
        ('["books.sql"]', True),
        ('["select-only"]', False),
        ('["plain.sql"]', False),
    ],
)
def test_a_ledger_that_nobody_writes_into_is_refused(tmp_path: Path, scripts: str, writes: bool) -> None:
    text = PLAN.replace('["tpcb-like"]', scripts) + "ledger = true\n"
    if writes:
        assert "--ledger" in options(load(tmp_path, text))
        return
    problem = the_problem(tmp_path, text)
    assert (problem.path, problem.line) == ("trial.ledger", PLAN.count("\n") + 1)
    assert ":ledger_seq" in (problem.hint or "")


def test_a_resolved_plan_is_read_again_as_it_was(tmp_path: Path) -> None:
    text = event('at = "3s"\ndo = "pause"\nfor = "2s"\n[[event]]\nat = "6s"\ndo = { command = "sync" }')
    plan = load(tmp_path, text)
    resolved = plan.as_resolved()
    assert resolved["event"][0] == {"at": 3.0, "do": "pause", "for": 2.0}
    assert Plan.from_resolved(resolved).as_resolved() == resolved
    assert load(tmp_path, plan_toml(resolved)).as_resolved() == resolved
    assert "event" not in load(tmp_path, PLAN).as_resolved()


def test_a_load_that_connects_for_each_transaction_counts_refusals_unless_its_clients_reconnect(tmp_path: Path) -> None:
    each = PLAN.replace("[sweep]", 'connect = "each"\n[sweep]')
    assert {"--connect", "--count-refusals"} <= set(options(load(tmp_path, each)))
    killed = options(load(tmp_path, f'{each}[[event]]\nat = "3s"\ndo = "kill"\n'))
    assert {"--connect", "--reconnect"} <= set(killed)
    assert "--count-refusals" not in killed


def test_a_load_that_connects_for_each_transaction_may_have_more_clients_than_the_server(tmp_path: Path) -> None:
    small = PLAN.replace("[workload]", "settings = { max_connections = 10 }\n[workload]").replace(
        "clients = 1", "clients = 40"
    )
    assert "40 clients are too many" in problems(tmp_path, small)[0].message
    assert load(tmp_path, small.replace("[sweep]", 'connect = "each"\n[sweep]')).workload.connect == "each"
