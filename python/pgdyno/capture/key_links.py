"""Which values of a capture the server made, and where later statements use them.

A *place* is a parameter or a constant of a text; places of one class and column form a *site*. A *source* is a column
of the answers of a class. Sites are linked to sources, and then each value of a site to the row that gave it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from pgdyno.capture.key_columns import COPIED, answer_columns, labels, place_columns
from pgdyno.capture.parser import require_parser
from pgdyno.capture.statement_templates import SPLIT, TOKENS
from pgdyno.store.duckdb_session import fetch_row, quote_text

if TYPE_CHECKING:
    import duckdb

AGREE = 0.99
"""The share of the values of a site that a source gave at some time, which it gave before they were used."""
FEWEST = 20
"""Different values from which a site is linked to a source whose column has another name."""
LONG = 16
"""Characters of values that are equal only if they are the same, such as UUIDs and timestamps."""
OFTEN = 0.5
"""The share of the values of a site that are those of the latest answer of such a source."""
_SHORTLY = 20
"""Statements."""
_SAMPLE = 200_000
"""Statements of the sessions in which sources with other names are looked for."""
_LAST_ENDED = 10
"""Sessions for which a session waits with the captured order."""
_MOST_ELEMENTS = 10_000
"""Of an array, and rows of a COPY, in which keys are looked for."""
_TOKEN = re.compile(TOKENS)
_HAS_PLACES = re.compile(r"['\d]|(?i:\bcopy\b)")
_ARRAY = re.compile(r'\{[^"\\{}]*\}')
"""Without quotes and other arrays; understood by Python and by RE2."""

_SPLIT, _TOKENS = quote_text(SPLIT), quote_text(TOKENS)
# a text without its constants stands for all with other ones
_STATEMENTS = f"""
CREATE TABLE keyed AS
SELECT session, seq, statement,
       hash(statement, CASE kind WHEN 'simple' THEN regexp_replace(sql, {_SPLIT}, '\\1\x04', 'g') ELSE sql END) AS text
