"""A probe during trials: its figures are aligned with the load's, and its failure does not end the trial."""

from pathlib import Path

import pytest

from pgdyno.store import RunFolder, load_run
from pgdyno.targets import Home
from tests.forked import run_pgdyno
from tests.postgres.runs import environment, the_run

PLAN = """\
name = "probed"
[target.a]
kind = "embedded"
version = "18"
[target.a.settings]
fsync = "off"
[workload]
dataset = "pgbench"
scripts = ["row.sql"]
[sweep]
clients = 3
[trial]
duration = "{seconds}s"
[probe]
"""
SCRIPT = """\
INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (1, 1, 1, 0);
SELECT pg_sleep(0.01);
"""
"""A row of history for each transaction, in which clients are in the server and leave the cores to others."""


def run(home: Home, tmp_path: Path, probe: str = "", program: Path | None = None, seconds: int = 1) -> RunFolder:
    """A trial of `seconds`; where more than its outcome is looked at, they are several."""
    (tmp_path / "row.sql").write_text(SCRIPT)
    (tmp_path / "probed.toml").write_text(PLAN.format(seconds=seconds) + probe)
    more = {"PGDYNO_PGPROBE": str(program)} if program else {}
    done = run_pgdyno(["run", "probed.toml", "--no-preflight"], cwd=tmp_path, env=environment(home) | more)
    assert done.returncode == 0, done.stderr
    return the_run(tmp_path)


QUERIES = """\
[[probe.query]]
name = "history"
sql = "SELECT count(*) FROM pgbench_history"
every = "200ms"
[[probe.query]]
name = "slow"
sql = "SELECT 1 FROM pg_sleep(0.07)"
[[probe.query]]
name = "nothing"
sql = "SELECT NULL::int"
[[probe.query]]
name = "absent"
sql = "SELECT count(*) FROM no_such_table"
[[probe.query]]
name = "writes"
sql = "SELECT length(query_to_xml('TRUNCATE pgbench_history', true, false, '')::text)"
[[probe.query]]
name = "words"
sql = "SELECT 'some'"
"""


