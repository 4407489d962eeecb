"""A run of tpch that is killed in the middle of its throughput run, on a server that remains, and resumed."""

import subprocess
import sys
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Outcome
from pgdyno.targets import Home, Server
from tests.forked import PGDYNO, run_pgdyno
from tests.postgres.runs import Hold, environment, the_run
from tests.postgres.test_resume import wait_for_no_engines, whole
from tests.waiting import wait_until

DATABASE = "killed_tpch"
PLAN = f"""\
name = "killed"
[target.server]
kind = "dsn"
dsn = "dbname=postgres"
database = "{DATABASE}"
[workload]
name = "tpch"
scale_factor = 0.01
[sweep]
clients = 2
[trial]
repeats = 3
[hooks]
before_trial = ["{sys.executable}", "hook.py"]
"""
SECOND = 2
"""Which RF1 does not end: the first is that of the power run, the second that of a stream of the throughput run."""
HOOK = """\
import os
import psycopg

if (os.environ["PGDYNO_ATTEMPT"], os.environ["PGDYNO_REPEAT"]) == ("1", "2"):
    with psycopg.connect("", autocommit=True) as connection:
        connection.execute("CREATE SEQUENCE refreshed")
        connection.execute('''
            CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF nextval('refreshed') = SECOND THEN WHILE HOLD LOOP PERFORM pg_sleep(0.02); END LOOP; END IF;
                RETURN NULL;
            END $$
        ''')
        connection.execute("CREATE TRIGGER held BEFORE INSERT ON orders EXECUTE FUNCTION held()")
"""


@pytest.mark.long
def test_a_trial_that_was_killed_between_refresh_functions_is_measured_again_on_the_rows_of_the_load(
    server: Server, warm_home: Home, tmp_path: Path, scratch: Path
) -> None:
    hold = Hold(scratch)
    (tmp_path / "killed.toml").write_text(PLAN)
    (tmp_path / "hook.py").write_text(HOOK.replace("SECOND", str(SECOND)).replace("HOLD", hold.condition))
    env = environment(warm_home) | server.environment()
    held = f"SELECT FROM pg_stat_activity WHERE datname = '{DATABASE}' AND wait_event = 'PgSleep'"
    with server.connect(server.maintenance) as connection:
        process = subprocess.Popen(
            [PGDYNO, "run", "killed.toml", "--no-preflight", "--alongside", "--quiet"], cwd=tmp_path, env=env
        )
        try:

            def is_held() -> bool:
                assert process.poll() is None
                return bool(connection.execute(held).fetchall())

            wait_until(is_held)
        finally:
            process.kill()
            process.wait()
        wait_for_no_engines(warm_home)
        before = whole(the_run(tmp_path))
        done = run_pgdyno(["run", "--resume", "latest", "--no-preflight", "--alongside"], cwd=tmp_path, env=env)
        assert done.returncode == ExitCode.OK, done.stdout + done.stderr
        assert not connection.execute(held).fetchall()
        for name in (DATABASE, f"{DATABASE}_template"):
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    folder = the_run(tmp_path)
    trials = folder.trials()
    assert len(before) == 1
    assert before.items() <= whole(folder).items()
    assert [trial.slug for trial in trials] == folder.manifest.order
    assert [(trial.outcome, trial.attempt) for trial in trials] == [
        (Outcome.FINISHED, 1),
        (Outcome.FINISHED, 2),
        (Outcome.FINISHED, 2),
    ]
    assert len({trial.generator.seed for trial in trials if trial.generator is not None}) == 1
    assert [trial.consistency.violations for trial in trials if trial.consistency is not None] == [[], [], []]
    assert [attempt.ended for attempt in folder.manifest.attempts] == ["was killed", "came to its end"]
    assert folder.partials() == []
