"""TPC-C under load on a real server: the database confirms the figures of every variant and profile."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from psycopg.rows import dict_row

from pgdyno.records import Outcome
from pgdyno.targets import Home, Server
from tests.postgres.generator_agents import generators_here, run_load
from tests.postgres.runs import fast_plan, run_plan_text, the_run
from tests.postgres.test_load import Place, place_of
from tests.postgres.test_tpcc_load import check
from tests.present import present
from tests.run_program import PGDRIVE, run_program
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.long_cases("spec")
CLIENTS = 8
EACH = 150
"""Transactions of each client."""
SEEDS = {"functions": 5, "procedures": 6, "sql": 7, "sql-pipelined": 8}
"""With these, a few of the 1,200 transactions are orders that contain an unused item. They differ, because a later test
counts how often all loads together ordered each item.
"""
VARIANTS = tuple(SEEDS)


@dataclass(frozen=True)
class Loaded:
    place: Place
    profile: str

    def command(self, *args: str) -> list[str]:
        return [str(PGDRIVE), "--workload=tpcc", f"--tpcc-profile={self.profile}", f"--client={CLIENTS}", *args]

    def run(self, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return run_program(self.command(*args), env=self.place.environment, code=code)

    def end(self, *args: str) -> dict[str, Any]:
        """Runs a load, which must succeed; returns its `end` event."""
        end: dict[str, Any] = json.loads(self.run(*args, "--events=-").stdout.splitlines()[-1])
        assert end["event"] == "end"
        return end

    def consistent(self, *args: str) -> None:
        """Asserts the conditions of the standard's tests; with `--thorough` all of them."""
        check(self.place, *args, code=0)


def load_profile(server: Server, profile: str) -> Iterator[Loaded]:
    with place_of(server, f"pgdyno_tpcc_{profile}") as place:
        place.load("--dataset=tpcc", "--warehouses=2", f"--tpcc-profile={profile}")
        yield Loaded(place, profile)


@pytest.fixture(scope="module")
def loaded_hammerdb(server: Server) -> Iterator[Loaded]:
    yield from load_profile(server, "hammerdb")


@pytest.fixture(scope="module")
def loaded_spec(server: Server) -> Iterator[Loaded]:
    yield from load_profile(server, "spec")


@pytest.fixture(params=["hammerdb", "spec"])
def loaded(request: pytest.FixtureRequest) -> Loaded:
    loaded: Loaded = request.getfixturevalue(f"loaded_{request.param}")
    return loaded


@pytest.fixture
def hammerdb(server: Server, loaded_hammerdb: Loaded) -> Iterator[Loaded]:
    """A copy for one test, with the orders that earlier tests have placed."""
    with place_of(server, "pgdyno_tpcc_own", "TEMPLATE pgdyno_tpcc_hammerdb STRATEGY file_copy") as place:
        comment_on(place, loaded_hammerdb.place.comment())
        yield Loaded(place, "hammerdb")


def comment_on(place: Place, stamp: str) -> None:
    place.execute(f"COMMENT ON DATABASE {place.environment['PGDATABASE']} IS $${stamp}$$")


STATE = """
    SELECT (SELECT sum(d_next_o_id) FROM district)::int AS next, (SELECT count(*) FROM history)::int AS history,
           (SELECT count(*) FROM new_order)::int AS open, (SELECT sum(c_delivery_cnt) FROM customer)::int AS deliveries,
           (SELECT sum(s_order_cnt) FROM stock)::int AS stock_orders,
           (SELECT sum(c_payment_cnt) FROM customer)::int AS payments, lines, unused
    FROM (SELECT count(*)::int AS lines, count(*) FILTER (WHERE ol_i_id > 100000 AND ol_amount IS NULL)::int AS unused
          FROM order_line) of_orders"""