def test_the_server_s_seconds_are_the_load_s_and_queries_of_the_plan_become_series(
    warm_home: Home, tmp_path: Path
) -> None:
    folder = run(warm_home, tmp_path, f"waits_hz = 20\n{QUERIES}", seconds=4)
    (trial,) = folder.trials()
    assert trial.probe is not None
    assert (trial.probe.host, trial.probe.server, trial.probe.waits_hz) == (True, True, 20)
    assert trial.probe.message is None
    # the probe does not spin; benchmarks/probe.py measures its cost on a quiet machine
    assert 0 < (trial.probe.cpu_us or 0) < 0.1 * 4e6
    data = load_run(folder)
    succeeded = sum(row.succeeded for row in data.intervals())
    # one row of history a transaction, which only the server's counters can have said
    sql = "SELECT sum(value) FROM series WHERE source = 'database' AND metric = 'rows_inserted'"
    inserted = data.query(sql).rows[0][0]
    assert 0.5 * succeeded < inserted <= succeeded
    assert inserted == sum(row.value for row in data.series(1, ["database"]) if row.metric == "rows_inserted")
    assert {row.source for row in data.series(1)} > {row.source for row in data.series(1, ["database"])} == {"database"}
    # on a busy machine a look may come too late; nothing else is missing
    gaps = [event for event in data.events() if event.kind == "probe_gap"]
    assert trial.probe.gaps == len(gaps)
    assert all("left out" in (event.message or "") for event in gaps)
    left_out = sum(int((event.message or "").split()[0]) for event in gaps)
    looks = data.query("SELECT count(DISTINCT t_us), min(t_us), max(t_us) FROM waits WHERE t_us > 0").rows[0]
    assert looks[0] == len({row.t_us for row in data.waits() if row.t_us > 0})
    assert looks[0] + left_out >= 50
    assert looks[0] <= 90
    # in the load's seconds, however late it is
    assert looks[1] < 3e6
    assert 2e6 < looks[2] < 60e6
    active = data.query(
        "SELECT sum(sessions) / count(DISTINCT t_us) FROM waits "
        "WHERE coalesce(backend_type, 'client backend') = 'client backend' AND t_us BETWEEN 500000 AND 3500000"
    ).rows[0][0]
    # three clients with next to no time of their own
    assert 1 < active <= 3
    assert {"probe_start", "probe_connected", "probe_end", "end"} <= {event.kind for event in data.events()}
    assert not (folder.trials_path / trial.slug / "probe.jsonl").exists()
    rows = data.query(
        "SELECT labels->>'query', t_us, value FROM series WHERE source = 'queries' AND metric = 'value' ORDER BY t_us"
    ).rows
    history = [value for name, _, value in rows if name == "history"]
    # five a second, unless the machine is busy
    assert len(history) > 8
    assert history == sorted(history)
    assert 0 < history[-1] <= succeeded
    assert {value for name, _, value in rows if name == "slow"} == {1}
    assert {name for name, _, _ in rows} == {"history", "slow"}
    notes = [str(note) for note in folder.manifest.notes]
    said = (
        'probe.query absent: ERROR:  relation "no_such_table" does not exist',
        "probe.query writes: ERROR:  TRUNCATE",
        'probe.query words: "some" is not a number',
        "probe.query slow: takes more than 5 % of the time",
    )
    for words in said:
        assert sum(note.startswith(words) for note in notes) == 1, notes
    assert not any("nothing" in note for note in notes)
    # nothing else is wrong; a busy machine may also take long for the others
    assert all(each.startswith("queries: ") for each in trial.probe.warnings)
    page = run_pgdyno(["report", "latest", "--html", "page.html"], cwd=tmp_path, env=environment(warm_home))
    assert page.returncode == 0, page.stderr
    assert '"queries":{"history":[' in (tmp_path / "page.html").read_text()
    shown = run_pgdyno(["show", "latest", "--trial", "1"], cwd=tmp_path, env=environment(warm_home))
    assert "history" in shown.stdout, shown.stdout + shown.stderr


def test_without_a_probe_a_run_has_no_probe_tables(warm_home: Home, tmp_path: Path) -> None:
    folder = run(warm_home, tmp_path, "enabled = false\n")
    (trial,) = folder.trials()
    assert trial.probe is None
    assert load_run(folder).query("SELECT (SELECT count(*) FROM series) + (SELECT count(*) FROM waits)").rows == [(0,)]


@pytest.mark.long_cases("babbles", "dies")
@pytest.mark.parametrize("how", ["dies", "hangs", "babbles", "is not there"])
def test_a_bad_probe_never_disturbs_the_trial(how: str, warm_home: Home, tmp_path: Path) -> None:
    start = '{"event":"start","t_us":0,"wall_us":1,"v":1,"pgprobe":"0","waits_hz":null,"host":true,"server":false}'
    script = {
        "dies": f"echo '{start}'; echo broken >&2; exit 3",
        "hangs": f"trap '' TERM; echo '{start}'; sleep 60 & wait; wait",
        "babbles": f"""echo '{start}'; echo '{{"event":"sam'; head -c 100000 /dev/urandom; sleep 60 & wait""",
        "is not there": "",
    }[how]
    probe = tmp_path / "pgprobe"
    if script:
        probe.write_text(f"#!/bin/sh\n{script}\n")
        probe.chmod(0o755)
    (trial,) = run(warm_home, tmp_path, program=probe).trials()
    assert trial.outcome == "finished"
    assert trial.probe is not None
    said = {"dies": "with exit code 3: broken", "hangs": "exit code -9", "babbles": "", "is not there": "executable"}
    assert said[how] in (trial.probe.message or "")
    assert trial.probe.cpu_us is None
    if how == "dies":
        assert trial.probe.gaps == 1
