"""Values for the statements of pg_stat_statements: from pg_stats of the columns that they are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import psycopg

from pgdyno.capture.parameter_columns import Column, parameter_columns
from pgdyno.capture.server.server_session import Connection
from pgdyno.records.capture import StatementClass
from pgdyno.synthesise.constants import PLACE, Form, Template
from pgdyno.synthesise.transactions import Element, TransactionClass
from pgdyno.synthesise.values_and_pauses import SampledClass, Site, Texts
from pgdyno.synthesise.variables import MOST_VARIANTS, is_insert

DRAWN = 2_000
"""Values of a column that stand for its statistics."""
_UNIQUE = -1.0
"""n_distinct of a column in which every value is another."""
_WHOLE = {"smallint", "integer", "bigint"}
_NUMBERS = {*_WHOLE, "numeric", "real", "double precision", "oid"}
_TEXTS = {"text", "character varying", "character", "name"}
_TIMES = {"date", "timestamp without time zone", "timestamp with time zone"}
_DEFAULTS = {
    **dict.fromkeys(_NUMBERS, "1"),
    **dict.fromkeys(_TEXTS, "x"),
    "boolean": "true",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "interval": "1 day",
    "json": "{}",
    "jsonb": "{}",
}
_TYPES = """
    SELECT /* pgdyno */ pg_catalog.format_type(o, NULL) FROM unnest(%s::oid[]) WITH ORDINALITY AS u (o, n) ORDER BY n
"""
_STATISTICS = """
    SELECT /* pgdyno */ s.n_distinct::float8, s.most_common_vals::text::text[], s.most_common_freqs::float8[],
           s.histogram_bounds::text::text[]
    FROM pg_catalog.pg_stats AS s
    JOIN pg_catalog.pg_namespace AS n ON n.nspname = s.schemaname
    JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = s.tablename
    WHERE s.tablename = %(table)s AND s.attname = %(column)s
      AND (s.schemaname = %(schema)s OR (%(schema)s::text IS NULL AND pg_catalog.pg_table_is_visible(c.oid)))
    ORDER BY s.inherited DESC LIMIT 1
"""


@dataclass(frozen=True)
class ColumnStatistics:
    """A row of pg_stats."""

    distinct: float
    common: Sequence[str]
    frequencies: Sequence[float]
    bounds: Sequence[str]


class Refused(Exception):  # noqa: N818 - it says why
    """The server does not prepare a statement, with its reason."""


def read_statement(
    connection: Connection, number: int, of: StatementClass, began: datetime
) -> tuple[SampledClass, list[str]]:
    """Return a class of statements with values from statistics, and what has none in words. Raises Refused."""
    types = _parameter_types(connection, of.text)
    columns = parameter_columns(of.text)
    values: dict[int, Texts] = {}
    notes = []
    rng = np.random.default_rng(number)
    for place, type_ in enumerate(types, 1):
        drawn = _draw_texts(connection, columns.get(place), type_, rng, is_new=is_insert(of.text))
        if drawn is None:
            value = _default(type_, began)
            notes.append(f"${place}: no column with statistics is compared with it, so it is always {value or 'NULL'}")
            drawn = np.full(DRAWN, value, dtype=object)
        if type_ not in {*_NUMBERS, *_TEXTS, *_TIMES, "uuid"}:
            # no expression stands for values of other types, so some of them do
            some = list(dict.fromkeys(drawn))[:MOST_VARIANTS]
            drawn = np.array((some * DRAWN)[:DRAWN], dtype=object)
        values[place] = drawn
    template = Template.parse(of.text)
    places = [int(each[1:]) for each in PLACE.findall(of.text)]
    site = Site(
        element=0,
        offset=0,
        is_looped=False,
        number=number,
        template=template,
        forms=(Form.PARAMETER,) * len(places),
        columns=tuple(values[place] for place in places),
        transactions=np.arange(DRAWN, dtype=np.int64),
        sessions=np.zeros(DRAWN, dtype=np.int64),
        began_us=np.zeros(DRAWN, dtype=np.int64),
        pause_us=0.0,
    )
    found = TransactionClass((Element((number,)),), [(number,)], of.calls, round(of.total_us or 0), of.calls)
    return SampledClass(found, [site], {}, of.calls), notes


def _parameter_types(connection: Connection, text: str) -> list[str]:
    # the extended protocol takes one statement only, so nothing else in the text can run
    prepared = connection.pgconn.prepare(b"", text.encode())
    if prepared.status != psycopg.pq.ExecStatus.COMMAND_OK:
        raise Refused(prepared.get_error_message().strip().splitlines()[0])
    described = connection.pgconn.describe_prepared(b"")
    oids = [described.param_type(place) for place in range(described.nparams)]
    return [str(row[0]) for row in connection.execute(_TYPES, [oids])]


def _default(type_: str, began: datetime) -> str | None:
    if type_.endswith("[]"):
        return "{}"
    return began.isoformat() if type_ in _TIMES else _DEFAULTS.get(type_)


def _draw_texts(
    connection: Connection, column: Column | None, type_: str, rng: np.random.Generator, *, is_new: bool
) -> Texts | None:
    found = None if column is None else _statistics(connection, column)
    if found is None:
        return None
    drawn = _values(found, rng, is_whole=type_.removesuffix("[]") in _WHOLE, is_new=is_new)
    if drawn is not None and type_.endswith("[]"):
        escaped = (str(value).replace("\\", "\\\\").replace('"', '\\"') for value in drawn)
        drawn[:] = [f'{{"{value}"}}' for value in escaped]
    return drawn


def _statistics(connection: Connection, column: Column) -> ColumnStatistics | None:
    for schema, table in column.tables:
        row = connection.execute(_STATISTICS, {"schema": schema, "table": table, "column": column.name}).fetchone()
        if row is not None:
            return ColumnStatistics(row[0], row[1] or (), row[2] or (), row[3] or ())
    return None


def _values(of: ColumnStatistics, rng: np.random.Generator, *, is_whole: bool, is_new: bool) -> Texts | None:
    drawn = np.empty(DRAWN, dtype=object)
    common = min(DRAWN, round(sum(of.frequencies) * DRAWN)) if of.bounds else DRAWN
    if not of.bounds and not of.common:
        return None
    if is_whole and is_new and of.distinct == _UNIQUE and of.bounds:
        highest = int(of.bounds[-1])
        drawn[:] = [str(value) for value in range(highest - DRAWN + 1, highest + 1)]
        return drawn
    if of.common:
        weights = np.array(of.frequencies) / sum(of.frequencies)
        drawn[:common] = rng.choice(np.array(of.common, dtype=object), common, p=weights)
    rest = DRAWN - common if of.common else DRAWN
    if of.bounds and is_whole:
        bounds = np.array([int(each) for each in of.bounds], dtype=float)
        at = rng.random(rest) * (len(bounds) - 1)
        drawn[DRAWN - rest :] = [str(round(value)) for value in np.interp(at, np.arange(len(bounds)), bounds)]
    elif of.bounds:
        drawn[DRAWN - rest :] = rng.choice(np.array(of.bounds, dtype=object), rest)
    rng.shuffle(drawn)
    return drawn
