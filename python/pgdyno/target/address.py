"""How a server is reached: libpq's parameters, and the variables that say the same to other programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from pgdyno.errors import TargetError

CONNECT_TIMEOUT_S = 30


@dataclass(slots=True)
class Address:
    """Where one server is, for whom; databases are chosen by each connection."""

    parameters: dict[str, str]
    """libpq's, without database and password."""
    password: str | None = field(default=None, repr=False)
    """None: libpq finds it itself, or there is none."""

    def conninfo(self, dbname: str) -> str:
        """libpq connection string, without the password: that goes by `environment`."""
        return make_conninfo(**{**self.parameters, "dbname": dbname})

    def environment(self, dbname: str) -> dict[str, str]:
        """Variables with which libpq programs and pgdrive find it."""
        values = {**self.parameters, "dbname": dbname}
        if self.password is not None:
            values["password"] = self.password
        names = variables_of_libpq()
        return {names[keyword]: value for keyword, value in values.items() if keyword in names}

    def connect(self, dbname: str, **more: str) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection in autocommit mode; `more` are parameters of its own. Raises TargetError."""
        values: dict[str, Any] = {
            "connect_timeout": str(CONNECT_TIMEOUT_S),
            "application_name": "pgdyno",
            # of a database in SQL_ASCII, too: else psycopg gives its texts as bytes
            "client_encoding": "utf8",
            **self.parameters,
            **more,
            "dbname": dbname,
        }
        try:
            return psycopg.connect(**values, password=self.password, autocommit=True)
        except psycopg.OperationalError as error:
            reached = make_conninfo(**{**self.parameters, **more, "dbname": dbname})
            raise TargetError(f"cannot connect to {reached}: {str(error).strip()}") from error


def variables_of_libpq() -> dict[str, str]:
    """Names of environment variables by the parameters that they stand for."""
    options = pq.Conninfo.get_defaults()
    return {option.keyword.decode(): option.envvar.decode() for option in options if option.envvar is not None}


def parameters_of(connection: psycopg.Connection[tuple[Any, ...]]) -> Mapping[str, str]:
    """What libpq made of connection string, environment and service file for `connection`; not what is its default."""
    return connection.info.get_parameters()
