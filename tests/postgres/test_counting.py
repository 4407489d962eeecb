"""Every transaction is counted once, with its outcome: reports compared with logs and with the server's own tables."""

import json
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgdyno.run.commit_ledger import check_ledger, pages
from pgdyno.targets import Server
from pgdyno.targets.cluster.installation import Installation
from tests.load_recount import Load, run_load, start_load
from tests.postgres.own_servers import OwnServer, running_server
from tests.postgres.servers import execute, rows
from tests.postgres.test_pgdrive import environment
from tests.present import present
from tests.run_program import PGDRIVE, run_program
from tests.waiting import PATIENCE_S, wait_until

DATABASE = "counting"
WAYS = [("epoll", "simple"), ("io_uring", "extended"), ("epoll", "prepared"), ("io_uring", "prepared")]
"""Pollers and protocols, so that each of both is there."""


@dataclass
class Ledger:
    """A table that has a row for every committed transaction."""

    server: Server

    @property
    def environment(self) -> dict[str, str]:
        # deadlocks are found at once, not after a second
        return {**environment(self.server), "PGDATABASE": DATABASE, "PGOPTIONS": "-c deadlock_timeout=2ms"}

    def sessions(self, condition: str, what: str = "") -> int:
        """Returns how many sessions of loads fulfil a condition, and does `what` to them."""
        others = f"FROM pg_stat_activity WHERE datname = '{DATABASE}' AND pid <> pg_backend_pid()"
        return len(rows(self.server, f"SELECT {what} {others} AND {condition}", DATABASE))

    def rows(self) -> dict[int, int]:
        """Committed transactions by script, once all sessions of loads have ended."""
        wait_until(lambda: self.sessions("backend_type = 'client backend'") == 0)
        return dict(rows(self.server, "SELECT script, count(*) FROM ledger GROUP BY script", DATABASE))

    def clear(self) -> None:
        execute(self.server, "TRUNCATE ledger", dbname=DATABASE)


@pytest.fixture(scope="module")
def whole_ledger(server: Server) -> Iterator[Ledger]:
    execute(server, f"CREATE DATABASE {DATABASE}")
    execute(
        server,
        "CREATE TABLE ledger (script int, client int, key text UNIQUE)",
        "CREATE TABLE hot (id int PRIMARY KEY, n int)",
        "INSERT INTO hot SELECT id, 0 FROM generate_series(1, 8) AS id",
        dbname=DATABASE,
    )
    yield Ledger(server)
    execute(server, f"DROP DATABASE {DATABASE} WITH (FORCE)")


@pytest.fixture
def ledger(whole_ledger: Ledger) -> Ledger:
    whole_ledger.clear()
    return whole_ledger


# ---- scripts; {script} is the script's number ----

ROW = "INSERT INTO ledger VALUES ({script}, :client_id);\n"
PAUSE = "SELECT pg_sleep(0.001);\n"
"""What others collide in, however few processors there are."""
OTHERS_FIRST = "DO $$ BEGIN WHILE (SELECT count(*) FROM ledger) < 119 LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;\n"
"""Waits until 4 clients have 30 transactions but one."""
SCRIPTS = {
    "plain": ROW,
    "block": f"BEGIN;\n{ROW}SELECT 1;\nEND;\n",
    "slow": f"{ROW}\\sleep 4 ms\n",
    "hot": f"BEGIN ISOLATION LEVEL REPEATABLE READ;\nUPDATE hot SET n = n + 1 WHERE id = 1;\n{PAUSE}{ROW}END;\n",
    "skewed": (
        "\\set a random(1, 3)\n\\set b random(1, 3)\nBEGIN ISOLATION LEVEL SERIALIZABLE;\n"
        f"SELECT sum(n) FROM hot WHERE id = :a;\nUPDATE hot SET n = n + 1 WHERE id = :b;\n{ROW}END;\n"
    ),
    "crossed": (
        "\\set a random(1, 4)\n\\set b random(1, 4)\nBEGIN;\nUPDATE hot SET n = n + 1 WHERE id = :a;\n"
        f"UPDATE hot SET n = n + 1 WHERE id = :b;\n{ROW}END;\n"
    ),
    "refused": (
        f"\\set odd random(0, 2)\nBEGIN;\n{ROW}\\if :odd = 0\n"
        "DO $$ BEGIN RAISE SQLSTATE '40001'; END $$;\n\\endif\nEND;\n"
    ),
    "wrong": f"\\set odd random(0, 2)\nBEGIN;\n{ROW}SELECT 1 / :odd;\nEND;\n",
    "twice": "INSERT INTO ledger VALUES ({script}, :client_id) \\; SELECT 1;\n",
    "pipeline": f"\\startpipeline\nBEGIN;\n{ROW}SELECT 1;\nEND;\n\\endpipeline\n",
    "hot pipeline": (
        "\\startpipeline\nBEGIN ISOLATION LEVEL REPEATABLE READ;\nUPDATE hot SET n = n + 1 WHERE id = 1;\n"
        f"{PAUSE}{ROW}END;\n\\endpipeline\n"
    ),
    # the fifth transaction of client 1 is an error
    "aborts": f"\\set done :done + 1\nBEGIN;\n{ROW}\\if :client_id = 1 and :done = 5\nSELECT 1 / 0;\n\\endif\nEND;\n",
    # the last one of client 0 begins when all others are committed, and ends more than a second later
    "lingers": (
        f"\\set done :done + 1\n\\if :client_id = 0 and :done = 30\n{OTHERS_FIRST}\\sleep 1500 ms\n\\endif\n{ROW}"
    ),
}
PIPELINES = {"pipeline", "hot pipeline"}


