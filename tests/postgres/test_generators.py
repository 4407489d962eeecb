"""Several generators as one, here and on hosts over SSH: the same transactions, a loss, and what a signal leaves."""

import getpass
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgdyno.analyse.histogram import merge
from pgdyno.errors import ExitCode
from pgdyno.generators.distributed_load import ClusterLoad
from pgdyno.generators.merge_events import Event
from pgdyno.generators.shared_load import Share, shared_out
from pgdyno.programs import find_engine
from pgdyno.records import Outcome
from pgdyno.run.commit_ledger import check_ledger, pages
from pgdyno.targets import Home, Server
from tests.forked import run_pgdyno
from tests.postgres.generator_agents import generators_here, run_load
from tests.postgres.runs import environment, fast_plan, pgdyno_process, the_run
from tests.postgres.servers import execute, rows, value
from tests.present import present
from tests.processes import find_processes, send_signal
from tests.ssh.sshd import Sshd, keygen, running_sshd
from tests.waiting import wait_until

OPTIONS = ["--events=-", "--no-vacuum", "--random-seed=7", "--protocol=prepared"]
CLIENTS, TRANSACTIONS = 7, 40
DRAWN = """
SELECT count(*), sum(delta), sum(hashtext(concat_ws('/', client, tid, bid, aid, delta))::bigint) FROM drawn
"""


@pytest.fixture(scope="module")
def tables(server: Server) -> Iterator[Server]:
    execute(server, "CREATE TABLE drawn (client int, tid int, bid int, aid int, delta int)")
    yield server
    execute(server, "DROP TABLE drawn")


def drawn(server: Server) -> tuple[object, ...]:
    (row,) = rows(server, DRAWN)
    execute(server, "TRUNCATE drawn")
    return row


def test_three_draw_what_one_draws(tables: Server, tmp_path: Path) -> None:
    numbers = "\\set aid random_zipfian(1, 100000, 1.1)\n\\set delta random(-5000, 5000)\n"
    insert = "INSERT INTO drawn VALUES (:client_id, {tid}, 1, :aid, :delta);\n"
    for name, tid in (("a.sql", 1), ("b.sql", 2)):
        (tmp_path / name).write_text(numbers + insert.format(tid=tid))
    # with the mix, each client's choice of scripts counts as well
    scripts = ["-f", "a.sql@3", "-f", "b.sql", f"--client={CLIENTS}", f"--transactions={TRANSACTIONS}"]
    seen = []
    for count in (1, 3):
        with generators_here(count) as generators:
            events = run_load(generators, [*OPTIONS, *scripts], tables.environment(), tmp_path)
        end = events[-1]
        assert end["outcome"] == "finished", (tmp_path / "engine.log").read_text()
        assert [script["name"] for script in events[0]["scripts"]] == ["a.sql", "b.sql"]
        assert events[0]["clients"] == CLIENTS
        assert [host["clients"] for host in end["generators"]] == ([7] if count == 1 else [3, 2, 2])
        by_script = {script["script"]: script["succeeded"] for script in end["scripts"]}
        assert sum(by_script.values()) == CLIENTS * TRANSACTIONS
        for script in end["scripts"]:
            histogram = present(merge([script["histogram"]]))
            assert histogram.count == script["succeeded"]
            assert script["latency_ns"]["p50"] == histogram.percentile_ns(50)
            assert [each["executions"] for each in script["statements"]] == [script["succeeded"]]
        seconds = [event for event in events if event["event"] == "interval"]
        in_seconds = dict.fromkeys(by_script, 0)
        for each in (each for second in seconds for each in second["scripts"]):
            in_seconds[each["script"]] += each["succeeded"]
        assert in_seconds == by_script
        seen.append((by_script, drawn(tables)))
    assert seen[0] == seen[1]
    assert seen[0][1][0] == CLIENTS * TRANSACTIONS


BEHIND_S, NEAR_S = 60, 30
"""How far a clock is behind: more than any delay of a busy machine."""


