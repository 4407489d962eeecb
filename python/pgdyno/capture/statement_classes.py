"""Classes of statements: what the parser says of each template, how often and how long it ran, and their texts."""

import json
from collections.abc import Iterable

import duckdb

from pgdyno.capture.left_out import Losses
from pgdyno.capture.logs.log_statements import Templates
from pgdyno.capture.parser import LONGEST, ParsedText, kept_apart, parse
from pgdyno.effect import Effect, effect_of_sql
from pgdyno.records.capture import OTHER_STATEMENTS, StatementClass

MOST_BYTES = 24 << 20
"""Of all classes in capture.json, of which commands read 32 MiB."""
_OTHER_BYTES = 400
"""The most that the numbers of a class and the names of its fields take."""


class ClassTexts:
    """The space that the texts of classes have left."""

    def __init__(self) -> None:
        self._free_bytes = MOST_BYTES

    def take(self, text: str) -> bool:
        """Reserves the space of a class with this text; returns False if it does not fit any more."""
        size = len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) + _OTHER_BYTES
        fits = size <= self._free_bytes
        self._free_bytes -= size if fits else 0
        return fits


def select_fitting_classes(classes: Iterable[StatementClass]) -> tuple[list[StatementClass], int]:
    """Return the classes that fit, the first ones first, and a last one of all others with its number of statements.

    `classes` have rows and times; without others, there is no such class, and the number is 0.
    """
    texts = ClassTexts()
    found: list[StatementClass] = []
    others: list[StatementClass] = []
    for each in classes:
        (found if texts.take(each.text) else others).append(each)
    calls = sum(each.calls for each in others)
    if others:
        rows, total_us = sum(each.rows or 0 for each in others), sum(each.total_us or 0.0 for each in others)
        found.append(StatementClass(text=OTHER_STATEMENTS, calls=calls, rows=rows, total_us=total_us))
    return found, calls


_TABLE = """
CREATE TABLE template_class (
    template UBIGINT, statement INTEGER, effect VARCHAR, failed VARCHAR, reason VARCHAR, parameters INTEGER
)
"""
_NEW = """
SELECT template, place, sql FROM {lines} JOIN (
    SELECT min(place) AS place FROM ended ANTI JOIN template_class USING (template)
    WHERE reason IS NULL AND template IS NOT NULL GROUP BY template
) USING (place) ORDER BY place
"""
_ADD = """
INSERT INTO template_class
SELECT unnest($template::UBIGINT[]), unnest($statement::INTEGER[]), unnest($effect::VARCHAR[]),
       unnest($failed::VARCHAR[]), unnest($reason::VARCHAR[]), unnest($parameters::INTEGER[])
"""
# time in three digits: percentiles of any number of statements from few counts
_CALLS = """
WITH timed AS (
    SELECT statement, round(us, CASE WHEN us < 1000 THEN 0 ELSE 2 - floor(log10(us))::INTEGER END) AS us,
           count(*) AS n, count(us) AS timed_n, sum(us)::DOUBLE AS total_us, count(sqlstate) AS errors,
           sum(rows) AS rows
    FROM {statements} GROUP BY ALL
), placed AS (
    SELECT *, sum(timed_n) OVER (PARTITION BY statement ORDER BY us) AS upto,
           sum(timed_n) OVER (PARTITION BY statement) AS all_n
    FROM timed
)
SELECT statement, sum(n)::BIGINT, sum(errors)::BIGINT, sum(rows)::BIGINT, sum(total_us),
       min(us) FILTER (upto >= 0.5 * all_n), min(us) FILTER (upto >= 0.99 * all_n)
FROM placed GROUP BY statement ORDER BY statement
"""


class Classes:
    """The classes of the statements of a log, by preliminary numbers."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, templates: Templates, *, only_reads: bool) -> None:
        """`only_reads`: statements that may write are left out."""
        self._templates, self._only_reads = templates, only_reads
        self._parsed: list[ParsedText] = []
        self._numbers: dict[str, int] = {}
        self.have_newlines = False
        """Whether a statement has several lines."""
        self.have_unfinished = False
        """Whether a statement ends in its middle."""
        self._texts = ClassTexts()
        self._others: int | None = None
        """The number of the class of the statements whose own classes do not fit."""
        self._first_other = 0
        """The place of the first of them."""
        connection.execute(_TABLE)

    def learn(self, cursor: duckdb.DuckDBPyConnection, lines: str) -> None:
        """Add the new templates of the table `ended` of `cursor`, whose texts are in `lines`, to `template_class`."""
        columns: dict[str, list[object]] = {
            name: [] for name in ("template", "statement", "effect", "failed", "reason", "parameters")
        }
        for template, place, sql in cursor.execute(_NEW.format(lines=lines)).fetchall():
            judged, parsed = self._templates.known[template], parse(sql)
            self.have_newlines |= "\n" in sql
            # texts that are too long may have the same beginning
            key = f"template {template}" if len(sql) > LONGEST else parsed.text
            if parsed.fingerprint is not None:
                key = f"{parsed.fingerprint} {kept_apart(parsed.text)}"
            number = self._number(key, parsed, place)
            # the server parsed what it ran
            reason = judged.reason or ("not-whole" if parsed.ends_early else None)
            self.have_unfinished |= reason == "not-whole"
            if self._only_reads and effect_of_sql(sql) is not Effect.READS:
                reason = reason or "writes"
            row = (template, number, parsed.effect, parsed.failed, reason, judged.parameters)
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
        if columns["template"]:
            cursor.execute(_ADD, columns)

    def _number(self, key: str, parsed: ParsedText, place: int) -> int:
        number = self._numbers.get(key)
        if number is not None:
            return number
        if self._texts.take(parsed.text):
            self._numbers[key] = self._add(parsed)
            return self._numbers[key]
        if self._others is None:
            self._others = self._add(ParsedText(OTHER_STATEMENTS, None, None, None))
            self._first_other = place
        return self._others

    def _add(self, parsed: ParsedText) -> int:
        self._parsed.append(parsed)
        return len(self._parsed) - 1

    def by_calls(self, connection: duckdb.DuckDBPyConnection, statements: str, losses: Losses) -> list[StatementClass]:
        """Return the classes of the table `statements`, the most frequent first, and add what they lack to `losses`.

        The table `renumbered` says the number of each of them by the preliminary one.
        """
        counted = connection.execute(_CALLS.format(statements=statements)).fetchall()
        counts = sorted(counted, key=lambda row: (-row[1], self._parsed[row[0]].text))
        connection.execute(
            "CREATE TABLE renumbered AS SELECT unnest($old::INTEGER[]) AS old, unnest($new::INTEGER[]) AS new",
            {"old": [row[0] for row in counts], "new": list(range(len(counts)))},
        )
        classes = []
        for number, calls, errors, rows, total_us, p50_us, p99_us in counts:
            if number == self._others:
                losses.add_at("other-classes", self._first_other, calls)
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
