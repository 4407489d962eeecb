"""Which active sessions wait for their clients, and which had just ended a statement when they were sampled."""

import subprocess
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.watch.polling import backends
from tests.postgres.probe_process import Probe, probing
from tests.postgres.watch_process import BIN, clean
from tests.waiting import wait_until

CLIENT_READ = ("Client", "ClientRead")
SETTINGS = {"fsync": "off", "shared_buffers": "64MB", "max_connections": "60"}
CLIENTS = 4


@pytest.fixture(scope="module", params=["10", "13", "18"])
def server(request: pytest.FixtureRequest, home: Home) -> Iterator[Server]:
    spec = EmbeddedTarget(kind="embedded", version=request.param, settings=SETTINGS)
    with open_target("client-waits", spec, home=home, progress=SilentProgress()) as server:
        subprocess.run(
            [BIN / "pgdrive", "-i", "-q"], env=clean(server.environment()), check=True, capture_output=True, timeout=120
        )
        yield server


def seen(probe: Probe, since: float) -> Counter[tuple[str, str | None]]:
    """Returns sessions by wait, of all samples since a wall-clock time."""
    total: Counter[tuple[str, str | None]] = Counter()
    for at, look in probe.waits():
        total.update(look if at > since else {})
    return total


def is_waiting(server: Server, pid: int) -> bool:
    with server.connect() as connection:
        return [row["wait"] for row in backends(connection)["rows"] if row["pid"] == pid] == ["Client:ClientRead"]


@pytest.mark.long
def test_short_statements_are_on_a_processor(server: Server) -> None:
    """The server copies the states of sessions before it reads their waits."""
    load = [str(BIN / "pgdrive"), "-n", "-S", "-M", "prepared", "-c", str(CLIENTS), "-T", "600"]
    with (
        subprocess.Popen(load, env=clean(server.environment()), stdout=subprocess.DEVNULL) as process,
        probing(server.environment(), ["--no-host", "--waits-hz=50"]) as probe,
    ):
        try:
            wait_until(lambda: sum(seen(probe, 0).values()) > 100)
        finally:
            process.kill()
    found = seen(probe, 0)
    assert found["CPU", None] > 0.9 * sum(found.values()), found
    assert found[CLIENT_READ] < 0.05 * sum(found.values()), found


@pytest.mark.long_cases("[10]", "[13]")
def test_a_copy_waits_for_its_client(server: Server) -> None:
    with server.connect() as connection, probing(server.environment(), ["--no-host"]) as probe:
        connection.execute("CREATE TEMPORARY TABLE filled (id int)")
        with connection.cursor().copy("COPY filled FROM STDIN") as copy:
            copy.write("1\n")
            began = time.time()
            wait_until(lambda: seen(probe, began)[CLIENT_READ] >= 3)
            assert is_waiting(server, connection.info.backend_pid)


@pytest.mark.long_cases("[10]", "[13]")
def test_a_pipeline_that_stays_open_waits_for_its_client(server: Server) -> None:
    with server.connect() as connection, probing(server.environment(), ["--no-host"]) as probe:
        raw = connection.pgconn
        raw.enter_pipeline_mode()
        raw.send_query_params(b"SELECT 1", None)
        raw.send_flush_request()
        raw.flush()
        began = time.time()
        # that it waits for its client is known after a second
        wait_until(lambda: seen(probe, began)[CLIENT_READ] >= 3)
        assert is_waiting(server, connection.info.backend_pid)
        first = min(at for at, look in probe.waits() if look.get(CLIENT_READ))
        assert first - began > 0.9
        connection.close()
