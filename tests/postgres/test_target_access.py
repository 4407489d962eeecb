"""Who may connect to a server that pgdyno starts."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from pgdyno.targets import Home, Server
from tests.conninfo import conninfo
from tests.postgres.servers import embedded, opened

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root's servers run as another user")


@contextmanager
def as_server_user(home: Home) -> Iterator[None]:
    os.seteuid(home.account.uid)
    try:
        yield
    finally:
        os.seteuid(0)


def refused(server: Server, home: Home, user: str = "postgres") -> str:
    with as_server_user(home), pytest.raises(psycopg.OperationalError) as caught:
        psycopg.connect(conninfo(server), passfile="/dev/null", user=user).close()
    return str(caught.value)


def let_in(server: Server) -> bool:
    with psycopg.connect(conninfo(server), passfile="/dev/null") as connection:
        return connection.execute("SELECT current_user").fetchone() == ("postgres",)


@AS_ROOT
@pytest.mark.parametrize("keep", [False, True])
def test_the_servers_user_is_not_let_in(warm_home: Home, keep: bool) -> None:
    with opened(warm_home, embedded(keep_data=keep)) as server:
        assert let_in(server)
        assert 'Peer authentication failed for user "postgres"' in refused(server, warm_home)
        with server.connect() as connection:
            connection.execute("CREATE ROLE other LOGIN SUPERUSER")
        assert "no password supplied" in refused(server, warm_home, user="other")
        with as_server_user(warm_home), pytest.raises(psycopg.OperationalError, match="no password supplied"):
            # what a standby asks for, which runs as that user
            psycopg.connect(conninfo(server), passfile="/dev/null", replication="true").close()


def test_a_cluster_that_trusted_everybody_does_so_no_more(warm_home: Home) -> None:
    kept = embedded(keep_data=True)
    with opened(warm_home, kept) as server:
        hba = server.data_directory / "pg_hba.conf"
    hba.write_text("local all all trust\nhost all all 0.0.0.0/0 trust\n")
    with opened(warm_home, kept) as server:
        assert "trust" not in hba.read_text()
        assert let_in(server)
        with pytest.raises(psycopg.OperationalError, match="no password supplied"):
            psycopg.connect(conninfo(server), host="127.0.0.1", passfile="/dev/null").close()
        psycopg.connect(conninfo(server), host="127.0.0.1", password=server.password).close()


def test_other_roles_need_their_password(warm_home: Home) -> None:
    with opened(warm_home, embedded()) as server:
        with server.connect() as connection:
            connection.execute("CREATE ROLE other LOGIN PASSWORD 'its own'")
        with pytest.raises(psycopg.OperationalError, match="no password supplied"):
            psycopg.connect(conninfo(server), user="other", passfile="/dev/null").close()
        psycopg.connect(conninfo(server), user="other", password="its own").close()