ROLLBACKS = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()"
SESSIONS = """
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""


def state(place: Place) -> dict[str, int]:
    with place.connect() as connection:
        return present(connection.cursor(row_factory=dict_row).execute(STATE).fetchone())


@contextmanager
def ordering(loaded: Loaded, number: int, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a load; enters once it has placed so many orders."""
    # `state` would read every order line each time
    orders = "SELECT sum(d_next_o_id)::int FROM district"
    since = loaded.place.query(orders)[0][0]
    command = loaded.command("--time=60", "--tpcc-pauses=off", *args)
    with subprocess.Popen(
        command, env=loaded.place.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as load:

        def has_placed() -> bool:
            assert load.poll() is None
            return bool(loaded.place.query(orders)[0][0] >= since + number)

        wait_until(has_placed)
        yield load


# ---- what is in the database is what was counted ----


@pytest.mark.long_cases("functions", "procedures", "sql-")
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_database_has_what_the_driver_counted(loaded: Loaded, variant: str) -> None:
    place = loaded.place
    before, rollbacks = state(place), place.query(ROLLBACKS)[0][0]
    end = loaded.end(
        f"--tpcc-variant={variant}", f"--transactions={EACH}", f"--random-seed={SEEDS[variant]}", "--tpcc-pauses=off"
    )
    after = state(place)
    tpcc = end["tpcc"]
    count = {one["name"]: one["count"] for one in tpcc["mix"]}
    assert sum(count.values()) == end["succeeded"] == CLIENTS * EACH
    assert end["errors"] == []
    changed = {name: after[name] - before[name] for name in before}
    # every committed New-Order, and none of those rolled back, took a number
    assert changed["next"] == count["New-Order"] == tpcc["new_orders"]["committed"]
    # without a warm-up its first look comes with the first transactions, or later on a busy machine
    assert changed["next"] / 2 < tpcc["server"]["new_orders"] <= changed["next"]
    assert changed["history"] == count["Payment"]
    assert count["New-Order rolled back"] == tpcc["new_orders"]["rolled_back"]
    # as functions of HammerDB's newest release do
    commits = (loaded.profile, variant) == ("hammerdb", "functions")
    assert tpcc["unused_item"] == ("commits" if commits else "rolls back")
    assert (tpcc["new_orders"]["rolled_back"] == 0) == commits
    assert (changed["unused"] > 0) == commits
    # the server's statistics of a session are written when it ends
    wait_until(lambda: place.query(ROLLBACKS)[0][0] - rollbacks >= count["New-Order rolled back"])
    assert place.query(ROLLBACKS)[0][0] - rollbacks == count["New-Order rolled back"]
    delivered = count["New-Order"] - changed["open"]
    if loaded.profile == "spec":
        deferred = tpcc["deferred"]
        assert (deferred["done"], deferred["failed"], deferred["left"]) == (count["Delivery"], 0, 0)
        assert delivered == changed["deliveries"] == 10 * count["Delivery"]
        assert changed["payments"] == count["Payment"]
        assert changed["stock_orders"] == changed["lines"]
    else:
        assert tpcc["deferred"] is None
        assert delivered == 10 * count["Delivery"]
        assert changed["payments"] == changed["stock_orders"] == changed["deliveries"] == 0
    loaded.consistent()


EARLIER = {
    "hammerdb-6.0": {"functions": "commits", "procedures": "commits", "sql": "rolls back"},
    "hammerdb-6.1": {"functions": "rolls back", "procedures": "rolls back"},
}
"""What earlier releases of HammerDB do with an order that contains an unused item, by variant."""


@pytest.mark.long
@pytest.mark.parametrize("profile", EARLIER)
def test_earlier_releases_treat_an_unused_item_in_their_way(server: Server, profile: str) -> None:
    with place_of(server, "pgdyno_tpcc_release") as place:
        place.load("--dataset=tpcc", f"--tpcc-profile={profile}")
        release = Loaded(place, profile)
        before = state(place)["unused"]
        for variant, unused in EARLIER[profile].items():
            seed = f"--random-seed={SEEDS[variant]}"
            tpcc = release.end(f"--tpcc-variant={variant}", f"--transactions={EACH}", seed)["tpcc"]
            assert (tpcc["profile"], tpcc["unused_item"]) == (profile, unused)
            after = state(place)["unused"]
            assert (after > before) == (unused == "commits")
            before = after
            assert (tpcc["new_orders"]["rolled_back"] > 0) == (unused == "rolls back")
        release.consistent("--thorough")


def test_a_database_without_a_release_is_one_of_6_1(hammerdb: Loaded) -> None:
    place = hammerdb.place
    stamp = place.comment()
    unnamed = stamp.replace('"hammerdb-6.1.1"', '"hammerdb"')
    assert unnamed != stamp
    comment_on(place, unnamed)
    # with this seed, no order contains an unused item
    end = Loaded(place, "hammerdb-6.1").end("--transactions=1", "--random-seed=1")
    assert end["tpcc"]["unused_item"] == "rolls back"
    done = hammerdb.run("--transactions=10", code=1)
    assert "the database was loaded for profile hammerdb-6.1, not hammerdb-6.1.1" in done.stderr


@pytest.mark.long
def test_inputs_are_the_profiles(loaded: Loaded) -> None:
    """Rust's tests (tpcc/inputs.rs) have the shares of what is drawn."""
    place = loaded.place
    loaded.end("--transactions=800", "--tpcc-pauses=off")
    payments = place.query("""
        SELECT count(*), avg((h_amount <> trunc(h_amount))::int), min(h_amount), max(h_amount)
        FROM history WHERE h_date > '2026-01-01 00:00:00+00'""")[0]
    assert payments[0] > 2_500
    assert (payments[1] == 0) == (loaded.profile == "hammerdb")
    assert 1 <= payments[2] < 25
    assert 4_975 < payments[3] <= 5_000
    lines = place.query("""
        SELECT avg((ol_supply_w_id <> ol_w_id)::int), min(ol_quantity), max(ol_quantity),
               count(*) FILTER (WHERE ol_amount <> ol_quantity * i_price)
        FROM order_line JOIN item ON i_id = ol_i_id WHERE ol_o_id > 3000""")[0]
    assert float(lines[0]) == pytest.approx(0.01, abs=0.003)
    assert lines[1:] == (1, 10, 0)
    assert place.query("SELECT count(*) FROM orders WHERE o_all_local = 0 AND o_id > 3000")[0][0] > 0
    # those with bad credit have their history in their data
    bad = place.query("""
        SELECT count(*) FROM customer
        WHERE (c_credit = 'BC') <> (c_data LIKE '%|%') AND EXISTS (
            SELECT FROM history
            WHERE h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id AND h_date > c_since)""")
    assert bad == [(0,)]
    assert place.query("SELECT max(length(c_data)) <= 500 FROM customer") == [(True,)]


def test_figures_of_driver_and_server_agree(loaded: Loaded) -> None:
    # at a rate: how fast the server is does not matter
    end = loaded.end("--time=4", "--warmup=4", "--rate=150", "--tpcc-pauses=off")
    tpcc = end["tpcc"]
    # a busy machine may be late for a look at the server; with the warm-up, it would be twice as long
    assert tpcc["server"]["seconds"] == pytest.approx(4, abs=2)
    assert tpcc["server"]["nopm"] == pytest.approx(tpcc["nopm"], rel=0.3)
    assert tpcc["nopm"] == pytest.approx(tpcc["new_orders"]["committed"] * 60 / end["measured_s"])
    assert tpcc["tpm"] == pytest.approx(end["tps"] * 60)
    assert tpcc["server"]["transactions"] > 0
    assert [one["name"] for one in tpcc["types"]] == ["New-Order", "Payment", "Order-Status", "Delivery", "Stock-Level"]
    assert [one["limit_s"] for one in tpcc["types"]] == [5, 5, 5, 5, 20]
    asked = [one["asked_percent"] for one in tpcc["types"]]
    mixes = {"hammerdb": [10 / 0.23, 10 / 0.23, 1 / 0.23, 1 / 0.23, 1 / 0.23], "spec": [45, 43, 4, 4, 4]}
    assert asked == pytest.approx(mixes[loaded.profile])
    c = tpcc["nurand_c"]
    delta = abs(c["last_name"] - c["last_name_of_load"])
    assert (65 <= delta <= 119 and delta not in (96, 112)) if loaded.profile == "spec" else delta == 0


def test_the_summary_tells_both(loaded: Loaded) -> None:
    done = loaded.run(
        "--transactions=200", "--tpcc-pauses=off", "--all-warehouses", "--tpcc-variant=sql-pipelined", code=0
    )
    out = done.stdout
    profile = loaded.profile if loaded.profile == "spec" else "hammerdb-6.1.1"
    for words in [
        f"derived from TPC-C: profile {profile}, variant sql-pipelined, warehouses 2, clients at all warehouses",
        "no keying or think time",
        "by the driver, ",
        "by the server's sum(d_next_o_id)",
        "by the server's xact_commit + xact_rollback",
    ]:
        assert words in out
    assert ("this is not a throughput as the standard measures it" in out) == (loaded.profile == "spec")
    assert (out.count("(within 5 s)"), out.count("(within 20 s)")) == (4, 1)


# ---- pauses ----


def test_the_standards_users_pause(loaded: Loaded) -> None:
    done = loaded.run("--time=2", "--events=-")
    start = json.loads(done.stdout.splitlines()[0])
    keying = [script["keying_time"] for script in start["scripts"]]
    end = json.loads(done.stdout.splitlines()[-1])
    if loaded.profile == "hammerdb":
        assert keying == [None] * 6
        assert end["tpcc"]["pauses"] is False
    else:
        # no New-Order has been keyed in after two seconds
        assert end["tpcc"]["pauses"] is True
        assert end["scripts"][0]["succeeded"] == 0
        assert keying[0] == keying[1] != keying[2]


def test_pauses_can_be_other_ones(loaded: Loaded) -> None:
    end = loaded.end("--time=2", "--tpcc-pauses=on", "--keying-time=20ms", "--think-time=exponential:20ms")
    # 8 clients of 40 ms and more: at most 400 in 2 seconds; by the standard's own pauses it would be none
    assert 20 < end["succeeded"] <= 440


# ---- clients that are gone ----


@pytest.mark.long_cases("procedures")
@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_clients_leave_no_half_transaction(loaded: Loaded, variant: str) -> None:
    with ordering(loaded, 100, f"--tpcc-variant={variant}") as load:
        load.kill()
    # the server notices that they are gone when they are to be answered
    wait_until(lambda: loaded.place.query(f"SELECT {SESSIONS}") == [])
    loaded.consistent()


def test_a_session_that_is_ended_ends_its_client(loaded: Loaded) -> None:
    with ordering(loaded, 50, "--tpcc-variant=sql") as load:
        loaded.place.execute(f"SELECT pg_terminate_backend(pid) {SESSIONS}")
        load.communicate(timeout=PATIENCE_S)
        assert load.returncode == 2
    loaded.consistent()


# ---- what is refused ----


@pytest.mark.long
def test_a_wrong_mix_fails_the_trial(hammerdb: Loaded) -> None:
    """Payments fail: what is left is not TPC-C."""
    hammerdb.place.execute("""
        CREATE OR REPLACE FUNCTION tpcc_payment(p_w_id int, p_d_id int, p_c_w_id int, p_c_d_id int, p_c_id int,
            p_c_last text, p_amount numeric, OUT r_c_id int, OUT r_customer text, OUT r_credit text,
            OUT r_credit_limit numeric, OUT r_discount numeric, OUT r_balance numeric, OUT r_data text,
            OUT r_warehouse text, OUT r_district text) LANGUAGE plpgsql AS
        $$ BEGIN IF p_d_id > 5 THEN RAISE EXCEPTION 'no money'; END IF; END $$""")
    done = hammerdb.run("--transactions=400", "--continue-on-error", "--events=-", code=3)
    assert "error: the mix is not the one asked for: " in done.stderr
    assert "Payment " in done.stderr
    end = json.loads(done.stdout.splitlines()[-1])
    assert (end["exit_code"], end["outcome"]) == (3, "refused")
    assert end["message"] == end["tpcc"]["refused"]
    assert "the mix is not" in end["message"]
    assert {one["name"]: one["as_asked"] for one in end["tpcc"]["mix"]}["Payment"] is False


def test_impossible_options_are_refused(hammerdb: Loaded) -> None:
    for option, said in [
        ("--tpcc-profile=spec", "the database was loaded for profile hammerdb-6.1.1, not spec"),
        ("--warehouses=3", "--warehouses=3, but the database has 2"),
    ]:
        assert said in hammerdb.run(option, code=1).stderr
    # the stamp does not outlive its tables
    for dropped, exit_code, said in [
        ("FUNCTION tpcc_payment", 2, "function tpcc_payment("),
        ("TABLE warehouse", 1, "could not count the warehouses"),
    ]:
        hammerdb.place.execute(f"DROP {dropped}")
        done = hammerdb.run("--transactions=10", code=exit_code)
        assert said in done.stderr
    assert "hint: Load it by" in done.stderr


# ---- the engine's own options ----


@pytest.mark.long
def test_rates_and_phases_work_as_for_scripts(hammerdb: Loaded, tmp_path: Path) -> None:
    end = hammerdb.end("--time=3", "--rate=200")
    # a busy machine may not keep the rate
    assert end["scheduled"] + end["unstarted"] == pytest.approx(600, abs=130)
    assert end["succeeded"] > 0
    phases = tmp_path / "phases.toml"
    phases.write_text("""
        [[phase]]
        name = "orders"
        duration = "1s"
        clients = 2
        mix = { "New-Order" = 1, "Payment" = 1 }
        [[phase]]
        name = "all"
        duration = "1s"
        """)
    end = hammerdb.end(f"--phases={phases}")
    assert [phase["name"] for phase in end["phases"]] == ["orders", "all"]
    first = end["phases"][0]["scripts"]
    assert first[0]["succeeded"] > 0
    assert first[3]["succeeded"] == 0
    hammerdb.consistent()
    assert hammerdb.end("--transactions=20", "-C")["succeeded"] == 20 * CLIENTS


DRAWN = """
    SELECT (SELECT count(*) FROM history), (SELECT sum(h_amount) FROM history),
           (SELECT sum(hashtext(concat_ws('/', h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_amount))::bigint)
            FROM history),
           (SELECT count(*) FROM orders), (SELECT count(*) FROM order_line),
           (SELECT sum(hashtext(concat_ws('/', ol_w_id, ol_d_id, ol_i_id, ol_supply_w_id, ol_quantity))::bigint)
            FROM order_line)"""
"""The inputs of users, in any order of service."""


@pytest.mark.long
def test_generators_together_have_the_users_of_one(loaded: Loaded, tmp_path: Path) -> None:
    options = [*loaded.command("--events=-", "--random-seed=11", "--transactions=60", "--tpcc-pauses=off")[1:]]
    seen, before = [], loaded.place.query(DRAWN)[0]
    for count in (1, 3):
        with generators_here(count) as generators:
            events = run_load(generators, options, loaded.place.environment, tmp_path)
        end = events[-1]
        # so few transactions may miss the mix by chance: both do, or neither
        assert end["outcome"] in ("finished", "refused"), (tmp_path / "engine.log").read_text()
        after = loaded.place.query(DRAWN)[0]
        keyed_in = [new - old for old, new in zip(before, after, strict=True)]
        before, tpcc = after, end["tpcc"]
        seen.append((keyed_in, tpcc["new_orders"], [(one["name"], one["count"]) for one in tpcc["types"]], tpcc["mix"]))
        assert sum(one["count"] for one in tpcc["mix"]) == end["succeeded"] == CLIENTS * 60
        assert tpcc["nopm"] == pytest.approx(tpcc["new_orders"]["committed"] * 60 / end["measured_s"])
        assert all(one["p90_ns"] > 0 for one in tpcc["types"])
        assert tpcc["server"]["transactions"] > 0
        if loaded.profile == "spec":
            deliveries = next(one["count"] for one in tpcc["types"] if one["name"] == "Delivery")
            assert (tpcc["deferred"]["done"], tpcc["deferred"]["left"]) == (deliveries, 0)
            assert tpcc["deferred"]["p90_ns"] > 0
        else:
            assert tpcc["deferred"] is None
    assert seen[0] == seen[1]
    loaded.consistent("--thorough")


def test_the_server_counts_until_the_last_ends(
    hammerdb: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = hammerdb.command("--events=-", "--transactions=100", "--tpcc-pauses=off", "--think-time=20ms")[1:]
    with generators_here(2) as generators:
        early = generators[0]
        begin = early.begin
        # as one whose users are served much faster than the other's
        less = lambda share, env: begin(replace(share, options_here=[*share.options_here, "--transactions=2"]), env)  # noqa: E731
        monkeypatch.setattr(early, "begin", less)
        end = run_load(generators, options, hammerdb.place.environment, tmp_path)[-1]
    assert [host["succeeded"] for host in end["generators"]] == [CLIENTS, CLIENTS // 2 * 100]
    placed, counted = end["tpcc"]["new_orders"]["committed"], end["tpcc"]["server"]["new_orders"]
    # the first look comes a little later than the first order; the early one has seen no tenth of them
    assert placed / 3 < counted <= placed


def test_a_delivery_that_hangs_is_given_up_and_canceled(hammerdb: Loaded) -> None:
    # only the other profile runs deliveries in the background; its tables are the same
    place = hammerdb.place
    comment_on(place, place.comment().replace('"hammerdb-6.1.1"', '"spec"'))
    with place.connect(autocommit=False) as blocker:
        # what only deliveries touch
        blocker.execute("LOCK TABLE new_order IN EXCLUSIVE MODE")
        Loaded(place, "spec").run("--time=2", "--tpcc-pauses=off", "--drain-limit=1", code=2)
        # a cancel request is answered before the session has ended its transaction
        wait_until(lambda: place.query(f"SELECT {SESSIONS} AND state = 'active'") == [])
        assert place.query("SELECT FROM pg_locks WHERE NOT granted") == []


def test_a_plan_runs_it(hammerdb: Loaded, warm_home: Home, tmp_path: Path) -> None:
    # test_tpcc_load.py has the reset by a template or another load
    env = hammerdb.place.environment
    server = f'''\
kind = "dsn"
dsn = "host={env["PGHOST"]} port={env["PGPORT"]} user={env["PGUSER"]}"
database = "{env["PGDATABASE"]}"
allow_existing = true'''
    trial = 'warmup = "0.2s"\nduration = "1s"\nrepeats = 1\n[reset]\nmethod = "none"'
    workload = 'name = "tpcc"\nvariant = "sql-pipelined"\nwarehouses = 2'
    run_plan_text(warm_home, tmp_path, fast_plan(workload, "clients = 4\nrate = 100", trial, server=server), code=0)
    (measured,) = the_run(tmp_path).trials()
    assert measured.outcome is Outcome.FINISHED
    assert present(measured.consistency).violations == []
    names = [script.name for script in present(measured.summary).scripts]
    assert names[:3] == ["New-Order", "New-Order rolled back", "Payment"]
