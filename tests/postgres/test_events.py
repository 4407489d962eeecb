"""Events during trials of a real server, and the commit ledger compared with the server's rows."""

import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode, TargetError
from pgdyno.plan.model import EventSpec
from pgdyno.records import EventOutcome, EventRecord, Outcome, TrialRecord
from pgdyno.run.commit_ledger import Page, check_ledger
from pgdyno.run.event_injection import Cutoff
from pgdyno.store import RunFolder, load_run
from pgdyno.targets import Acts, Home, Server, event_actions
from pgdyno.targets.cluster.postmaster import find_postmaster
from pgdyno.targets.cluster.processes import PROC, descendants, servers_in, start_ticks
from pgdyno.targets.connection import Address
from pgdyno.targets.event_actions import pause_server
from tests.postgres.own_servers import UNHURRIED
from tests.postgres.runs import fast_plan, run_plan_text, the_run
from tests.postgres.servers import value
from tests.present import present
from tests.waiting import PATIENCE_S, wait_until

COUNT = """
import os
import psycopg
row = psycopg.connect("").execute(
    "SELECT (SELECT count(*) FROM pgdyno_ledger), (SELECT count(*) FROM pgbench_history),"
    " (SELECT count(*) FROM (SELECT DISTINCT client, seq FROM pgdyno_ledger) d)"
).fetchone()
with open(os.path.join(os.environ["PGDYNO_TRIAL_DIR"], "counted"), "w") as file:
    file.write(" ".join(map(str, row)))
for name, variable in (("data", "PGDYNO_DATA_DIRECTORY"), ("replicas", "PGDYNO_REPLICA_DIRECTORIES")):
    with open(os.path.join(os.environ["PGDYNO_TRIAL_DIR"], name), "w") as file:
        file.write(os.environ.get(variable, ""))
"""
BEFORE = f"""\
import psycopg
with psycopg.connect("") as connection:
    connection.execute({UNHURRIED!r})
"""


def plan_of(events: str, commit: str = "on", seconds: float = 3, version: str = "18", replicas: str = "") -> str:
    """Returns a plan whose hook after each trial sees the tables as the trial left them."""
    settings = f'fsync = "off", shared_buffers = "32MB", synchronous_commit = "{commit}", wal_writer_delay = "1s"'
    server = f'kind = "embedded"\nversion = "{version}"\nsettings = {{ {settings} }}\n{replicas}'
    hooks = f'[hooks]\nafter_trial = ["{sys.executable}", "count.py"]'
    # a standby takes over too fast for clients that are seldom in doubt: all of them are to be away for a moment
    hooks += "" if replicas else f'\nbefore_trial = ["{sys.executable}", "unhurried.py"]'
    sweep = 'clients = 4\nprotocol = "prepared"' + ("\nrate = 200" if replicas else "")
    trial = f'warmup = "0.5s"\nduration = "{seconds}s"\nledger = true\n{hooks}\n{events}'
    return fast_plan('scripts = ["tpcb-like"]\nscale = 1', sweep, trial, ["pg18"], server)


def run(home: Home, folder: Path, text: str, *options: str) -> tuple[RunFolder, str]:
    (folder / "count.py").write_text(COUNT)
    (folder / "unhurried.py").write_text(BEFORE)
    done = run_plan_text(home, folder, text, *options)
    assert done.returncode in (ExitCode.OK, ExitCode.TRIALS_FAILED), done.stderr
    return the_run(folder), done.stdout


def event(do: str, more: str = "", at: str = "0.5s") -> str:
    return f'[[event]]\nat = "{at}"\ndo = {do}\n{more}\n'


def assert_it_balances(trial: TrialRecord, folder: RunFolder) -> None:
    """Every row belongs to a transaction that was acknowledged or is unknown; and the history has as many rows."""
    ledger = present(trial.ledger)
    (file,) = folder.path.glob("trials/*/counted")
    # counted by SQL alone
    rows, history, distinct = map(int, file.read_text().split())
    assert (ledger.present, ledger.duplicates, ledger.strange) == (distinct, 0, 0)
    assert rows == distinct == history
    assert ledger.present == ledger.acknowledged - ledger.missing + ledger.unknown_present + ledger.refused_present
    assert sum(each.last - each.first + 1 for each in ledger.missing_ranges) == ledger.missing
    assert ledger.unknown_present <= ledger.unknown
    assert ledger.refused_present == 0


