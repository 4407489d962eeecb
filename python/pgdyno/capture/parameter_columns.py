"""What PostgreSQL's parser says of a statement's text: where its parts end, and which columns its parameters concern."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


_COMPARES = {"=", "<>", "!=", "<", "<=", ">", ">=", "~~", "~~*", "BETWEEN", "BETWEEN SYMMETRIC"}


@dataclass(frozen=True)
class Column:
    """A column as a statement names it."""

    name: str
    tables: tuple[tuple[str | None, str], ...]
    """Schema and name of the tables that it may be of: one if the statement says so."""


def statement_ends(sql: str) -> list[int]:
    """Returns where each statement of `sql` but the last one ends, in characters."""
    import pglast

    try:
        slices = pglast.split(sql, with_parser=False, only_slices=True)
    except pglast.Error:
        return []
    return [each.stop for each in slices[:-1]]


def parameter_columns(sql: str) -> dict[int, Column]:
    """Returns the column with which `sql` compares each of its parameters, or to which it assigns it, by number.

    Parameters in other places are absent. Returns nothing if the parser refuses the text.
    """
    import pglast

    try:
        (statement,) = pglast.parse_sql(sql)
    except (pglast.Error, ValueError):
        return {}
    nodes = list(_nodes(statement.stmt))
    tables = {node.alias.aliasname if node.alias else node.relname: node for node in _of(nodes, "RangeVar")}
    every = tuple(dict.fromkeys((node.schemaname, node.relname) for node in tables.values()))
    found: dict[int, Column] = {}

    def add(column: Any, values: Any) -> None:  # noqa: ANN401 - nodes of the parser
        fields = [each.sval for each in column.fields if _kind(each) == "String"]
        if not fields or len(fields) < len(column.fields):
            return
        table = tables.get(fields[-2]) if len(fields) > 1 else None
        of = ((table.schemaname, table.relname),) if table is not None else every
        for number in _parameters(values):
            found.setdefault(number, Column(fields[-1], of))

    for node in _of(nodes, "A_Expr"):
        if node.name[-1].sval not in _COMPARES:
            continue
        left, right = _plain(node.lexpr), _plain(node.rexpr)
        if _kind(left) == "ColumnRef":
            add(left, right)
        elif _kind(right) == "ColumnRef":
            add(right, left)
    for node in _of(nodes, "InsertStmt", "UpdateStmt"):
        into = ((node.relation.schemaname, node.relation.relname),)
        for name, value in _assigned(node):
            for number in _parameters(_plain(value)):
                found.setdefault(number, Column(name, into))
    return found


def _assigned(node: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - nodes of the parser
    if _kind(node) == "UpdateStmt":
        yield from ((target.name, target.val) for target in node.targetList)
    elif node.cols and _kind(node.selectStmt) == "SelectStmt":
        for row in node.selectStmt.valuesLists or ():
            yield from ((column.name, value) for column, value in zip(node.cols, row, strict=False))


def _plain(value: Any) -> Any:  # noqa: ANN401 - nodes of the parser
    """Returns what `value` casts."""
    while _kind(value) == "TypeCast":
        value = value.arg
    return value


def _parameters(value: Any) -> Iterator[int]:  # noqa: ANN401 - nodes of the parser
    """Yields the numbers of a parameter, or of a list's."""
    if isinstance(value, tuple):
        for each in value:
            yield from _parameters(_plain(each))
    elif _kind(value) == "ParamRef":
        yield value.number
    elif _kind(value) == "List":
        yield from _parameters(value.items)


def _nodes(node: Any) -> Iterator[Any]:  # noqa: ANN401 - nodes of the parser
    import pglast.ast

    if isinstance(node, tuple):
        for each in node:
            yield from _nodes(each)
    elif isinstance(node, pglast.ast.Node):
        yield node
        for name in node:
            yield from _nodes(getattr(node, name))


def _of(nodes: list[Any], *kinds: str) -> Iterator[Any]:
    return (node for node in nodes if _kind(node) in kinds)


def _kind(node: Any) -> str:  # noqa: ANN401 - nodes of the parser
    return type(node).__name__
