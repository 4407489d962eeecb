"""The round-trip time to a server, and that all pages of a restored server are read."""

import platform

from pgdyno.host import describe_host
from pgdyno.prepare.cache import dataset_relations, read_every_page
from pgdyno.targets import Server
from pgdyno.targets.round_trip import LEAST_TRIPS, TRIPS, measure_network_path
from tests.present import present


def test_the_way_to_a_server_of_this_machine(server: Server) -> None:
    way = measure_network_path(server)
    assert LEAST_TRIPS <= way.round_trips <= TRIPS
    assert 0 < way.least_us <= way.median_us
    # it is the same clock
    assert abs(present(way.clock_ahead_us)) <= present(way.clock_uncertainty_us)
    assert way.cpu_model == describe_host().cpu_model or platform.machine() != "x86_64"
    assert (way.generator_zone, way.server_zone, way.instance) == (None, None, None)


def test_every_page_is_read_and_no_extension_is_left(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS touched")
        connection.execute("CREATE TABLE touched AS SELECT g, repeat('x', 500) AS x FROM generate_series(1, 2000) g")
        connection.execute("CREATE INDEX ON touched (g)")
        before = connection.execute("SELECT count(*) FROM pg_extension").fetchone()
        blocks = sum(each.main_bytes // 8192 for each in dataset_relations(server))
        assert read_every_page(server) == f"{server.dbname}: {blocks:,} blocks"
        assert connection.execute("SELECT count(*) FROM pg_extension").fetchone() == before
        connection.execute("DROP TABLE touched")