def read_balanced_trial(folder: RunFolder) -> tuple[TrialRecord, EventRecord]:
    """Returns the only trial, whose ledger balances, and its only event."""
    (trial,) = folder.trials()
    assert trial.outcome is Outcome.FINISHED, trial.failure
    assert_it_balances(trial, folder)
    (found,) = trial.events
    assert found.outcome is EventOutcome.DONE, found
    # a busy machine may be late, and begins no event before its time
    assert present(found.began_s) > 0.49
    return trial, found


@pytest.mark.long
@pytest.mark.parametrize("commit", ["on", "off"])
def test_a_crash_takes_away_only_what_was_not_yet_on_disk(warm_home: Home, tmp_path: Path, commit: str) -> None:
    folder, shown = run(warm_home, tmp_path, plan_of(event('"kill"'), commit, seconds=7))
    trial, kill = read_balanced_trial(folder)
    ledger, effect = present(trial.ledger), present(kill.effect)
    if commit == "on":
        assert ledger.missing == 0
    assert ledger.acknowledged > 100
    assert effect.nobody_served_s > 0
    assert effect.first_success_s is not None
    assert 1 <= effect.lost <= effect.connections_lost == 4
    assert present(trial.summary).failed == effect.failed
    assert f"{ledger.acknowledged:,} acknowledged, {ledger.missing:,} of them missing" in shown
    assert f"Kill at {present(kill.began_s):.1f}" in shown
    kinds = [row.kind for row in load_run(folder).events(trial.number)]
    assert kinds.count("plan_event") == 1
    assert [kind for kind in kinds if not kind.startswith("probe_")][-1] == "end"


@pytest.mark.long
def test_a_restart_loses_nothing_that_was_acknowledged(warm_home: Home, tmp_path: Path) -> None:
    trial, restart = read_balanced_trial(run(warm_home, tmp_path, plan_of(event('"restart"'), "off", seconds=7))[0])
    assert present(trial.ledger).missing == 0
    assert present(restart.effect).connections_lost == 4
    # clients have no server until the restart ends
    assert restart.seconds is not None
    assert present(restart.effect).all_away_s > 0


def test_a_pause_is_a_stretch_without_service_and_no_connection_is_lost(warm_home: Home, tmp_path: Path) -> None:
    trial, pause = read_balanced_trial(run(warm_home, tmp_path, plan_of(event('"pause"', 'for = "1s"')))[0])
    effect = present(pause.effect)
    assert effect.nobody_served_s > 0.9
    assert (effect.lost, effect.connections_lost) == (0, 0)
    assert (present(trial.ledger).missing, present(trial.ledger).refused) == (0, 0)


def test_a_command_that_fails_makes_the_trial_none(warm_home: Home, tmp_path: Path) -> None:
    command = "echo port $PGPORT; echo refused >&2; exit 3"
    folder, shown = run(warm_home, tmp_path, plan_of(event(f'{{ command = "{command}" }}'), seconds=2))
    (trial,) = folder.trials()
    assert trial.outcome is Outcome.FAILED
    (log,) = folder.path.glob("trials/*/log/events.log")
    said = f"the command ended with exit code 3: refused; its output is in {log.relative_to(tmp_path)}"
    assert f"event 1 of the plan (command at 0.5s) failed: {said}" in present(trial.failure).message
    assert log.read_text().startswith("port ")
    assert "Trials that did not finish" in shown


