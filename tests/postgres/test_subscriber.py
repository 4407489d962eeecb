"""A logical subscriber of a target: it follows the load, what replaces tables ends it, and its lag is measured."""

import pytest

from pgdyno.prepare import Dataset
from pgdyno.targets import Home, LagWatch, Server
from pgdyno.targets.cluster.subscriber import NAME
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.postgres.servers import embedded, on_replica, opened, preparer, value
from tests.postgres.test_target_replicas import step
from tests.waiting import wait_until

SMALL = Dataset("pgbench", 1)
SUMS = (
    "SELECT (SELECT sum(abalance) FROM pgbench_accounts) || ' ' || (SELECT count(*) FROM pgbench_history)"
    " || ' ' || (SELECT count(*) FROM pgbench_accounts)"
)


def spec(version: str, **subscriber: object) -> EmbeddedTarget:
    return embedded(version, subscriber=subscriber)


def write(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("UPDATE pgbench_accounts SET abalance = abalance + 7 WHERE aid <= 100")
        connection.execute(
            "INSERT INTO pgbench_history (tid, bid, aid, delta) SELECT 1, 1, 1, 7 FROM generate_series(1, 50)"
        )


def watched(server: Server) -> LagWatch:
    return LagWatch(server.address, server.replica_names(), is_logical=server.has_subscriber)


@pytest.mark.parametrize(
    ("version", "method"), [("15", "template"), ("16", "reload"), ("17", "template"), ("18", "template")]
)
def test_a_subscriber_of_any_version_follows_and_is_renewed_with_the_tables(
    home: Home, version: str, method: str
) -> None:
    with opened(home, spec(version, settings={"work_mem": "9MB"})) as server:
        trials = preparer(server, method=method, restart=True)
        for _ in range(2):
            # the second time a copy or a load replaces the database
            assert step(trials.prepare(SMALL), "replicas").startswith("1: ")
            assert on_replica(server, SUMS) == "0 0 100000"
            assert on_replica(server, "SHOW work_mem") == "9MB"
            with watched(server) as watch:
                write(server)
                wait_until(lambda: on_replica(server, SUMS) == "700 50 100000")
                assert step(preparer(server).prepare(SMALL), "replicas") == "they were there"
                (lag,) = watch.lags()
            assert (lag.name, lag.is_logical, lag.sync_state) == (NAME, True, "async")
        server.end_subscription()
        remains = "SELECT (SELECT count(*) FROM pg_publication) + (SELECT count(*) FROM pg_replication_slots)"
        assert value(server, remains) == 0


def test_the_lag_of_a_subscriber_is_the_age_of_what_it_does_not_show(home: Home) -> None:
    streamed = {"options": {"streaming": "parallel", "binary": "true"}}
    with opened(home, spec("18", **streamed)) as server:
        preparer(server).prepare(SMALL)
        with server.replica_addresses()[0].connect(server.dbname) as blocker, watched(server) as watch:
            blocker.execute("BEGIN; LOCK pgbench_history")
            write(server)
            wait_until(lambda: (watch.lags()[0].replay_lag_last_s or 0) > 1.5)
            blocker.execute("COMMIT")
            wait_until(lambda: watch.lags()[0].replay_lag_last_s == 0)
        (lag,) = watch.lags()
        assert lag.bytes_last == 0
        assert on_replica(server, SUMS) == "700 50 100000"
