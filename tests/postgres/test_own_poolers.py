"""Poolers that pgdyno starts between a load and its own server: PgBouncer, or a command of the user's."""

import os
import re
import signal
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode, PlanError
from pgdyno.plan import load_plan
from pgdyno.records import FailureId
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.postgres.runs import fast_plan, pgdyno, running, the_run
from tests.present import present
from tests.processes import command_line, processes_with
from tests.waiting import PATIENCE_S


def own_plan(
    installed: Installation, folder: Path, pooler: str = '{ kind = "pgbouncer", pool = 3 }', **more: str
) -> Path:
    # of a fifth of a second, a busy machine takes so much that the clients' time does not add up
    values = {"connect": "unix", "clients": "8", "duration": "1s", "lasts_s": "0.01", **more}
    (folder / "slow.sql").write_text(f"SELECT pg_sleep({values['lasts_s']});\n")
    server = f'kind = "local"\nbin = "{installed.bin}"\nconnect = "{values["connect"]}"\npooler = {pooler}'
    sweep, trial = f"clients = [{values['clients']}]", f'warmup = "0s"\nduration = "{values["duration"]}"'
    plan = folder / "own.toml"
    plan.write_text(fast_plan('scripts = ["slow.sql"]\ndataset = "none"', sweep, trial, ["own"], server))
    return plan


def poolers(home: Home) -> list[int]:
    return [each for each in processes_with(os.fsencode(home.root)) if b"pgbouncer" in command_line(each)]


def test_one_group_goes_through_the_pooler_and_one_does_not(
    installed: Installation, home: Home, tmp_path: Path
) -> None:
    plan = own_plan(installed, tmp_path)
    text = plan.read_text().replace("clients = [8]\n", "").replace('scripts = ["slow.sql"]\n', "")
    for on, protocol in (("primary", "prepared"), ("pooler", "simple")):
        text += f'[[group]]\nname = "{on}"\non = "{on}"\nscripts = ["slow.sql"]\nclients = 5\n'
        text += f'protocol = "{protocol}"\n'
    plan.write_text(text)
    done = pgdyno(home, tmp_path, "run", str(plan))
    # Debian's PgBouncer has no prepared statements: those of the other group did not go through it
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    wrong = plan.with_name("wrong.toml")
    wrong.write_text(text.replace('on = "primary"', 'on = "pooler"'))
    pgdyno(home, tmp_path, "run", str(wrong), code=ExitCode.TRIALS_FAILED)


@pytest.mark.long_cases("2")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_pooler_ends_with_pgdyno(installed: Installation, warm_home: Home, tmp_path: Path, number: int) -> None:
    folder = tmp_path / "ended"
    folder.mkdir()
    with running(warm_home, folder, own_plan(installed, folder, duration="1h")) as process:
        (pid,) = poolers(warm_home)
        files = next(warm_home.instances.glob("*/pooler"))
        assert files.stat().st_mode & 0o777 == 0o700
        assert {file.stat().st_mode & 0o777 for file in files.iterdir()} == {0o600}
        assert Path(f"/proc/{pid}").stat().st_uid == files.stat().st_uid
        process.send_signal(number)
        process.wait(PATIENCE_S)
    pgdyno(warm_home, tmp_path, "run", str(own_plan(installed, tmp_path, connect="tcp")), code=0)
    (target,) = the_run(tmp_path).manifest.targets
    said = present(present(target.facts).pooler)
    assert re.fullmatch(r"PgBouncer \d+\.\d+\.\d+, transaction pooling, pool of 3", said)
    assert not poolers(warm_home)
    assert not list(warm_home.instances.glob("*/pooler"))


def test_a_trial_fails_with_the_last_words_of_its_pooler(
    installed: Installation, warm_home: Home, tmp_path: Path
) -> None:
    with running(warm_home, tmp_path, own_plan(installed, tmp_path, duration="1h")) as process:
        (pid,) = poolers(warm_home)
        os.kill(pid, signal.SIGTERM)
        process.wait(PATIENCE_S)
    (trial,) = the_run(tmp_path).trials()
    failure = present(trial.failure)
    assert failure.id == FailureId.POOLER_ENDED
    assert "ended with exit code" in failure.message
    assert "SIGTERM" in failure.message