@pytest.mark.long_cases("-2]")
@pytest.mark.parametrize(("version", "repeats"), [("18", 1), ("18", 2), ("13", 2), ("10", 2)])
def test_clients_follow_a_replica_that_takes_over(home: Home, tmp_path: Path, version: str, repeats: int) -> None:
    events = event('"promote"', at="1s") + event('"checkpoint"', at="3s")
    text = plan_of(events, seconds=4, version=version, replicas='replicas = { count = 2, synchronous = "on" }')
    folder, _ = run(home, tmp_path, text, "--set", f"trial.repeats={repeats}")
    trials = folder.trials()
    # the second trial begins with a primary and two replicas again
    assert [trial.outcome for trial in trials] == [Outcome.FINISHED] * repeats
    for trial in trials:
        promote, checkpoint = trial.events
        assert (promote.outcome, checkpoint.outcome) == (EventOutcome.DONE, EventOutcome.DONE)
        assert "processes killed, the replica took over after " in (promote.message or "")
        # all clients lost the primary, and found the standby
        effect = present(promote.effect)
        assert effect.connections_lost == 4
        assert effect.all_away_s > 0
        assert effect.first_success_s is not None
        ledger = present(trial.ledger)
        # commits waited for the standby: it has all that was answered, and more went on there
        assert (ledger.missing, ledger.duplicates, ledger.strange, ledger.refused_present) == (0, 0, 0, 0)
        assert ledger.present == ledger.acknowledged + ledger.unknown_present
        counted_rows = (folder.trials_path / trial.slug / "counted").read_text().split()
        assert [int(count) for count in counted_rows] == [ledger.present] * 3
        (made,) = [step.detail for step in present(trial.prepare).steps if step.name == "replicas"]
        assert str(made).startswith("2: ")
        assert [lag.name for lag in trial.replication] == ["pgdyno_1", "pgdyno_2"]
        assert present(trial.read_order).reads > 50
    assert repeats == 1 or any("starts the original primary again" in note for note in folder.manifest.notes)
    for place in ("data", "replicas"):
        for directory in (folder.trials_path / trials[-1].slug / place).read_text().split(":"):
            assert servers_in(Path(directory)) == []


# ---- acts on a server, without a load ----


@pytest.fixture
def acts(server: Server, tmp_path: Path) -> Acts:
    return Acts(server, tmp_path, tmp_path / "events.log", "the log")


def spec(do: object, **more: str) -> EventSpec:
    return EventSpec.model_validate({"at": "0s", "do": do, **more})


def test_statements_are_done_and_can_be_stopped(acts: Acts, server: Server) -> None:
    assert [acts(spec(do), Cutoff()) for do in ("checkpoint", "vacuum")] == [None, None]
    cut = Cutoff()
    with server.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS locked ()")
        with connection.transaction():
            connection.execute("LOCK TABLE locked IN ACCESS EXCLUSIVE MODE")
            waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            with cutting(cut, lambda: value(server, waits)), pytest.raises(TargetError, match="57014"):
                acts(spec("vacuum"), cut)
        connection.execute("DROP TABLE locked")
    # the trial is over by now
    with pytest.raises(TargetError, match="the trial ended before"):
        acts(spec("vacuum"), cut)


@contextmanager
def cutting(cut: Cutoff, when: Callable[[], object]) -> Iterator[None]:
    """The trial ends during the block."""

    def end() -> None:
        wait_until(when)
        cut.cut()

    thread = threading.Thread(target=end)
    thread.start()
    yield
    thread.join()


@pytest.mark.parametrize("ignores", ["", "trap '' TERM; "])
def test_commands_end_with_children(acts: Acts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignores: str) -> None:
    monkeypatch.setattr(event_actions, "_END_S", 0.5)
    cut, child = Cutoff(), tmp_path / "child"
    with (
        cutting(cut, lambda: child.exists() and child.read_text() != ""),
        pytest.raises(TargetError, match="exit code"),
    ):
        acts(spec({"command": f"({ignores}exec sleep 987) & echo $! > child; wait"}), cut)
    # the signal was sent by then; the process may end later
    wait_until(lambda: start_ticks(int(child.read_text())) is None)


