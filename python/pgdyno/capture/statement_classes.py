"""Classes of statements: what the parser says of each template, and how often and how long its statements ran."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import duckdb

from pgdyno.capture.logs.log_statements import Templates
from pgdyno.capture.parser import ParsedText, parse
from pgdyno.records.capture import StatementClass

_TABLE = """
CREATE TABLE template_class (
    template UBIGINT, statement INTEGER, effect VARCHAR, reason VARCHAR, parameters INTEGER
)
"""
_NEW = """
SELECT template, sql FROM {lines} JOIN (
    SELECT min(place) AS place FROM ended ANTI JOIN template_class USING (template)
    WHERE reason IS NULL AND template IS NOT NULL GROUP BY template
) USING (place) ORDER BY place
"""
_ADD = """
INSERT INTO template_class
SELECT unnest($template::UBIGINT[]), unnest($statement::INTEGER[]), unnest($effect::VARCHAR[]),
       unnest($reason::VARCHAR[]), unnest($parameters::INTEGER[])
"""
# time in three digits: percentiles of any number of statements from few counts
_TIMES = """
CREATE TEMP TABLE class_times AS
SELECT statement, round(us, CASE WHEN us < 1000 THEN 0 ELSE 2 - floor(log10(us))::INTEGER END) AS us,
       count(*) AS n, sum(us)::DOUBLE AS total_us, count(sqlstate) AS errors, sum(rows) AS rows
FROM {statements} GROUP BY ALL
"""
_PERCENTILES = """
SELECT statement, sum(total_us), min(us) FILTER (upto >= 0.5 * timed_n),
       min(us) FILTER (upto >= 0.99 * timed_n)
FROM (SELECT *, sum(n) OVER (PARTITION BY statement ORDER BY us) AS upto,
             sum(n) OVER (PARTITION BY statement) AS timed_n
      FROM class_times WHERE us IS NOT NULL)
GROUP BY statement
"""
_CALLS = """
SELECT statement, sum(n)::BIGINT, sum(errors)::BIGINT, sum(rows)::BIGINT
FROM class_times GROUP BY statement ORDER BY statement
"""


class Classes:
    """The classes of the statements of a log, by preliminary numbers."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, templates: Templates) -> None:
        self._templates = templates
        self._parsed: list[ParsedText] = []
        self._numbers: dict[str, int] = {}
        connection.execute(_TABLE)

    def learn(self, cursor: duckdb.DuckDBPyConnection, lines: str) -> None:
        """Adds the new templates of the table `ended` of `cursor`, whose texts are in `lines`, to `template_class`."""
        columns: dict[str, list[object]] = {
            name: [] for name in ("template", "statement", "effect", "reason", "parameters")
        }
        for template, sql in cursor.execute(_NEW.format(lines=lines)).fetchall():
            judged, parsed = self._templates.known[template], parse(sql)
            number = self._numbers.setdefault(parsed.fingerprint or parsed.text, len(self._parsed))
            if number == len(self._parsed):
                self._parsed.append(parsed)
            row = (template, number, parsed.effect, judged.reason, judged.parameters)
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
        if columns["template"]:
            cursor.execute(_ADD, columns)

    def by_calls(self, connection: duckdb.DuckDBPyConnection, statements: str) -> list[StatementClass]:
        """Returns the classes of the table `statements`, the most frequent first.

        The table `renumbered` says the number of each of them by the preliminary one.
        """
        connection.execute(_TIMES.format(statements=statements))
        times = {row[0]: row[1:] for row in _rows(connection, _PERCENTILES)}
        counts = sorted(_rows(connection, _CALLS), key=lambda row: (-row[1], self._parsed[row[0]].text))
        connection.execute(
            "CREATE TABLE renumbered AS SELECT unnest($old::INTEGER[]) AS old, unnest($new::INTEGER[]) AS new",
            {"old": [row[0] for row in counts], "new": list(range(len(counts)))},
        )
        classes = []
        for number, calls, errors, rows in counts:
            total_us, p50_us, p99_us = times.get(number, (None, None, None))
            classes.append(
                StatementClass(
                    text=self._parsed[number].text,
                    fingerprint=self._parsed[number].fingerprint,
                    calls=calls,
                    errors=errors,
                    rows=rows,
                    total_us=total_us,
                    p50_us=p50_us,
                    p99_us=p99_us,
                )
            )
        return classes


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> Iterable[tuple[Any, ...]]:
    return connection.execute(query).fetchall()
