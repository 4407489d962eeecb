"""The columns that a statement's values concern: those of its answer, and those of its parameters and constants.

A value of an answer and a later parameter are the same key only if the names of their columns agree. `labels` are
what is compared: `orders.id` and `lines.order_id` both have the label `orderid`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.capture.parameter_columns import (
    Column,
    column_of,
    nodes_of,
    parameter_columns,
    parsed_statements,
    table_of,
    tables_in,
)
from pgdyno.capture.statement_templates import TOKENS
from pgdyno.records.capture import StatementClass

_TOKEN = re.compile(TOKENS)
COPIED = 1_000_000
_COPY = re.compile(
    r'\s*COPY\s+([\w."]+)\s*\(([\w\s,"]+)\)\s*FROM\s+STDIN\b(?![^;]*\b(?:csv|binary|delimiter)\b)', re.IGNORECASE
)
_INSERT = re.compile(r'(?i)\s*insert\s+into\s+([\w."]+)')
_DRAW = re.compile(r"(?i)\bnextval\s*\(\s*('[^']*'|\$\d+)")
_OF_TYPE = re.compile(
    r"(?i)\b(?:varchar|char|character|varying|bpchar|numeric|decimal|bit|float|date|timetz|time|timestamptz|timestamp"
    r"|interval)\s*(?:\((?:\s*\d+\s*,)?\s*)?\Z"
)
"""Before constants that belong to a type, where no parameter can stand: `varchar(10)`, `date '2026-01-01'`."""
_MORE = 100_000
"""Numbers of parameters that stand for constants begin after it: the protocol has fewer."""
_GENERAL = {"id", "uuid", "guid", "pk", "key", "code", "name", "number", "no", "value", "count", "version", "type"}
"""Names of columns that say nothing without their table."""
_IS_KEY = re.compile(r"(?:id|key|pk|no|nr|num|number|code|token|ref|hash|slug)\Z")
_DRAWS = {"nextval", "gen_random_uuid", "uuidv4", "uuidv7", "uuid_generate_v4", "txid_current"}
_READS = {"currval", "lastval"}


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """A column of an answer."""

    labels: frozenset[str]
    is_made: bool
    """Whether the statement makes the value: the key of a new row, or the next one of a sequence."""
    name: str


def place_columns(sql: str) -> dict[int, Column]:
    """Return the column of each place of `sql`: `n` for parameter `$n`, `-n` for its token number n, from 1.

    A token is what TOKENS matches. COPIED + n is column n, from 0, of the rows that COPY gets. Places that belong to no
    column are absent.
    """
    copied = _COPY.match(sql)
    if copied is not None:
        tables = ((None, copied[1].rpartition(".")[2].strip('"')),)
        names = (each.strip().strip('"') for each in copied[2].split(","))
        return {COPIED + number: Column(name, tables) for number, name in enumerate(names) if _IS_KEY.search(name)}
    numbers = iter(range(1, len(sql) + 2))
    spelled = _TOKEN.sub(lambda token: _spell(token, next(numbers)), sql)
    found = parameter_columns(spelled) or parameter_columns(sql)
    return {number if number < _MORE else _MORE - number: column for number, column in found.items()}


def _spell(found: re.Match[str], number: int) -> str:
    token = found[0]
    before = found.string[max(found.start() - 40, 0) : found.start()]
    if _OF_TYPE.search(before):
        return token
    if token[0] in '"$' and not token.startswith("$$"):
        return token
    if token.startswith(("--", "/*")):
        return " "
    return f" ${_MORE + number} " if token[0] == "'" or token[0].isdigit() else token


def labels(column: Column, references: Mapping[str, str] = {}) -> frozenset[str]:
    """Return what identifies `column` together with its table, in a form that foreign keys share.

    `references` are the foreign keys that are known; of others, the names say it if they are those of keys.
    """
    own = {f"{table}.{column.name}" for _, table in column.tables}
    exact = {f"={_referenced(each, references)}" for each in own}
    name = column.name.lower()
    if own & references.keys() or not _IS_KEY.search(name):
        return frozenset(exact if own & {*references, *references.values()} else ())
    found = set() if name in _GENERAL else {_plain(name)}
    for _, table in column.tables:
        words = table.lower().split("_")
        found |= {_plain("_".join([*words[first:], name])) for first in {0, len(words) - 1}}
    return frozenset(found | exact)


def _referenced(column: str, references: Mapping[str, str]) -> str:
    seen: set[str] = set()
    while column in references and column not in seen:
        seen.add(column)
        column = references[column]
    return column


def _plain(name: str) -> str:
    return "".join(_singular(word) for word in re.split(r"[\W_]+", name))


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word.removesuffix("s")


def answer_columns(sql: str, names: Sequence[str], references: Mapping[str, str] = {}) -> list[AnswerColumn]:
    """Return what is known of the columns `names` of the answer to `sql`, of which the last statement has rows."""
    for statement in reversed(parsed_statements(sql)):
        targets = _targets(statement)
        if targets:
            return list(_described(statement, targets, names, references))
    return [AnswerColumn(frozenset(), False, name) for name in names]


def _targets(statement: Any) -> tuple[Any, ...]:  # noqa: ANN401 - nodes of the parser
    kind = type(statement).__name__
    if kind == "SelectStmt":
        while statement.larg is not None:
            statement = statement.larg
        return tuple(statement.targetList or ())
    clause = getattr(statement, "returningClause", None)
    return tuple((clause.exprs if clause is not None else getattr(statement, "returningList", None)) or ())


def _described(
    statement: Any,  # noqa: ANN401 - nodes of the parser
    targets: tuple[Any, ...],
    names: Sequence[str],
    references: Mapping[str, str],
) -> Iterator[AnswerColumn]:
    tables = tables_in(statement)
    inserts = type(statement).__name__ == "InsertStmt"
    of_insert = {"": table_of(statement.relation)} if inserts else {}
    all_tables = tuple(dict.fromkeys((of_insert or tables).values()))
    for place, name in enumerate(names):
        value = targets[place].val if len(targets) == len(names) else None
        column, is_made = column_of(value, of_insert or tables) or Column(name, all_tables), inserts
        if value is not None and type(value).__name__ == "FuncCall":
            function = value.funcname[-1].sval.lower()
            column = _sequence(value, name) if function in _DRAWS | _READS else Column(name, ())
            is_made = function in _DRAWS
        yield AnswerColumn(labels(column, references), is_made, column.name)


def _sequence(call: Any, name: str) -> Column:  # noqa: ANN401 - nodes of the parser
    for constant in nodes_of(call, "String") if call.args else ():
        if constant.sval.endswith("_seq"):
            return Column(constant.sval.rpartition(".")[2].strip('"').removesuffix("_seq"), ())
    return Column(name, ())


def keys_used(statements: Sequence[StatementClass]) -> tuple[int, list[str]]:
    """Return how many statements name keys that the server made, as far as names show, and some that made them."""
    makers = {each.text: keys_made(each.text) for each in statements if each.has_text}
    made = frozenset(label for some in makers.values() for label in some)
    if not made:
        return 0, []
    calls = 0
    used: set[str] = set()
    for each in statements:
        if each.has_text:
            # what a new row says of itself is no use of its key
            labelled = [labels(column) & made - makers[each.text] for column in place_columns(each.text).values()]
            found = frozenset(label for some in labelled for label in some)
            calls += each.calls if found else 0
            used |= found
    return calls, [text for text, some in makers.items() if some & used]


def chains(statements: Sequence[StatementClass]) -> dict[int, str]:
    """Return what draws from one sequence, by number of the class: the table of an INSERT, or the name of a sequence.

    Of INSERTs, only those into tables of which some statement returns a new key.
    """
    found, tables = {}, set()
    for number, each in enumerate(statements):
        insert = _INSERT.match(each.text) if each.has_text else None
        draw = _DRAW.search(each.text) if each.has_text and insert is None else None
        if insert is not None:
            found[number] = insert[1].rpartition(".")[2].strip('"').lower()
            tables |= {found[number]} if keys_made(each.text) else set()
        elif draw is not None:
            found[number] = f"sequence {draw[1]}"
    return {number: name for number, name in found.items() if name in tables or name.startswith("sequence ")}


def keys_made(text: str) -> frozenset[str]:
    """Return the labels of the keys that a statement of this text makes and returns; empty if it makes none."""
    statements = parsed_statements(text) if re.search(r"(?i)\breturning\b|\bnextval\b", text) else []
    if len(statements) != 1:
        return frozenset()
    targets = _targets(statements[0])
    names = [each.name or (column_of(each.val, {}) or Column("id", ())).name for each in targets]
    described = _described(statements[0], targets, names, {})
    return frozenset(label for each in described if each.is_made for label in each.labels)
