"""The servers that are loaded: a real one over two kinds of socket, and one that answers at once."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from programs import OLTP_ROWS, OLTP_TABLES
from psycopg import sql

from pgdyno.programs import find_engine
from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget

Place = Literal["unix", "tcp", "null"]
Environment = dict[str, str]
"""Variables by which a program finds its server."""

VERSION = "18"


@contextmanager
def places(scale: int, clients: int) -> Iterator[dict[Place, Environment]]:
    """A PostgreSQL with the tables of pgbench and of sysbench over a unix socket and TCP, and the null server."""
    # backends of a load may still end when the next one connects
    settings = {"shared_buffers": "512MB", "max_connections": str(2 * clients + 20), "synchronous_commit": "off"}
    spec = EmbeddedTarget(kind="embedded", version=VERSION, settings=settings)
    with open_target("bench", spec, home=Home.locate(), progress=SilentProgress()) as server:
        unix = server.environment()
        trust_loopback(server)
        load = [str(find_engine().path), "-i", "-q", "-s", str(scale)]
        tables = [load[0], "-i", "-q", "--dataset=sbtest", f"--tables={OLTP_TABLES}", f"--table-size={OLTP_ROWS}"]
        for command in (load, tables):
            subprocess.run(command, env={**os.environ, **unix}, check=True, stderr=subprocess.DEVNULL)
        with null_server(scale) as null:
            yield {"unix": unix, "tcp": {**unix, "PGHOST": "127.0.0.1"}, "null": null}


def trust_loopback(server: Server) -> None:
    """Asks for no password over TCP, because the bare loop has none."""
    rules = server.data_directory / "pg_hba.conf"
    rules.write_text(f"host all all 127.0.0.1/32 trust\n{rules.read_text()}")
    with server.connect() as connection:
        connection.execute("SELECT pg_reload_conf()")


@contextmanager
def null_server(scale: int) -> Iterator[Environment]:
    """A server with canned answers, for a dataset of that scale."""
    program = find_engine().path.with_name("pgnull")
    with tempfile.TemporaryDirectory(prefix="pgnull-") as folder:
        command = [str(program), f"--socket-dir={folder}", "--port=5432", f"--scale={scale}", "--parent-lease"]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdout.readline()
        try:
            yield {"PGHOST": folder, "PGPORT": "5432", "PGUSER": "bench", "PGDATABASE": "bench"}
        finally:
            server.stdin.close()
            server.wait()
            server.stdout.close()


def fresh_copy(server: Server, database: str, template: str) -> None:
    """Replaces a database by a copy of another one's files, and writes a checkpoint."""
    names = {"database": sql.Identifier(database), "template": sql.Identifier(template)}
    with server.connect("postgres") as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {database} WITH (FORCE)").format(**names))
        copy = "CREATE DATABASE {database} TEMPLATE {template} STRATEGY file_copy"
        connection.execute(sql.SQL(copy).format(**names))
        connection.execute("CHECKPOINT")
