"""Every transaction is counted once, with its outcome: reports compared with logs and with the server's own tables."""

import signal
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgdyno.targets import Server
from tests.load_recount import Load, run_load, start_load
from tests.postgres.servers import execute, rows
from tests.postgres.test_pgdrive import environment
from tests.waiting import wait_until

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