def test_generators_with_different_clocks_start_together(tables: Server, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("INSERT INTO begun VALUES (:client_id);\n")
    options = [*OPTIONS, "-f", "a.sql", "--client=4", "--time=1.2", "--rate=200"]
    # an engine that used its own clock would begin a minute late, which is too late for the other one
    aheads_us = [-BEHIND_S * 1_000_000, 1_000_000]
    execute(tables, "CREATE TABLE begun (client int, at timestamptz DEFAULT clock_timestamp())")
    with generators_here(2, aheads_us) as generators:
        events = run_load(generators, options, tables.environment(), tmp_path)
    first = "SELECT client / 2 AS host, min(at) AS at FROM begun GROUP BY 1"
    ((count, apart_s),) = rows(
        tables, f"SELECT count(*), extract(epoch FROM max(at) - min(at)) FROM ({first}) AS first"
    )
    execute(tables, "DROP TABLE begun")
    assert events[-1]["outcome"] == "finished", (tmp_path / "engine.log").read_text()
    assert count == 2
    assert apart_s < NEAR_S
    for host, ahead_us in zip(events[-1]["generators"], aheads_us, strict=True):
        # far less than a second, which one of them is ahead
        assert host["clock_ahead_us"] == pytest.approx(ahead_us, abs=500_000)
        assert host["clock_ahead_after_us"] == pytest.approx(ahead_us, abs=500_000)
        # seconds, and the load itself, are placed by the driver's clock
        assert 0 < host["report_delay_us"] < NEAR_S * 1_000_000
    assert abs(time.time() - events[0]["epoch_us"] / 1e6) < NEAR_S
    one, other = events[-1]["generators"]
    assert events[-1]["start_late_us"] == max(one["start_late_us"], other["start_late_us"])
    # both parts of the rate came, and the whole is what was asked for
    assert one["succeeded"] > 0
    assert other["succeeded"] > 0
    assert events[-1]["scheduled"] + events[-1]["unstarted"] == pytest.approx(240, abs=80)


def test_an_engine_that_nobody_speaks_to_stops_by_its_lease(tables: Server, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT pg_sleep(0.01);\n")
    with generators_here(1) as [generator]:
        options = ["--part=1/1", *OPTIONS, "-f", "a.sql", "--client=2", "--time=600"]
        generator.begin(Share(options, tmp_path, [], {}), tables.environment())
        while not any(b'"ready"' in line for line in generator.listen(0.5).lines):
            pass
        generator.start(time.time_ns() // 1000 + 500_000)
        # from now on silence, as when the driver is cut off
        wait_until(lambda: sessions(tables) > 0)
        wait_for_no_sessions(tables)
        # a driver that comes too late hears why, and counts it as lost
        lines: list[bytes] = []
        while not lines or b'"end"' not in lines[-1]:
            lines += generator.listen(0.5).lines
        end = json.loads(lines[-1])
        assert "interrupted" in (end["outcome"], end.get("reason"))


def test_a_server_that_refuses_is_said_by_the_generator_that_asked(tables: Server, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;\n")
    environment = tables.environment() | {"PGDATABASE": "nowhere"}
    with generators_here(2) as generators:
        end = run_load(generators, [*OPTIONS, "-f", "a.sql", "--client=2", "-t1"], environment, tmp_path)[-1]
    assert end["outcome"] == "failed"
    assert 'database "nowhere" does not exist' in end["message"]
    assert "lost_generator" not in end


def sessions(server: Server) -> int:
    return int(value(server, "SELECT count(*) FROM pg_stat_activity WHERE application_name ~ '^pgdrive'"))


def wait_for_no_sessions(server: Server) -> None:
    wait_until(lambda: sessions(server) == 0)


OWN_LUA = """
require("beside")
dofile("lua/below/more.lua")
sysbench.cmdline.options = {}
function thread_init()
   connection = sysbench.sql.driver():connect()
end
function event()
   local aid = sysbench.rand.uniform(1, 1000000)
   local columns = string.format("%d, %d, %d, %d, %d", sysbench.tid, sysbench.opt.threads, sysbench.opt.rate, aid,
      sysbench.rand.unique(1, 2000000000))
   connection:query("INSERT INTO drawn VALUES (" .. columns .. ")")
   connection:query("SELECT " .. beside(1) + more(1) .. " AS " .. (aid % 2 == 0 and "even" or "odd"))
end
"""


def test_a_lua_script_runs_as_in_one_engine(tables: Server, tmp_path: Path) -> None:
    for name, text in (
        ("own.lua", OWN_LUA),
        ("beside.lua", "function beside(a) return a end"),
        ("below/more.lua", "function more(a) return a end"),
    ):
        (tmp_path / "lua" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lua" / name).write_text(text)
    options = ["--events=-", "--random-seed=7", "--lua=lua/own.lua", "-r", f"--client={CLIENTS}", "--transactions=20"]
    seen = []
    for count in (1, 3):
        with generators_here(count) as generators:
            events = run_load(generators, options, tables.environment(), tmp_path)
        end = events[-1]
        assert end["outcome"] == "finished", (tmp_path / "engine.log").read_text()
        assert events[0]["scripts"][0]["name"] == "lua/own.lua"
        assert end["statements"] == end["statements"] | {"writes": CLIENTS * 20, "reads": CLIENTS * 20}
        fairness = {"mean": 20.0, "stddev": 0.0, "min": 20, "max": 20}
        assert end["statements"]["fairness"] == fairness
        assert end["statements"]["p95_ns"] == end["latency_ns"]["p95"]
        # no number came twice, and each client knew how many there are in all
        found = rows(tables, "SELECT count(DISTINCT delta), min(tid), max(tid) FROM drawn")
        assert found == [(CLIENTS * 20, CLIENTS, CLIENTS)]
        execute(tables, "UPDATE drawn SET delta = 0")
        by_text = {each["text"]: each["executions"] for script in end["scripts"] for each in script["statements"]}
        seen.append((drawn(tables), by_text))
    assert seen[0] == seen[1]
    # each engine numbers them as it meets them
    assert len(seen[0][1]) == 3


def test_a_ledger_and_clients_that_come_back(tables: Server, tmp_path: Path) -> None:
    # from its 51st transaction on, each client waits for a lock of ours: none has ended before its connection is lost
    (tmp_path / "a.sql").write_text(
        "\\if :ledger_seq > 50\nSELECT pg_advisory_lock_shared(11), pg_advisory_unlock_shared(11);\n\\endif\n"
        "BEGIN;\nINSERT INTO pgdyno_ledger (client, seq) VALUES (:client_id, :ledger_seq);\nEND;\n"
    )
    options = [*OPTIONS, "-f", "a.sql", "--client=5", "--transactions=100", "--ledger", "--reconnect=60s"]
    ours = "FROM pg_stat_activity WHERE application_name ~ '^pgdrive'"
    events: list[Event] = []
    with tables.connect() as blocker, generators_here(2) as generators, (tmp_path / "engine.log").open("w+b") as errors:
        blocker.execute("SELECT pg_advisory_lock(11)")
        load = ClusterLoad(generators, shared_out(options, tmp_path), errors)
        load.begin(tables.environment())
        for event in load.events():
            events.append(event)
            waiting = blocker.execute(f"SELECT {ours} AND wait_event_type = 'Lock'".encode()).fetchall()
            if event["event"] == "interval" and len(waiting) == 5:
                blocker.execute(f"SELECT pg_terminate_backend(pid) {ours}".encode())
                blocker.execute("SELECT pg_advisory_unlock(11)")
    end = events[-1]
    assert end["outcome"] == "finished", (tmp_path / "engine.log").read_text()
    assert (end["connections_lost"], end["reconnects"]) == (5, 5)
    # one for both generators
    (outage,) = end["outages"]
    assert end["outage_count"] == 1
    assert (outage["connections_lost"], outage["clients_never_back"]) == (5, 0)
    assert 0 <= outage["all_away_us"] <= outage["length_us"]
    assert {event["generator"] for event in events if event["event"] == "outage"} == {1, 2}
    assert [page["client"] for page in end["ledger"]["clients"]] == [0, 1, 2, 3, 4]
    heard = present(pages(events))
    with tables.connect() as connection:
        found = check_ledger(heard, connection)
    assert found.acknowledged == end["ledger"]["acknowledged"] >= end["succeeded"]
    assert (found.missing, found.refused_present, found.duplicates, found.strange) == (0, 0, 0, 0)


def test_a_bad_part_is_refused(tmp_path: Path) -> None:
    engine = find_engine().path
    for options, why in (
        (["--part=4/3"], 'invalid part of a load: "4/3"'),
        (["--part=2/3", "-c2"], "2 clients (-c) cannot be divided among 3 generators (--part)"),
        (
            ["--part=1/2", "-c2", "--workload=oltp-insert", "--lua-command=prepare"],
            "--part cannot be used with --lua-command=prepare",
        ),
        (["--await-start"], "--await-start needs --parent-lease or --lease=SECONDS"),
    ):
        done = subprocess.run([engine, *options], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 1
        assert why in done.stderr


# ---- runs with several generators ----


RUN = ("run", "plan.toml", "--no-preflight", "--generators")


@dataclass(frozen=True)
class Hosts:
    """Two hosts with the same name: one by IPv4, whose user is named, and one by IPv6."""

    home: Path
    sshds: list[Sshd]

    @property
    def places(self) -> str:
        four, six = self.sshds
        return f"ssh://{getpass.getuser()}@127.0.0.1:{four.port},[::1]:{six.port}"

    def processes(self, program: str = "") -> list[int]:
        home = f"HOME={self.home}/".encode()
        return find_processes(
            lambda each: home in (each / "environ").read_bytes() and program in (each / "exe").readlink().name
        )

    def files(self) -> set[str]:
        return {path.name.partition("-")[0] for sshd in self.sshds for path in sshd.folder.glob(".cache/pgdyno/*")}


@contextmanager
def two_hosts(home: Path, *lines: str) -> Iterator[Hosts]:
    with ExitStack() as stack:
        sshds = []
        for name, address in (("four", "127.0.0.1"), ("six", "::1")):
            there = running_sshd(home / name, address=address, lines=[f"SetEnv HOME={home / name}", *lines])
            sshds.append(stack.enter_context(there))
        (home / ".ssh").mkdir()
        keys = [f"Host {each.address}\n  IdentityFile {each.folder / 'user'}\n" for each in sshds]
        keys.append(f"  UserKnownHostsFile {sshds[1].known_hosts}\nHost *\n  IdentitiesOnly yes\n")
        (home / ".ssh" / "config").write_text("".join(keys))
        (home / ".ssh" / "known_hosts").write_text(sshds[0].known_hosts.read_text())
        yield Hosts(home, sshds)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with two_hosts(tmp_path_factory.mktemp("hosts")) as hosts:
        yield hosts


@pytest.fixture
def tcp_server(server: Server) -> Iterator[Server]:
    yield server
    execute(server, "DROP DATABASE IF EXISTS wide WITH (FORCE)")


def write_plan(folder: Path, server: Server, length: str) -> None:
    dsn = f"host={server.host} port={server.port} user={server.user} dbname={server.dbname}"
    target = f'kind = "dsn"\ndsn = "{dsn}"\npassword_env = "THEIR_PASSWORD"\ndatabase = "wide"'
    workload = 'scripts = ["one.sql"]\ndataset = "none"'
    plan = fast_plan(workload, "clients = 5", f"{length}\n[probe]\nenabled = false", ["db"], target)
    (folder / "plan.toml").write_text(plan)
    (folder / "one.sql").write_text("SELECT :client_id;\n\\sleep 1 ms\n")


def variables(home: Home, server: Server, hosts: Hosts) -> dict[str, str]:
    return environment(home) | {"HOME": str(hosts.home), "THEIR_PASSWORD": server.environment()["PGPASSWORD"]}


def run(home: Home, folder: Path, server: Server, hosts: Hosts, *places: str) -> tuple[int, str]:
    done = run_pgdyno([*RUN, *places], cwd=folder, env=variables(home, server, hosts))
    return done.returncode, done.stdout + done.stderr


def test_engines_here_and_on_hosts_are_one(tcp_server: Server, hosts: Hosts, warm_home: Home, tmp_path: Path) -> None:
    write_plan(tmp_path, tcp_server, "transactions = 20")
    # the password comes from ~/.pgpass, which the hosts do not have
    plan = tmp_path / "plan.toml"
    plan.write_text(plan.read_text().replace('password_env = "THEIR_PASSWORD"', ""))
    (hosts.home / ".pgpass").write_text(f"*:*:*:*:{tcp_server.environment()['PGPASSWORD']}\n")
    (hosts.home / ".pgpass").chmod(0o600)
    code, said = run(warm_home, tmp_path, tcp_server, hosts, "local:1", "--generators", hosts.places)
    (hosts.home / ".pgpass").unlink()
    assert code == 0, said
    (trial,) = the_run(tmp_path).trials()
    assert trial.outcome is Outcome.FINISHED
    found = present(trial.generator).hosts
    assert [(each.name, each.host, each.clients, each.succeeded) for each in found] == [
        (f"generator-{number}", os.uname().nodename, clients, 20 * clients)
        for number, clients in ((1, 2), (2, 2), (3, 1))
    ]
    # between the runs, only the copied engine remains
    wait_until(lambda: not hosts.processes())
    wait_until(lambda: hosts.files() == {"pgdrive"})


@pytest.mark.long_cases("15-", "2-")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_lost_engine_costs_a_repeat_and_a_signal_leaves_nothing(
    tcp_server: Server, hosts: Hosts, warm_home: Home, tmp_path: Path, number: int, code: int
) -> None:
    write_plan(tmp_path, tcp_server, 'duration = "600s"')
    args, env = (*RUN, hosts.places, "--generators", "local:1"), variables(warm_home, tcp_server, hosts)
    with pgdyno_process(warm_home, tmp_path, *args, env=env) as process:
        wait_for_load(process, tcp_server, tmp_path)
        lost = hosts.processes("pgdrive")
        assert len(lost) == 2
        send_signal(signal.SIGKILL, lost[:1])
        again = re.compile(r"trial 1 runs again: generator [23] of 3 .* was lost: its engine ended with exit code 137")
        wait_until(lambda: again.search((tmp_path / "said").read_text()) is not None)
        wait_until(lambda: not set(lost) & set(hosts.processes("pgdrive")))
        wait_for_load(process, tcp_server, tmp_path)
        process.send_signal(number)
        assert process.wait() == code
    wait_for_no_sessions(tcp_server)
    wait_until(lambda: not hosts.processes())
    wait_until(lambda: hosts.files() == {"pgdrive"})


def wait_for_load(process: subprocess.Popen[bytes], server: Server, folder: Path) -> None:
    def is_there() -> bool:
        assert process.poll() is None, (folder / "said").read_text()
        return sessions(server) == 5

    wait_until(is_there)


def test_unfit_hosts_say_why(tcp_server: Server, warm_home: Home, tmp_path: Path) -> None:
    write_plan(tmp_path, tcp_server, "transactions = 20")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nproc").write_text("#!/bin/sh\nprintf '\\033]0;owned\\007'\n")
    (tmp_path / "bin" / "nproc").chmod(0o755)
    known = tmp_path / ".ssh" / "known_hosts"

    def message(hosts: Hosts) -> str:
        returned, said = run(warm_home, tmp_path, tcp_server, hosts, hosts.places)
        assert returned == ExitCode.ENGINE, said
        assert "\033" not in said
        # nothing is begun that cannot be gone on with
        assert not list(tmp_path.glob("pgdyno-runs/*"))
        return " ".join(said.split())

    with two_hosts(tmp_path, f"SetEnv PATH={tmp_path / 'bin'}:{os.environ['PATH']}") as hosts:
        said = message(hosts)
        assert "generator-1: 127.0.0.1 does not tell its name and its processors: it prints " in said
        (tmp_path / "bin" / "nproc").unlink()
        keys = known.read_text()
        known.write_text("")
        assert "generator-1: unknown host key of " in message(hosts)
        known.write_text(keys)
        (tmp_path / "four" / "user").unlink()
        keygen(tmp_path / "four" / "user")
        assert "generator-1: 127.0.0.1 rejects the keys of " in message(hosts)
        hosts.sshds[0].process.terminate()
        hosts.sshds[0].process.wait()
        assert "generator-1 does not start: cannot reach 127.0.0.1 over SSH: " in message(hosts)
        wait_until(lambda: not hosts.processes())