FROM captured WHERE sql IS NOT NULL AND length(sql) <= 100000
"""
_TEXTS = """
SELECT text, any_value(keyed.statement), any_value(sql), any_value(answer_columns) FILTER (answer_columns IS NOT NULL)
FROM keyed JOIN captured USING (session, seq) GROUP BY text
"""
_KEY = (
    "CASE WHEN regexp_full_match({value}, '[0-9a-fA-F]{{8}}-?([0-9a-fA-F]{{4}}-?){{3}}[0-9a-fA-F]{{12}}')"
    " THEN lower(replace({value}, '-', ''))"
    " WHEN regexp_matches({value}, '^\\d{{4}}-\\d\\d-\\d\\d[ T]\\d\\d:\\d\\d')"
    " THEN coalesce('at ' || epoch_us(TRY_CAST({value} AS TIMESTAMP)), {value}) ELSE {value} END"
)
"""A UUID or a timestamp is the same in the form of the server and in that of an application."""
_USED = f"""
CREATE TABLE used AS
WITH stated AS (
    SELECT session, seq, text, at_us, parameters, copy,
           -- a prepared text cannot change
           CASE WHEN coalesce(name, '') = '' AND text IN (SELECT text FROM place WHERE place < 0)
                THEN regexp_extract_all(sql, {_TOKENS}) END AS tokens
    FROM captured JOIN keyed USING (session, seq) WHERE text IN (SELECT text FROM place)
), valued AS (
    SELECT session, seq, at_us, site, place,
           CASE WHEN place > 0 THEN value
                WHEN starts_with(value, '''') THEN replace(substr(value, 2, length(value) - 2), '''''', '''')
                WHEN regexp_full_match(value, '[0-9]+') THEN value END AS value
    FROM (SELECT session, seq, text, at_us, unnest(parameters) AS value, generate_subscripts(parameters, 1) AS place
          FROM stated
          UNION ALL
          SELECT session, seq, text, at_us, unnest(tokens), -generate_subscripts(tokens, 1) FROM stated)
         JOIN place USING (text, place)
)
SELECT session, seq, at_us, place, element, site, {_KEY.format(value="value")} AS value
FROM (
    SELECT session, seq, at_us, site, place, unnest(elements) AS value, generate_subscripts(elements, 1) AS element
    FROM (
        SELECT session, seq, at_us, site, place,
               CASE WHEN regexp_full_match(value, {quote_text(_ARRAY.pattern)})
                    THEN string_split(substr(value, 2, length(value) - 2), ',')[:{_MOST_ELEMENTS}]
                    ELSE [value] END AS elements
        FROM valued WHERE length(value) <= 10000
        UNION ALL
        SELECT session, seq, at_us, site, place,
               [string_split(line, '\t')[place - {COPIED} + 1] FOR line IN copy[:{_MOST_ELEMENTS}]]
        FROM stated JOIN place USING (text) WHERE place >= {COPIED}
    )
)
WHERE value <> ''
"""
_GIVEN = f"""
CREATE TABLE given AS
SELECT * FROM (
    SELECT session, seq, at_us, row, "column", source, is_made, is_made OR rows = 1 AS is_certain, captured,
           {_KEY.format(value="captured")} AS value
    FROM (
        SELECT c.session, c.seq, at_us + coalesce(us, 0) AS at_us, row - 1 AS row, "column", source, is_made,
               cells["column" + 1] AS captured, rows
        FROM (SELECT session, seq, at_us, us, unnest(answer) AS cells, generate_subscripts(answer, 1) AS row,
                     len(answer) AS rows
              FROM captured WHERE answer IS NOT NULL) c
             JOIN keyed USING (session, seq) JOIN source USING (text)
    )
    WHERE captured <> ''
) g
-- what the statement looked for, or stored, it does not give
ANTI JOIN (SELECT session, seq, value, source FROM used JOIN echoed USING (site)) u
     ON g.session = u.session AND g.seq = u.seq AND g.value = u.value AND g.source = u.source
"""
# a column of another name: it gave almost all values of the site in the session, and most with its latest answer
_LATEST = f"""
WITH sampled AS (
    SELECT session FROM (
        SELECT session, n, sum(n) OVER (ORDER BY hash(session)) AS upto
        FROM (SELECT session, count(*) AS n FROM keyed GROUP BY session)
    ) WHERE upto - n < {_SAMPLE}
), some_used AS (
    SELECT * FROM used SEMI JOIN sampled USING (session)
    WHERE site NOT IN (SELECT site FROM link JOIN source USING (source) WHERE is_made)
), some_given AS (SELECT * FROM given SEMI JOIN sampled USING (session) WHERE is_certain
), first AS (SELECT session, source, value, min(seq) AS seq FROM some_given GROUP BY ALL
), sites AS (SELECT site, count(*) AS n FROM some_used GROUP BY site
), likely AS (
    SELECT site, source FROM some_used u JOIN first f USING (session, value) JOIN sites USING (site)
    WHERE f.seq < u.seq GROUP BY site, source, n
    HAVING count(*) >= {AGREE} * n AND count(DISTINCT value) >= {FEWEST}
), latest AS (
    SELECT u.site, u.source, g.session, g.seq, g.value, (u.value = g.value)::INTEGER AS is_same
    FROM (SELECT * FROM some_used JOIN likely USING (site)) u
         ASOF JOIN some_given g ON u.session = g.session AND u.source = g.source AND u.seq > g.seq
)
INSERT INTO link
SELECT l.site, source FROM latest l ASOF LEFT JOIN used u
       ON l.session = u.session AND l.value = u.value AND l.seq >= u.seq
GROUP BY l.site, source
-- what an application sent, stored or changed, and then read, the server did not make
HAVING avg(is_same) >= {OFTEN} AND count(*) FILTER (u.seq >= l.seq - {_SHORTLY}) < {OFTEN} * count(*)
"""
_LONG = f"""
INSERT INTO link
SELECT DISTINCT site, source
FROM (SELECT DISTINCT site, value FROM used WHERE length(value) >= {LONG})
     JOIN (SELECT DISTINCT source, value FROM given WHERE length(value) >= {LONG}) USING (value)
"""
_EARLY = f"""
CREATE TABLE linked AS
SELECT site, source FROM used JOIN link USING (site)
     JOIN (SELECT source, value, min(at_us) AS first_us FROM given GROUP BY ALL) USING (source, value)
GROUP BY site, source
HAVING count(*) FILTER (first_us <= at_us) >= {AGREE} * count(*)
"""
# the nearest certain row of the session, else the only statement that made the value, else what is likely
_CHOSEN = """
CREATE TABLE chosen AS
WITH of_site AS (SELECT given.*, site FROM given JOIN linked USING (source)),
made AS (
    SELECT site, value, count(*) AS n, min(at_us) AS first_us, arg_min({cell}, at_us) AS cell
    FROM of_site WHERE is_made GROUP BY ALL
), anywhere AS (
    SELECT site, value, min(at_us) AS first_us, arg_min({cell}, at_us) AS cell
    FROM of_site WHERE is_certain AND NOT is_made GROUP BY ALL
), own AS (
    SELECT u.session, u.seq, u.place, u.element, g.cell
    FROM used u ASOF JOIN (SELECT *, {cell} AS cell FROM of_site WHERE is_certain) g
         ON u.session = g.session AND u.site = g.site AND u.value = g.value AND u.seq > g.seq
), unsure AS (
    SELECT u.session, u.seq, u.place, u.element, g.cell
    FROM used u ASOF JOIN (SELECT *, {cell} AS cell FROM of_site WHERE NOT is_certain) g
         ON u.session = g.session AND u.site = g.site AND u.value = g.value AND u.seq > g.seq
)
SELECT u.session, u.seq, u.at_us, u.place, u.element,
       coalesce(own.cell, CASE WHEN made.n = 1 AND made.first_us <= u.at_us THEN made.cell END, unsure.cell,
                CASE WHEN made.n IS NULL AND anywhere.first_us <= u.at_us THEN anywhere.cell END) AS cell,
       made.n > 1 AND made.first_us <= u.at_us AS is_ambiguous
FROM used u LEFT JOIN made USING (site, value) LEFT JOIN anywhere USING (site, value)
     LEFT JOIN own USING (session, seq, place, element) LEFT JOIN unsure USING (session, seq, place, element)
WHERE u.site IN (SELECT site FROM linked)
""".format(
    cell="{'session': session, 'seq': seq, 'row': row, 'column': \"column\","
    " 'captured': CASE WHEN NOT is_certain THEN captured END}"
)
# what another session sees of the row is there when the transaction has ended that made it
_AWAITED = """
CREATE TABLE awaited AS
WITH ended AS (
    SELECT session, transaction, max(seq) AS seq, max(at_us + coalesce(us, 0)) AS at_us
    FROM captured WHERE transaction IS NOT NULL GROUP BY ALL
)
SELECT DISTINCT c.session, c.seq, ended.session AS of_session, ended.seq AS of_seq
FROM (SELECT DISTINCT session, seq, at_us, cell.session AS giver, cell.seq AS giver_seq FROM chosen
      WHERE cell IS NOT NULL AND cell.session <> session) c
     JOIN captured made ON made.session = giver AND made.seq = giver_seq
     JOIN ended ON ended.session = giver AND ended.transaction = made.transaction
WHERE ended.at_us <= c.at_us
"""
# of statements at the same time, the first to be done probably drew the first key
_IN_ORDER = """
INSERT INTO awaited
SELECT session, seq, of_session, of_seq FROM (
    SELECT session, seq, lag(session) OVER chained AS of_session, lag(seq) OVER chained AS of_seq
    FROM captured JOIN ordered USING (statement)
    WINDOW chained AS (PARTITION BY chain ORDER BY at_us + coalesce(us, 0), session, seq)
) WHERE of_session <> session
"""
# one of the last sessions that ended before a session began may have made room for it
_AFTER_SESSIONS = f"""
INSERT INTO awaited
WITH bounds AS (
    SELECT session, min(at_us) AS begins, max(at_us) AS ends, min(seq) FILTER (sql IS NOT NULL) AS first,
           max(seq) FILTER (sql IS NOT NULL) AS last
    FROM captured GROUP BY session HAVING first IS NOT NULL
), ended AS (SELECT *, row_number() OVER (ORDER BY ends, session) AS place FROM bounds)
SELECT b.session, b.first, e.session, e.last
FROM (SELECT b.*, ended.place FROM bounds b ASOF JOIN ended ON b.begins >= ended.ends) b
     CROSS JOIN range({_LAST_ENDED}) AS back (places) JOIN ended e ON e.place = b.place - places
"""
_NOTHING_CHOSEN = """
CREATE TABLE chosen (
    session INTEGER, seq INTEGER, at_us BIGINT, place INTEGER, element BIGINT, is_ambiguous BOOLEAN,
    cell STRUCT("session" INTEGER, seq INTEGER, "row" BIGINT, "column" INTEGER, captured VARCHAR)
)
"""
_SLOTS = """
CREATE TABLE slot AS
SELECT *, row_number() OVER (ORDER BY cell.session, cell.seq, cell.row, cell."column") - 1 AS slot
FROM (SELECT DISTINCT cell FROM chosen WHERE cell IS NOT NULL
      UNION ALL SELECT DISTINCT {'session': of_session, 'seq': of_seq, 'row': -1, 'column': -1, 'captured': NULL}
      FROM awaited)
"""
_LINES = """
SELECT session, seq, max(gives), max(uses), max(after), max(done) FROM (
    SELECT cell.session AS session, cell.seq AS seq,
           list([cell.row::VARCHAR, cell."column"::VARCHAR, slot::VARCHAR, cell.captured])
               FILTER (cell.row >= 0) AS gives,
           NULL AS uses, NULL AS after, max(slot) FILTER (cell.row < 0) AS done
    FROM slot GROUP BY ALL
    UNION ALL
    SELECT session, seq, NULL, list([place, element, slot]), NULL, NULL FROM chosen JOIN slot USING (cell) GROUP BY ALL
    UNION ALL
    SELECT a.session, a.seq, NULL, NULL, list(slot), NULL
    FROM awaited a JOIN slot ON cell.session = of_session AND cell.seq = of_seq AND cell.row < 0 GROUP BY ALL
) GROUP BY session, seq ORDER BY session, seq
"""


@dataclass
class KeyLinks:
    """The links of a capture."""

    slots: int = 0
    """Values that later statements use."""
    ambiguous: int = 0
    """Values that several rows may have given, which keep what was captured."""
    lines: Callable[[], Iterator[tuple[Any, ...]]] = field(default=lambda: iter(()))
    """Session, seq, gives and uses of each statement that has some, in order."""


def find_links(
    connection: duckdb.DuckDBPyConnection, ordered: Mapping[int, str] | None, references: Mapping[str, str]
) -> KeyLinks:
    """Return the links of the view `captured`; without answers, there are no values to link.

    If `ordered` is given, the captured order is kept: of the statements of its classes that have the same name there,
    and of sessions.
    Raises UsageError without a parser.
    """
    has_answers = _count(connection, "captured WHERE answer IS NOT NULL") > 0
    if not has_answers and ordered is None:
        return KeyLinks()
    require_parser()
    if has_answers:
        connection.execute(_STATEMENTS)
        _describe_texts(connection, references)
    linking = (_USED, _GIVEN, _LATEST, _LONG, _EARLY, _CHOSEN) if has_answers else (_NOTHING_CHOSEN,)
    for each in (*linking, _AWAITED):
        connection.execute(each)
    if ordered is not None:
        connection.execute("CREATE TABLE ordered (statement INTEGER, chain VARCHAR)")
        _insert(connection, "ordered", list(ordered.items()))
        connection.execute(_IN_ORDER)
        connection.execute(_AFTER_SESSIONS)
    connection.execute(_SLOTS)
    return KeyLinks(
        _count(connection, "slot"),
        _count(connection, "chosen WHERE cell IS NULL AND is_ambiguous"),
        lambda: _fetched(connection.cursor().execute(_LINES)),
    )


def _count(connection: duckdb.DuckDBPyConnection, what: str) -> int:
    return int(fetch_row(connection, f"SELECT count(*) FROM {what}")[0])


def _fetched(found: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while some := found.fetchmany(4096):
        yield from some


def _describe_texts(connection: duckdb.DuckDBPyConnection, references: Mapping[str, str]) -> None:
    """Create `place`, `source`, `echoed`, and `link` with the pairs whose names agree."""
    sites: dict[tuple[int, object], int] = {}
    sources: dict[tuple[int, int], int] = {}
    by_label: dict[str, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    places, given, echoed = [], [], set()
    for text, statement, sql, names in connection.execute(_TEXTS).fetchall():
        columns = place_columns(sql) if _HAS_PLACES.search(sql) else {}
        answers = answer_columns(sql, names, references) if names else []
        for number, answer in enumerate(answers):
            source = sources.setdefault((statement, number), len(sources))
            given.append((text, number, source, answer.is_made))
            for label in answer.labels:
                by_label[label][1].add(source)
        for place in dict.fromkeys([*_places(sql), *(each for each in columns if each >= COPIED)]):
            column = columns.get(place)
            site = sites.setdefault((statement, column or place), len(sites))
            places.append((text, place, site))
            for label in labels(column, references) if column is not None else ():
                by_label[label][0].add(site)
            echoed |= {
                (site, sources[statement, number])
                for number, answer in enumerate(answers)
                if column is not None and column.name == answer.name
            }
    links = {(site, source) for of, by in by_label.values() for site in of for source in by}
    for name, kinds, rows in (
        ("place", "text UBIGINT, place INTEGER, site INTEGER", places),
        ("source", 'text UBIGINT, "column" INTEGER, source INTEGER, is_made BOOLEAN', given),
        ("echoed", "site INTEGER, source INTEGER", sorted(echoed)),
        ("link", "site INTEGER, source INTEGER", sorted(links)),
    ):
        connection.execute(f"CREATE TABLE {name} ({kinds})")
        _insert(connection, name, rows)


def _places(sql: str) -> Iterator[int]:
    for number, token in enumerate(_TOKEN.finditer(sql), 1):
        if token[0][0] == "'" or token[0].isdigit():
            yield -number
        elif token[0][0] == "$" and token[0][1:].isdigit():
            yield int(token[0][1:])


def _insert(connection: duckdb.DuckDBPyConnection, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)]
    if columns:
        connection.execute(f"INSERT INTO {name} SELECT {', '.join(['unnest(?)'] * len(columns))}", columns)


def use_places(
    sql: str, parameters: Sequence[str | None] | None, copy: Sequence[str] | None, uses: Iterable[Sequence[int]]
) -> list[list[int]]:
    """Return `uses` as the replay file has them: slot, parameter (text: 0, rows of COPY: -1), and bytes there."""
    tokens: list[re.Match[str]] = []
    rows = copy or ()
    before = list(accumulate((len(row.encode()) + 1 for row in rows), initial=0))
    found = []
    for place, element, slot in uses:
        if place >= COPIED:
            columns = rows[element - 1].split("\t")
            begin = before[element - 1] + sum(len(each.encode()) + 1 for each in columns[: place - COPIED])
            found.append([slot, -1, begin, begin + len(columns[place - COPIED].encode())])
            continue
        text, start = ((parameters or ())[place - 1] or "", 0) if place > 0 else (sql, 0)
        end = len(text)
        if place < 0:
            tokens = tokens or list(_TOKEN.finditer(sql))
            start, end = tokens[-place - 1].span()
            if sql[start] == "'":
                start, end = start + 1, end - 1
        if _ARRAY.fullmatch(text[start:end]):
            elements = text[start + 1 : end - 1].split(",")
            start += 1 + sum(len(each) + 1 for each in elements[: element - 1])
            end = start + len(elements[element - 1])
        begin = len(text[:start].encode())
        found.append([slot, max(place, 0), begin, begin + len(text[start:end].encode())])
    return sorted(found, key=lambda each: each[1:])