def scripts(folder: Path, *names: str) -> tuple[str, ...]:
    """Options for these scripts, `name@weight`, with files in `folder`."""
    options: list[str] = ["-n", "-D", "done=0"]
    for number, named in enumerate(names):
        name, _, weight = named.partition("@")
        file = folder / f"script{number}.sql"
        file.write_text(SCRIPTS[name].replace("{script}", str(number)))
        options += ["-f", f"{file}@{weight}" if weight else str(file)]
    return tuple(options)


def check_rows(load: Load, committed: dict[int, int], *, killed: bool = False) -> None:
    """Asserts one row for every succeeded transaction, and no other except for those that were not awaited."""
    for script in load.end["scripts"]:
        assert script["succeeded"] <= committed.get(script["script"], 0)
    # one that lost its connection may have been committed before
    unknown = load.end["in_flight"] + (load.ended_with_client if killed else 0)
    assert sum(committed.values()) <= load.end["succeeded"] + unknown


CASES = {
    "plain": ("plain", "-c 5 -t 40", ""),
    "workers": ("block", "-c 7 -j 3 -t 30", ""),
    "weights": ("plain@5 block@2 slow@1 plain@0", "-c 4 -j 2 -t 40", ""),
    "duration": ("plain block", "-c 4 -j 2 -T 0.5", ""),
    "rate": ("plain block", "-c 4 -j 2 -T 0.5 -R 400", ""),
    "rate and number": ("plain", "-c 4 -j 2 -t 40 -R 800", ""),
    "skips": ("slow", "-c 3 -j 2 -T 0.5 -R 2000 -L 10", "skipped"),
    "skips of a number": ("slow", "-c 3 -t 60 -R 2000 -L 10", "skipped"),
    "late": ("slow plain", "-c 3 -j 2 -t 40 -L 3", "late"),
    "connections": ("plain block", "-c 4 -j 2 -t 8 -C", ""),
    "connections at a rate": ("block", "-c 4 -j 2 -T 0.5 -C -R 200 -L 20 --max-tries=2", ""),
    "serialization failures": ("hot", "-c 12 -j 2 -t 15 --failures-detailed", "failed"),
    "retries": ("hot skewed", "-c 12 -j 2 -t 15 --max-tries=4", "retries"),
    "retries without limit": ("hot", "-c 8 -j 2 -T 0.5 --max-tries=0", "retries"),
    "retries within a limit": ("hot", "-c 12 -t 15 --max-tries=0 -L 300 -R 1500", "retries"),
    "deadlocks": ("crossed", "-c 8 -j 2 -t 15 --max-tries=2 --failures-detailed", "retries"),
    "errors passed over": (
        "wrong plain", "-c 4 -j 2 -t 25 --continue-on-error --failures-detailed --max-tries=2", "failed",
    ),
}  # fmt: skip
"""Scripts and options of loads that run to their end, and a count in the end event that must be above 0."""


def by_turns(cases: Iterable[str]) -> list[tuple[str, str, str]]:
    """Each case in one of WAYS, the next case in the next one."""
    return [(case, *WAYS[turn % len(WAYS)]) for turn, case in enumerate(cases)]


