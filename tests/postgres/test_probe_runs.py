"""A probe during trials: its figures are aligned with the load's, and its failure does not end the trial.

The server may be on another host; a profile by perf is part of the probe.
"""

import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import Metric

from pgdyno.records import TrialRecord
from pgdyno.store import RunFolder, load_run
from pgdyno.store.probe_queries import probe_averages
from pgdyno.store.profiles import read_profile
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.forked import PGDYNO, run_pgdyno
from tests.postgres.namespaces import lan
from tests.postgres.own_servers import OwnServer
from tests.postgres.runs import environment, fast_plan, pgdyno, pgdyno_process, run_plan_text, the_run
from tests.present import present
from tests.run_program import run_program
from tests.scratch import scratch_folder
from tests.ssh.sshd import FAKETIME, Sshd, running_sshd
from tests.unit.openmetrics_check import parsed
from tests.waiting import PATIENCE_S, wait_until

SCRIPT = """\
INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (1, 1, 1, 0);
SELECT pg_sleep(0.01);
"""
"""A row of history for each transaction, in which clients are in the server and leave the cores to others."""


def run(home: Home, tmp_path: Path, probe: str = "", program: Path | None = None, seconds: int = 1) -> RunFolder:
    """A trial of `seconds`; where more than its outcome is looked at, they are several."""
    (tmp_path / "row.sql").write_text(SCRIPT)
    trial = f'duration = "{seconds}s"\n[probe]\n{probe}'
    (tmp_path / "probed.toml").write_text(fast_plan('dataset = "pgbench"\nscripts = ["row.sql"]', "clients = 3", trial))
    more = {"PGDYNO_PGPROBE": str(program)} if program else {}
    done = run_pgdyno(["run", "probed.toml", "--no-preflight"], cwd=tmp_path, env=environment(home) | more)
    assert done.returncode == 0, done.stderr
    return the_run(tmp_path)


QUERIES = "".join(
    f'[[probe.query]]\nname = "{name}"\nsql = "{sql}"\n'
    for name, sql in (
        ("slow", "SELECT 1 FROM pg_sleep(0.07)"),
        ("nothing", "SELECT NULL::int"),
        ("absent", "SELECT count(*) FROM no_such_table"),
        ("writes", "SELECT length(query_to_xml('TRUNCATE pgbench_history', true, false, '')::text)"),
        ("words", "SELECT 'some'"),
        ("history", "SELECT count(*) FROM pgbench_history"),
    )
)
QUERIES += 'every = "200ms"\n'


def test_the_server_s_seconds_are_the_load_s_and_queries_of_the_plan_become_series(
    warm_home: Home, tmp_path: Path
) -> None:
    folder = run(warm_home, tmp_path, f"waits_hz = 20\n{QUERIES}", seconds=4)
    (trial,) = folder.trials()
    probe = present(trial.probe)
    assert (probe.host, probe.server, probe.waits_hz, probe.message) == (True, True, 20, None)
    # the probe does not spin; benchmarks/probe.py measures its cost on a quiet machine
    assert 0 < (probe.cpu_us or 0) < 0.1 * 4e6
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
    assert probe.gaps == len(gaps)
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
    assert all(each.startswith("queries: ") for each in probe.warnings)
    assert '"queries":{"history":[' in (folder.path / "report.html").read_text()
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


SKEW_S = 3600