def test_a_pool_is_the_limit_and_parts_of_latency_add_up(installed: Installation, home: Home, tmp_path: Path) -> None:
    # on a busy machine, a session of the server waits for its next statement: long ones, and many, as the waits of the
    # last are counted without themselves
    pool_of_5 = '{ kind = "pgbouncer", pool = 5 }'
    plan = own_plan(installed, tmp_path, pool_of_5, clients="50", duration="10s", lasts_s="0.03")
    done = pgdyno(home, tmp_path, "run", str(plan), code=0)
    (trial,) = the_run(tmp_path).trials()
    pooler, summary = present(present(trial.probe).pooler), present(trial.summary)
    queue_ms, server_ms = present(pooler.queue_ms), present(pooler.server_ms)
    assert pooler.servers_active == pytest.approx(5, rel=0.1)
    assert pooler.clients_waiting == pytest.approx(45, rel=0.15)
    # by counters of the pooler and by the clients' clocks, which count that a busy machine is late to both, too
    mean_ms = present(present(summary.latency_ns).mean) / 1e6
    assert 0.85 * mean_ms < queue_ms + server_ms < 1.03 * mean_ms
    # by samples of its sessions (Little's law)
    assert server_ms == pytest.approx(1e3 * present(pooler.servers_active) / summary.tps, rel=0.1)
    assert "limited by the pool of 5" in done.stdout
    assert "queue, ms" in done.stdout


@pytest.mark.long_cases("no console")
@pytest.mark.parametrize("stats", ["stats_users = $PGUSER", ""], ids=["console", "no console"])
def test_a_command_is_a_pooler(installed: Installation, home: Home, scratch: Path, tmp_path: Path, stats: str) -> None:
    script = scratch / "pooler.sh"
    script.write_text(
        """#!/bin/sh
cd "$PGDYNO_POOLER_FOLDER"
cat >NAME <<END
[databases]
$PGDATABASE = host=$PGHOST port=$PGPORT
[pgbouncer]
listen_addr = $PGDYNO_POOLER_HOST
listen_port = $PGDYNO_POOLER_PORT
unix_socket_dir =
auth_type = scram-sha-256
auth_file = users
pool_mode = $PGDYNO_POOLER_MODE
default_pool_size = $PGDYNO_POOLER_POOL
STATS
END
echo "\\"$PGUSER\\" \\"$PGPASSWORD\\"" >users
PATH=$PATH:/usr/sbin pgbouncer NAME &
wait
""".replace("STATS", stats).replace("NAME", scratch.name)
    )
    script.chmod(0o755)
    plan = own_plan(
        installed, tmp_path, f'{{ kind = "command", command = "{script}", pool = 2 }}', connect="tcp", duration="2s"
    )
    pgdyno(home, tmp_path, "run", str(plan), code=0)
    (trial,) = the_run(tmp_path).trials()
    # its console is asked as PgBouncer's is
    assert (present(present(trial.probe).pooler).samples > 0) == bool(stats)
    notes = {note.id for note in the_run(tmp_path).manifest.note_details}
    assert ("pooler-unknown" in notes) == (not stats)
    # the shell's child ends, too
    assert not processes_with(scratch.name.encode())


def test_a_pooler_that_does_not_start(installed: Installation, home: Home, tmp_path: Path) -> None:
    for pooler, problem in (
        ('kind = "pgbouncer", settings = { no_such_key = 1 }', "cannot start the pooler: PgBouncer"),
        ('kind = "command", command = "echo no such host; exit 3"', "ended with exit code 3: no such host"),
    ):
        done = pgdyno(home, tmp_path, "run", str(own_plan(installed, tmp_path, f"{{ {pooler} }}")))
        assert done.returncode != 0
        assert problem in " ".join((done.stdout + done.stderr).split())
        assert "Traceback" not in done.stderr


def test_a_wrong_pooler_is_refused(installed: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def problem(pooler: str) -> str:
        with pytest.raises(PlanError) as caught:
            load_plan(own_plan(installed, tmp_path, f"{{ {pooler} }}"))
        (found,) = caught.value.problems
        return f"{found.path}: {found.message} {found.hint}"

    assert "target.own.pooler.pool: must be at least 1, not 0" in problem('kind = "pgbouncer", pool = 0')
    fixed = problem('kind = "pgbouncer", settings = { listen_port = 1 }')
    assert "pooler.settings.listen_port: cannot be set" in fixed
    assert 'command belongs to kind = "command", which needs it' in problem('kind = "command"')
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pgdyno.plan.targets._PLACES_OF_PROGRAMS", ())
    assert "apt-get install pgbouncer" in problem('kind = "pgbouncer"')