@pytest.mark.parametrize(("name", "io", "protocol"), by_turns(CASES))
def test_every_transaction_is_counted_once(ledger: Ledger, tmp_path: Path, name: str, io: str, protocol: str) -> None:
    names, options, must = CASES[name]
    args = (*scripts(tmp_path, *names.split()), *options.split(), f"--io={io}", "-M", protocol)
    load = run_load(ledger.environment, tmp_path / "load", *args)
    assert load.exit_code == 0, load.stderr
    load.verify()
    end = load.end
    assert end["in_flight"] == 0
    committed = ledger.rows()
    for script in end["scripts"]:
        assert committed.get(script["script"], 0) == script["succeeded"], name
    if load.start["transactions"] is not None:
        assert end["scheduled"] == load.start["transactions"] * load.start["clients"]
        assert len(load.lines) == end["scheduled"]
    assert not must or end[must] > 0
    if load.start["max_tries"] > 1:
        assert all(line.retries < load.start["max_tries"] for line in load.lines)


@pytest.mark.parametrize("io", ["epoll", "io_uring"])
def test_pipelines_fail_and_are_retried_whole(ledger: Ledger, tmp_path: Path, io: str) -> None:
    args = (*scripts(tmp_path, "hot pipeline", "pipeline"), "-c", "12", "-j", "2", "-t", "15", "--max-tries=3")
    load = run_load(ledger.environment, tmp_path / "load", *args, "-M", "prepared", f"--io={io}")
    assert load.exit_code == 0, load.stderr
    counts = load.verify()
    assert counts.retries > 0
    check_rows(load, ledger.rows())


# ---- warm-up and aggregates ----


@pytest.mark.parametrize(("more", "io", "protocol"), by_turns(["", "-R 1500", "-C"]))
def test_warm_ups_do_not_count(ledger: Ledger, tmp_path: Path, more: str, io: str, protocol: str) -> None:
    args = (*scripts(tmp_path, "plain", "block"), "-c", "6", "-j", "2", "--warmup=0.3", "-T", "0.3", *more.split())
    load = run_load(ledger.environment, tmp_path / "load", *args, f"--io={io}", "-M", protocol)
    assert load.exit_code == 0, load.stderr
    load.verify()
    committed = ledger.rows()
    warm = [part for one in load.intervals if one["phase"] == "warm-up" for part in one["scripts"]]
    assert sum(part["succeeded"] for part in warm) > 0
    for script in load.end["scripts"]:
        before = sum(part["succeeded"] for part in warm if part["script"] == script["script"])
        assert committed[script["script"]] == before + script["succeeded"]


@pytest.mark.parametrize(
    "more",
    [
        "",
        "-R 1000",
        "-R 1000 -L 120000 --max-tries=2 --failures-detailed",
        "-R 60000 -L 120000 --failures-detailed --continue-on-error",
    ],
)
def test_lines_of_intervals_have_every_transaction(ledger: Ledger, tmp_path: Path, more: str) -> None:
    args = (*scripts(tmp_path, "lingers"), "-c", "4", "-j", "1", "-t", "30", "--aggregate-interval=1", *more.split())
    load = run_load(ledger.environment, tmp_path / "load", *args)
    assert load.exit_code == 0, load.stderr
    counts = load.verify()
    # the long one ended in the stretch that did not come to its end
    assert counts.succeeded == sum(ledger.rows().values()) == 120
    assert sum(line.count for line in load.aggregates) == 119
    for name in ("skipped", "retried", "retries"):
        assert sum(getattr(line, name) for line in load.aggregates) == getattr(counts, name)
    rest_ns = load.end["latency_ns"]["sum"] - load.end["latency_ns"]["max"]
    assert rest_ns / 1000 - 119 <= sum(line.sum_us for line in load.aggregates) <= rest_ns / 1000


# ---- loads that do not end as they were meant to ----


@pytest.mark.parametrize(
    ("options", "io", "protocol"),
    by_turns(["-T 60", "-t 1000000 --max-tries=5", "-T 60 -R 3000 -L 20 --warmup=0.5", "-T 60 -C"]),
)
def test_a_signal_leaves_none_uncounted(ledger: Ledger, tmp_path: Path, options: str, io: str, protocol: str) -> None:
    number = signal.SIGINT if protocol in ("simple", "prepared") else signal.SIGTERM
    args = (*scripts(tmp_path, "hot", "plain"), "-c", "8", "-j", "2", "--continue-on-error", *options.split())
    running = start_load(ledger.environment, tmp_path / "load", *args, f"--io={io}", "-M", protocol)
    running.wait_for_intervals(1)
    running.process.send_signal(number)
    load = running.finish()
    assert load.exit_code == 128 + number
    assert load.end["outcome"] == "interrupted"
    load.verify()
    if load.start["warmup_s"] == 0:
        check_rows(load, ledger.rows())


