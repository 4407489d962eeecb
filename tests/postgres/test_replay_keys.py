"""A shop is captured through the proxy, and replayed on a copy whose sequences are elsewhere: it is the same shop."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgdyno.capture.folder import readme
from pgdyno.capture.server.server_session import foreign_keys, reach_server, sequence_positions
from pgdyno.errors import ExitCode
from pgdyno.records import ReplayFigures
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.postgres.own_servers import OwnServer, running_server
from tests.postgres.runs import pgdyno, the_run
from tests.postgres.shop_application import CONTENT, ELSEWHERE, SCHEMA, Shop
from tests.postgres.test_capture_proxy import ended, proxied
from tests.present import present
from tests.unit.capture_sample import capture as captured


@pytest.fixture(scope="module")
def server(installed: Installation) -> Iterator[OwnServer]:
    with running_server(installed, "", "shop") as server:
        yield server


def dsn(server: OwnServer, database: str) -> str:
    return f"host=127.0.0.1 port={server.port} user=postgres dbname={database}"


def make(server: OwnServer, database: str, more: str) -> None:
    with psycopg.connect(dsn(server, "postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)".encode())
        connection.execute(f"CREATE DATABASE {database}".encode())
    with psycopg.connect(dsn(server, database), autocommit=True) as connection:
        connection.execute(f"{SCHEMA};{more}".encode())


def content(server: OwnServer, database: str) -> dict[str, list[tuple[object, ...]]]:
    with psycopg.connect(dsn(server, database)) as connection:
        return {
            name: sorted(connection.execute(query.encode()).fetchall(), key=repr) for name, query in CONTENT.items()
        }


def replayed(home: Home, folder: Path, server: OwnServer) -> ReplayFigures:
    """Replay the capture `shop` on the database `copy`, whose sequences are elsewhere."""
    make(server, "copy", ELSEWHERE)
    changes = (f"target.copy.dsn={dsn(server, 'copy')}", "target.copy.database=copy", "probe.enabled=false")
    words = ("--no-preflight", "--alongside", *(word for each in changes for word in ("--set", each)))
    done = pgdyno(home, folder, "run", "shop/plan.toml", *words)
    assert done.returncode in {ExitCode.OK, ExitCode.INVALID}, done.stdout + done.stderr
    (trial,) = the_run(folder).trials()
    return present(present(trial.summary).replay)


def test_a_capture_keeps_foreign_keys_and_says_how_to_move_sequences(server: OwnServer) -> None:
    make(server, "shop", ELSEWHERE)
    keys = foreign_keys(reach_server(dsn(server, "shop"), None))
    assert (keys["order_lines.order_id"], keys["orders.cart_id"]) == ("orders.id", "carts.id")
    positions = sequence_positions(reach_server(dsn(server, "shop"), None))
    assert positions == {"public.carts_id_seq": 1000, "public.payment_numbers": 77}
    text = readme(captured(sequences=positions))
    assert "SELECT setval('public.carts_id_seq', 1000);\nSELECT setval('public.payment_numbers', 77);" in text


@pytest.mark.long_cases("anonymised")
@pytest.mark.parametrize("values", ["kept", "anonymised"])
def test_the_copy_says_what_the_shop_says(server: OwnServer, home: Home, tmp_path: Path, values: str) -> None:
    make(server, "shop", "")
    with proxied(home, tmp_path, dsn(server, "shop"), "--values", values) as (capture, proxy):
        Shop(proxy).run(sessions=6, transactions=60)
        ended(capture)
    figures = replayed(home, tmp_path, server)
    shop, copy = content(server, "shop"), content(server, "copy")
    assert all(shop.values())
    if values == "anonymised":
        # the rows of COPY are no part of such a capture, and nothing else is missing
        assert figures.disagreements.pop("different_rows") == figures.copies_without_data > 0
        assert not (shop.pop("audit") and copy.pop("audit"))
    assert present(figures.agreement) >= 0.999 or values == "anonymised"
    assert (figures.disagreed, figures.worst if values == "kept" else []) == (0, [])
    ids = present(figures.ids)
    assert (ids.mapped > 1000, ids.not_mapped, ids.ambiguous) == (True, 0, 0)
    assert copy == shop