@dataclass(frozen=True)
class Stage:
    """A generator's host, and that of a database with an sshd: this machine if namespaces are not permitted."""

    within: tuple[str, ...]
    """The prefix of commands on the generator's host."""
    server: OwnServer
    sshd: Sshd

    def run(self, home: Home, folder: Path, ssh: Path | None = None, duration: str = "4s") -> tuple[TrialRecord, str]:
        """Runs a plan on the generator's host; returns its trial and the output. `ssh` is another file of host keys."""
        there = self.sshd
        server = f"""\
kind = "dsn"
dsn = "host={there.address} port={self.server.port} user=postgres"
ssh.host = "{there.address}"
ssh.port = {there.port}
ssh.config = "{there.config}"
ssh.known_hosts = "{ssh or there.known_hosts}"
ssh.folder = "{there.cache}"
"""
        plan = fast_plan('scripts = ["tpcb-like"]', "clients = 3", f'duration = "{duration}"', ["theirs"], server)
        (folder / "far.toml").write_text(plan)
        done = self.pgdyno(home, folder, "run", "far.toml", "--no-preflight")
        assert done.returncode == 0, done.stderr
        (trial,) = the_run(folder).trials()
        return trial, done.stderr + done.stdout

    def pgdyno(self, home: Home, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
        return run_program([*self.within, str(PGDYNO), *args], env=environment(home), cwd=folder)


@pytest.fixture(scope="module")
def stage(installed: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Programs started over SSH see a clock that is an hour ahead."""
    assert FAKETIME is not None, "make test-packages installs libfaketime"
    skewed = f"SetEnv LD_PRELOAD={FAKETIME} FAKETIME=+{SKEW_S}s FAKETIME_DONT_FAKE_MONOTONIC=1"
    with ExitStack() as stack:
        hosts = lan(stack, 2)
        (generator, database), address = [each.within for each in hosts] or [(), ()], "127.0.0.1"
        if hosts:
            address = hosts[1].address
        folder = scratch_folder()
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = OwnServer.make(installed, folder / "server")
        server.configure(f"listen_addresses = '{address}'\ncluster_name = 'theirs/main'\n")
        with (server.data / "pg_hba.conf").open("a") as file:
            file.write(f"host all all {address}/24 trust\n")
        server.start(database)
        stack.callback(server.stop, "immediate")
        there = running_sshd(tmp_path_factory.mktemp("sshd"), address=address, lines=[skewed], within=database)
        yield Stage(generator, server, stack.enter_context(there))


@pytest.mark.long
def test_activity_of_the_host_is_in_the_generator_s_seconds(stage: Stage, warm_home: Home, tmp_path: Path) -> None:
    trial, _ = stage.run(warm_home, tmp_path)
    assert trial.probe is not None
    far = present(trial.probe.over_ssh)
    assert (far.host, far.connections, far.message) == (stage.sshd.address, 1, None)
    assert (trial.probe.host, trial.probe.server, trial.probe.waits_hz) == (True, True, 1)
    clock = present(far.clock)
    assert abs(clock.offset_us - SKEW_S * 1_000_000) <= clock.uncertainty_us
    data = load_run(the_run(tmp_path))
    succeeded = sum(row.succeeded for row in data.intervals())
    # an hour of skew is gone from both times; the wide bounds leave time to a busy machine
    span = "SELECT min(t_us), max(t_us), min(wall_us) FROM series WHERE source = 'cpu'"
    first_us, last_us, wall_us = data.query(span).rows[0]
    assert first_us < SKEW_S * 1e6 / 10
    assert 2e6 < last_us < SKEW_S * 1e6 / 10
    assert abs(wall_us / 1e6 - present(trial.started_at).timestamp()) < 600
    # the load's own backends worked in the load's seconds and in no others, by the cluster's name
    busy = (
        "SELECT min(t_us), max(t_us - span_us), sum(value) FROM series WHERE source = 'process' AND metric = 'cpu'"
        " AND labels->>'kind' = 'client backend' AND value > 20000"
    )
    # the end of the first such sample, and the begin of the last one, however late they were taken
    begin_us, end_us, cpu_us = data.query(busy).rows[0]
    assert -clock.uncertainty_us < begin_us
    assert end_us < (present(trial.summary).measured_s or 0.0) * 1e6 + 1e6 + clock.uncertainty_us
    assert cpu_us > 0
    assert succeeded > 0
    # SQL was asked from here, and each probe tells its own cost
    sources = {row[0] for row in data.query("SELECT DISTINCT source FROM series").rows}
    assert {"cpu", "process", "memory", "wal", "database", "probe", "probe_over_ssh"} <= sources
    assert not list(the_run(tmp_path).trials_path.glob("*/probe.jsonl*"))


@pytest.mark.long
def test_a_host_with_an_unknown_key_stops_no_trial(stage: Stage, warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "known").touch()
    trial, said = stage.run(warm_home, tmp_path, tmp_path / "known", "2s")
    assert trial.outcome == "finished"
    assert trial.probe is not None
    assert "unknown host key of" in (present(trial.probe.over_ssh).message or "")
    # the server was asked all the same, and the run says what is missing
    assert (trial.probe.host, trial.probe.server, trial.probe.message) == (False, True, None)
    assert "figures of the database's host are incomplete: unknown host key of" in said
    assert "Figures of the database's host are incomplete" in stage.pgdyno(warm_home, tmp_path, "show").stdout
    sources = {row[0] for row in load_run(the_run(tmp_path)).query("SELECT DISTINCT source FROM series").rows}
    assert "database" in sources
    assert "cpu" not in sources


PROFILED = fast_plan(
    'dataset = "none"\nscripts = ["sort.sql"]', "clients = [1, 2]", 'duration = "1s"\n[probe]\nprofile = true'
)
SORT = "SELECT count(*) FROM (SELECT i FROM generate_series(1, 20000) i ORDER BY i DESC) s;\n"
NOT_INSTALLED = re.compile(r"no profile of a: perf is not installed; install its package \(.*\), and resume the run")
NOT_ALLOWED = re.compile(
    r"no profile of a: perf may not sample the server( \(kernel\.perf_event_paranoid is -?\d+\))?; "
    r"sysctl kernel\.perf_event_paranoid=1, and in a container --cap-add=PERFMON; then resume the run"
)
WITHOUT_PERF = ("cp", "cat", "env", "find", "id", "ls", "nice", "sh", "tar", "uname")


def run_profiled(home: Home, tmp_path: Path, *args: str, path: str | None = None) -> None:
    (tmp_path / "sort.sql").write_text(SORT)
    (tmp_path / "profiled.toml").write_text(PROFILED)
    variables = environment(home) | ({"PATH": path} if path is not None else {})
    done = run_pgdyno([*args], cwd=tmp_path, env=variables)
    assert done.returncode == 0, done.stderr


def left_out(tmp_path: Path) -> list[str]:
    return [note for note in the_run(tmp_path).manifest.notes if note.startswith("no profile of")]


@pytest.mark.long
def test_a_profile_that_was_left_out_is_taken_by_a_resume(warm_home: Home, tmp_path: Path) -> None:
    # without perf on the PATH, the run_profiled is complete and says what to install
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in WITHOUT_PERF:
        program = shutil.which(name)
        if program is not None:
            (tools / name).symlink_to(program)
    run_profiled(warm_home, tmp_path, "run", "profiled.toml", "--no-preflight", path=str(tools))
    folder = the_run(tmp_path)
    (missing,) = left_out(tmp_path)
    assert NOT_INSTALLED.fullmatch(missing)
    assert folder.manifest.profiles == []

    run_profiled(warm_home, tmp_path, "run", "--resume", str(folder.path))
    folder = the_run(tmp_path)
    trials = [trial.slug for trial in folder.trials()]
    assert trials == folder.manifest.order
    assert folder.partials() == []
    if not folder.manifest.profiles:
        # no perf, or a kernel that does not allow it: one line says so, with the remedy for this machine
        if shutil.which("perf") is None:
            assert set(left_out(tmp_path)) == {missing}
        else:
            (refused,) = set(left_out(tmp_path)) - {missing}
            assert NOT_ALLOWED.fullmatch(refused)
        assert "Flame graph" not in (folder.path / "report.html").read_text()
        return
    (profile,) = folder.manifest.profiles
    best = max((trial for trial in folder.trials() if trial.summary), key=lambda trial: trial.summary.tps)  # type: ignore[union-attr]
    assert (profile.target, profile.point, profile.hz) == ("a", best.point, 99)
    assert profile.file == f"profiles/{best.slug}.folded"
    stacks = read_profile(folder.path, profile)
    assert present(stacks).total() == profile.samples
    # backends that the postmaster forked after perf had begun, down to the functions of the statement
    functions = {name for stack in present(stacks) for name in stack.split(";")}
    assert {"PostgresMain", "standard_ExecutorRun"} <= functions
    assert list(load_run(folder).trials) == folder.trials()
    report = (folder.path / "report.html").read_text()
    assert "Flame graph of a" in report
    assert "tps under perf in one short load" in report


# ---- figures of whole runs: for Prometheus, and mean active sessions, which Little's law checks ----


METERED = fast_plan(
    'scripts = ["tpcb-like"]',
    "clients = 3\nrate = 200",
    'warmup = "1s"\nduration = "4s"\n[hooks]\nafter_trial = "until test -e scraped; do sleep 0.1; done"',
)
ACCEPT = "application/openmetrics-text; version=1.0.0"


def scrape(address: str) -> dict[str, Metric]:
    request = urllib.request.Request(address, headers={"Accept": ACCEPT})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        return parsed(answer.read().decode())


def test_a_run_is_served_exported_and_shown(warm_home: Home, tmp_path: Path) -> None:
    """At an HTTP address during the run, as text afterwards, and in a line of `show`."""
    (tmp_path / "metered.toml").write_text(METERED)
    words = ("run", "metered.toml", "--no-preflight", "--metrics", "127.0.0.1:0")
    with pgdyno_process(warm_home, tmp_path, *words) as process:
        printed, announced = tmp_path / "said", re.compile(r"metrics: (http://127\.0\.0\.1:\d+/metrics)")
        wait_until(lambda: process.poll() is not None or announced.search(printed.read_text()))
        url = present(announced.search(printed.read_text()))[1]
        met: dict[str, Metric] = {}

        # between start and end there is nothing to read that would stop it
        def is_measured() -> bool:
            nonlocal met
            assert process.poll() is None
            met = scrape(url)
            return "pgdyno_cpu_user_ratio" in met and "pgdyno_latency_seconds" in met

        wait_until(is_measured)
        # the hook has kept the run from its end, however late this is
        (tmp_path / "scraped").touch()
        assert process.wait(PATIENCE_S) == 0, printed.read_text()
    (trial,) = met["pgdyno_trial"].samples
    folder = the_run(tmp_path)
    assert (trial.labels["run"], trial.labels["slug"]) == (folder.name, "0001-a-c3")
    assert met["pgdyno_clients"].samples[0].value == 3
    assert any(sample.labels.get("kind") == "client backend" for sample in met["pgdyno_processes_number"].samples)

    done = pgdyno(warm_home, tmp_path, "export", "latest", "--openmetrics", "--trial", "1", code=0)
    families = parsed(done.stdout)
    record = folder.trials()[0]
    succeeded = present(present(record.summary).succeeded)
    by_outcome = {sample.labels["outcome"]: sample.value for sample in families["pgdyno_transactions"].samples}
    # those of the warm-up are among them
    assert by_outcome["succeeded"] >= succeeded
    inserted = families["pgdyno_database_rows_inserted"].samples[-1].value
    assert 0.5 * succeeded < inserted <= by_outcome["succeeded"]
    for sample in families["pgdyno_cpu_user_ratio"].samples:
        assert sample.timestamp is not None
        assert abs(float(sample.timestamp) - present(record.started_at).timestamp()) < PATIENCE_S

    shown = pgdyno(warm_home, tmp_path, "show", "latest").stdout
    limits = shown.partition("In the probe's samples of the server")[2]
    assert re.search(r"^3 clients +\S+ .* \d+ ", limits, re.MULTILINE), shown

    assert pgdyno(warm_home, tmp_path, "export", "latest").returncode == 2


# long enough that pg_stat_statements sees most of what the server does for it: not its parsing and its answer
RANGES = """\
\\set aid random(1, 80000)
SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 20000;
"""
CREATE = """\
import psycopg
with psycopg.connect() as connection:
    connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
"""


@pytest.mark.long
def test_active_sessions_are_throughput_times_server_time(warm_home: Home, tmp_path: Path) -> None:
    length = f'warmup = "500ms"\nduration = "3s"\n[hooks]\nbefore_trial = ["{sys.executable}", "create.py"]'
    text = fast_plan('scripts = ["ranges.sql"]\nscale = 1', 'clients = 16\nprotocol = "prepared"', length)
    (tmp_path / "create.py").write_text(CREATE)
    (tmp_path / "ranges.sql").write_text(RANGES)
    loads = '--set=target.a.settings.shared_preload_libraries="pg_stat_statements"'
    run_plan_text(warm_home, tmp_path, text, loads, code=0)
    run = load_run(the_run(tmp_path))
    (trial,) = run.trials
    found = run.query("SELECT sum(exec_time_ms) / sum(calls) FROM server_statements WHERE text LIKE '%abalance%'")
    expected = present(present(trial.summary).tps) * found.rows[0][0] / 1e3
    (seen,) = probe_averages(run)
    active = sum(sessions for _, _, sessions in seen.waits)
    print(f"active {active:.3f}, throughput x server time {expected:.3f}, ratio {active / expected:.3f}")
    assert 0.85 < active / expected < 1.2
    assert seen.waits[0][:2] == ("CPU", "")