@pytest.mark.parametrize(("io", "protocol"), WAYS[1:3])
def test_clients_that_give_up_leave_the_others_counted(ledger: Ledger, tmp_path: Path, io: str, protocol: str) -> None:
    args = (*scripts(tmp_path, "aborts"), "-c", "4", "-j", "2", "-t", "20", f"--io={io}", "-M", protocol)
    load = run_load(ledger.environment, tmp_path / "load", *args)
    assert load.exit_code == 2
    counts = load.verify()
    assert (counts.succeeded, counts.failed, load.end["clients_aborted"]) == (64, 1, 1)
    check_rows(load, ledger.rows())


@pytest.mark.parametrize("io", ["epoll", "io_uring"])
def test_the_first_to_give_up_may_end_all(ledger: Ledger, tmp_path: Path, io: str) -> None:
    args = (*scripts(tmp_path, "aborts"), "-c", "6", "-j", "3", "-T", "60", "--exit-on-abort", f"--io={io}")
    load = run_load(ledger.environment, tmp_path / "load", *args)
    assert (load.exit_code, load.end["outcome"]) == (2, "aborted")
    counts = load.verify()
    assert counts.failed == load.end["clients_aborted"] == 1
    check_rows(load, ledger.rows())


@pytest.mark.parametrize(("io", "protocol"), WAYS[1:3])
def test_sessions_that_the_server_ends_are_counted(ledger: Ledger, tmp_path: Path, io: str, protocol: str) -> None:
    options = ("-c", "8", "-j", "2", "-t", "20", "--max-tries=1000", f"--io={io}", "-M", protocol)
    with ledger.server.connect(DATABASE) as blocker:
        blocker.execute("BEGIN")
        blocker.execute("SELECT FROM hot WHERE id = 1 FOR UPDATE")
        running = start_load(ledger.environment, tmp_path / "load", *scripts(tmp_path, "hot"), *options)
        wait_until(lambda: ledger.sessions("wait_event_type = 'Lock'") == 8)
        three = "application_name = 'pgdrive' ORDER BY pid LIMIT 3"
        assert ledger.sessions(three, "pg_terminate_backend(pid)") == 3
        blocker.execute("ROLLBACK")
    load = running.finish()
    assert load.exit_code == 2
    load.verify()
    assert (load.end["clients_aborted"], load.ended_with_client, load.end["in_flight"]) == (3, 3, 0)
    check_rows(load, ledger.rows(), killed=True)


# ---- any combination ----