def test_a_command_may_connect_elsewhere_with_an_option(acts: Acts, tmp_path: Path) -> None:
    address = Address({**acts.server.address.parameters, "hostaddr": "127.0.0.1"}, acts.server.password)
    server = replace(acts.server, address=address)
    command = 'echo "${PGHOSTADDR:-none} $PGHOST" > said'
    replace(acts, server=server)(spec({"command": command}), Cutoff())
    assert (tmp_path / "said").read_text() == f"none {server.host}\n"
    only = Address({"hostaddr": "127.0.0.1", "port": "1"})
    replace(acts, server=replace(server, address=only))(spec({"command": command}), Cutoff())
    assert (tmp_path / "said").read_text() == "none 127.0.0.1\n"


def test_a_command_that_asks_has_the_password_and_no_message(
    acts: Acts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts(spec({"command": "echo of another command"}), Cutoff())
    with pytest.raises(TargetError) as silent:
        acts(spec({"command": "exit 2"}), Cutoff())
    assert silent.value.message == "the command ended with exit code 2; its output is in the log"
    with pytest.raises(TargetError) as told:
        acts(spec({"command": "echo for $PGPASSWORD; exit 2", "password": True}), Cutoff())
    assert told.value.message == "the command ended with exit code 2: for ********; its output is in the log"
    monkeypatch.setenv("PGPASSWORD", "of whoever started pgdyno")
    command = 'echo "${PGPASSWORD-none} $PGUSER" > said'
    acts(spec({"command": command}), Cutoff())
    assert (tmp_path / "said").read_text() == "none postgres\n"
    acts(spec({"command": command, "password": True}), Cutoff())
    assert (tmp_path / "said").read_text() == f"{acts.server.password} postgres\n"


def states(server: Server) -> set[str]:
    postmaster = present(find_postmaster(server.data_directory))
    stats = [(PROC / str(each.pid) / "stat").read_text() for each in [postmaster, *descendants(postmaster)]]
    return {stat.rpartition(")")[2].split()[0] for stat in stats}


def test_a_paused_server_goes_on_whatever_ends_the_pause(server: Server) -> None:
    postmaster = present(find_postmaster(server.data_directory))

    def interrupted() -> None:
        with pause_server(postmaster):
            wait_until(lambda: states(server) == {"T"})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "T" not in states(server)


def test_a_paused_server_goes_on_when_pgdyno_is_killed(server: Server) -> None:
    def pause() -> None:
        with pause_server(present(find_postmaster(server.data_directory))):
            time.sleep(PATIENCE_S)

    child = multiprocessing.get_context("fork").Process(target=pause)
    child.start()
    try:
        wait_until(lambda: states(server) == {"T"})
    finally:
        child.kill()
        child.join()
    wait_until(lambda: "T" not in states(server))
    assert value(server, "SELECT 1") == 1


def test_a_target_without_a_replica_has_nothing_to_promote_and_is_left_alone(acts: Acts, server: Server) -> None:
    with pytest.raises(TargetError, match="cannot promote a replica: the target has none"):
        acts(spec("promote"), Cutoff())
    server.connect().close()


def test_the_table_is_compared_row_by_row(server: Server) -> None:
    heard = {0: Page(10, [(4, 5)], [(7, 7)]), 1: Page(3, (), ())}
    with server.connect() as connection:
        connection.execute("CREATE TEMP TABLE pgdyno_ledger (client integer NOT NULL, seq bigint NOT NULL)")
        connection.execute(
            "INSERT INTO pgdyno_ledger SELECT 0, g FROM generate_series(1, 12) g WHERE g NOT IN (2, 3, 4)"
        )
        connection.execute("INSERT INTO pgdyno_ledger VALUES (0, 1), (1, 1), (1, 2), (1, 3), (7, 1)")
        found = check_ledger(heard, connection)
    assert (found.acknowledged, found.missing) == (10, 2)
    assert [(each.client, each.first, each.last) for each in found.missing_ranges] == [(0, 2, 3)]
    assert (found.unknown, found.unknown_present) == (2, 1)
    assert (found.refused, found.refused_present) == (1, 1)
    assert (found.present, found.duplicates, found.strange) == (13, 1, 3)
