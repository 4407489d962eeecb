"""The connection string of a server that a test started."""

from psycopg.conninfo import make_conninfo

from pgdyno.targets import Server


def conninfo(server: Server) -> str:
    """Returns libpq's connection string of the workload's database, without the password."""
    return make_conninfo(**{**server.address.parameters, "dbname": server.dbname})