@st.composite
def loads(draw: st.DrawFn) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Scripts with weights, and options."""
    protocol = draw(st.sampled_from(["simple", "extended", "prepared"]))
    names = ["plain", "block", "hot", "skewed", "crossed", "refused"]
    names += sorted(PIPELINES) if protocol != "simple" else ["twice"]
    chosen = draw(st.lists(st.tuples(st.sampled_from(names), st.integers(1, 5)), min_size=1, max_size=3))
    options = ["-M", protocol, f"--client={draw(st.integers(1, 8))}", f"--jobs={draw(st.integers(1, 3))}"]
    options += [f"--transactions={draw(st.integers(1, 12))}", f"--io={draw(st.sampled_from(['epoll', 'io_uring']))}"]
    options += [f"--random-seed={draw(st.integers(0, 10**6))}"]
    limit_ms = draw(st.none() | st.integers(1, 40))
    tries = draw(st.integers(1, 4) if limit_ms is None else st.integers(0, 4))
    options += [f"--max-tries={tries}"]
    options += [] if limit_ms is None else [f"--latency-limit={limit_ms}"]
    rate = draw(st.none() | st.integers(300, 5000))
    options += [] if rate is None else [f"--rate={rate}"]
    flags = ["--connect", "--failures-detailed", "--report-per-command", "--continue-on-error", "--progress=1"]
    options += draw(st.lists(st.sampled_from(flags), unique=True))
    return tuple(f"{name}@{weight}" for name, weight in chosen), tuple(options)


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(loads())
def test_whatever_the_options(whole_ledger: Ledger, load: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
    names, options = load
    whole_ledger.clear()
    with tempfile.TemporaryDirectory(prefix="pgdyno-counting-") as name:
        folder = Path(name)
        done = run_load(whole_ledger.environment, folder / "load", *scripts(folder, *names), *options)
    assert done.exit_code == 0, done.stderr
    done.verify()
    committed = whole_ledger.rows()
    assert done.end["scheduled"] == done.start["transactions"] * done.start["clients"]
    assert {script["script"]: script["succeeded"] for script in done.end["scripts"] if script["succeeded"]} == committed


# ---- `--ledger`: the results that clients received, compared with rows that SQL counts ----


LEDGER_ROW = "INSERT INTO pgdyno_ledger (client, seq) VALUES (:client_id, :ledger_seq);\n"
Result = dict[str, Any]


@pytest.fixture(scope="module")
def own(installed: Installation) -> Iterator[OwnServer]:
    with running_server(installed, "") as server:
        run_program([PGDRIVE, "-i", "-q"], env=server.environment(), check=True)
        yield server


def drive(server: OwnServer, folder: Path, *args: str, ledger: bool = True) -> tuple[Result, str]:
    json_file = folder / "result.json"
    options = ["--ledger"] if ledger else []
    done = run_program([PGDRIVE, "-n", *options, f"--json={json_file}", *args], env=server.environment(), cwd=folder)
    result = json.loads(json_file.read_text()) if json_file.exists() else {}
    return result, done.stderr


@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
@pytest.mark.parametrize("more", [[], ["--auto-pipeline"], ["-C"]])
def test_each_transaction_leaves_a_row(own: OwnServer, tmp_path: Path, mode: str, more: list[str]) -> None:
    result, said = drive(own, tmp_path, "-b", "tpcb-like", "-c", "3", "-t", "20", "-M", mode, *more)
    assert result["succeeded"] == 60, said
    ledger = result["ledger"]
    assert (ledger["acknowledged"], ledger["unknown"], ledger["refused"]) == (60, 0, 0)
    assert [(page["client"], page["last"]) for page in ledger["clients"]] == [(0, 20), (1, 20), (2, 20)]
    assert own.value("SELECT count(*) FROM pgdyno_ledger") == 60
    assert own.value("SELECT count(DISTINCT (client, seq)) FROM pgdyno_ledger WHERE seq BETWEEN 1 AND 20") == 60


def test_read_only_transactions_use_no_number(own: OwnServer, tmp_path: Path) -> None:
    result, _ = drive(own, tmp_path, "-b", "simple-update", "-b", "select-only", "-c", "2", "-t", "100")
    writes = next(script["succeeded"] for script in result["scripts"] if script["script"] == 0)
    assert 0 < writes < 200
    assert result["ledger"]["acknowledged"] == writes == own.value("SELECT count(*) FROM pgdyno_ledger")


def test_failed_transactions_leave_no_row(own: OwnServer, tmp_path: Path) -> None:
    (tmp_path / "fails.sql").write_text(f"BEGIN;\n{LEDGER_ROW}\\set x random(0, 1)\nSELECT 1 / :x;\nEND;\n")
    result, _ = drive(own, tmp_path, "-f", "fails.sql", "-c", "2", "-t", "50", "--continue-on-error")
    assert result["failed"] > 0
    ledger = result["ledger"]
    assert (ledger["acknowledged"], ledger["refused"]) == (result["succeeded"], result["failed"])
    with own.connect() as connection:
        found = check_ledger(present(pages([{"event": "end", **result}])), connection)
    assert (found.acknowledged, found.missing, found.refused_present) == (result["succeeded"], 0, 0)
    assert (found.present, found.strange) == (result["succeeded"], 0)


def test_transactions_in_flight_at_the_end_are_unknown(own: OwnServer, tmp_path: Path) -> None:
    (tmp_path / "sleeps.sql").write_text(f"{LEDGER_ROW}SELECT pg_sleep(30);\n")
    json_file = tmp_path / "result.json"
    process = subprocess.Popen(
        [PGDRIVE, "-n", "--ledger", f"--json={json_file}", "-f", "sleeps.sql", "-c", "2", "-T", "300"],
        env=own.environment(), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
    wait_until(lambda: own.value(sleeping) == 2)
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE_S)
    ledger = json.loads(json_file.read_text())["ledger"]
    assert (ledger["acknowledged"], ledger["unknown"]) == (0, 2)
    assert [page["unknown"] for page in ledger["clients"]] == [[[1, 1]], [[1, 1]]]


def test_a_ledger_of_nothing_is_refused(own: OwnServer, tmp_path: Path) -> None:
    for args, message in (
        (["-b", "select-only"], "no statement of the scripts uses :ledger_seq"),
        (["-b", "tpcb-like", "-D", "client_id=5"], "variable client_id cannot be defined with --ledger"),
        (["-b", "tpcb-like", "-D", "ledger_seq=5"], "variable ledger_seq cannot be defined with --ledger"),
    ):
        result, said = drive(own, tmp_path, *args, "-t", "1")
        assert result == {}
        assert message in said
    # without the option there is no table and no field
    own.execute("DROP TABLE IF EXISTS pgdyno_ledger")
    result, _ = drive(own, tmp_path, "-t", "5", ledger=False)
    assert result["ledger"] is None
    assert own.value("SELECT to_regclass('pgdyno_ledger')") is None
