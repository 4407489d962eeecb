"""What PostgreSQL's parser says of the parts of a statement, and of the columns that its parameters concern."""

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


def separators(sql: str) -> list[int]:
    """Return the places of the semicolons between the statements of `sql`."""
    import pglast

    try:
        slices = pglast.split(sql, with_parser=False, only_slices=True)
    except pglast.Error:
        return []
    return [sql.index(";", each.stop) for each in slices[:-1]]


def parsed_statements(sql: str) -> list[Any]:
    """Return the statements of `sql` as the parser's nodes; none if it refuses the text."""
    import pglast

    try:
        return [each.stmt for each in pglast.parse_sql(sql)]
    except (pglast.Error, ValueError, RecursionError):
        return []


def tables_in(statement: Any) -> dict[str, tuple[str | None, str]]:  # noqa: ANN401 - nodes of the parser
    """Return the tables that `statement` names, by the names that stand for them in it."""
    return {
        node.alias.aliasname if node.alias else node.relname: table_of(node) for node in nodes_of(statement, "RangeVar")
    }


def parameter_columns(sql: str) -> dict[int, Column]:
    """Return the column with which `sql` compares each of its parameters, or to which it assigns it, by number.

    Parameters in other places are absent. Returns nothing if the parser refuses the text, or finds several statements.
    """
    statements = parsed_statements(sql)
    if len(statements) != 1:
        return {}
    (statement,), tables = statements, tables_in(statements[0])
    found: dict[int, Column] = {}
    for node in nodes_of(statement, "A_Expr"):
        if node.name[-1].sval in _COMPARES:
            left, right = _plain_value(node.lexpr), _plain_value(node.rexpr)
            for reference, values in ((left, right), (right, left)):
                column = column_of(reference, tables)
                if column is not None:
                    found |= {number: column for number in _parameters(values) if number not in found}
    for node in nodes_of(statement, "InsertStmt", "UpdateStmt"):
        for name, value in _assignments(node):
            column = Column(name, (table_of(node.relation),))
            found |= {number: column for number in _parameters(_plain_value(value)) if number not in found}
    return found


def table_of(node: Any) -> tuple[str | None, str]:  # noqa: ANN401 - nodes of the parser
    """Return the schema and the name of the table that `node`, a RangeVar, names."""
    return node.schemaname, node.relname


def column_of(node: Any, tables: dict[str, tuple[str | None, str]]) -> Column | None:  # noqa: ANN401 - likewise
    """Return the column that `node` is; None if it is something else."""
    if _kind(node) != "ColumnRef" or any(_kind(each) != "String" for each in node.fields):
        return None
    *qualifiers, name = [each.sval for each in node.fields]
    table = tables.get(qualifiers[-1]) if qualifiers else None
    return Column(name, (table,) if table is not None else tuple(dict.fromkeys(tables.values())))


def _assignments(node: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - nodes of the parser
    if _kind(node) == "UpdateStmt":
        yield from ((target.name, target.val) for target in node.targetList)
    elif node.cols and _kind(node.selectStmt) == "SelectStmt":
        for row in node.selectStmt.valuesLists or [_selected(node.selectStmt)]:
            yield from ((column.name, value) for column, value in zip(node.cols, row, strict=False))


def _selected(node: Any) -> list[Any]:  # noqa: ANN401 - nodes of the parser
    """Return the values of the columns of a SELECT; of `* FROM unnest(…)`, the arrays."""
    functions = [call for call in nodes_of(node.fromClause or (), "FuncCall") if call.funcname[-1].sval == "unnest"]
    return list(functions[0].args) if functions else [target.val for target in node.targetList or ()]


def _plain_value(value: Any) -> Any:  # noqa: ANN401 - nodes of the parser
    while _kind(value) == "TypeCast":
        value = value.arg
    return value


def _parameters(value: Any) -> Iterator[int]:  # noqa: ANN401 - nodes of the parser
    if isinstance(value, tuple):
        for each in value:
            yield from _parameters(_plain_value(each))
    elif _kind(value) == "ParamRef":
        yield value.number
    elif _kind(value) == "List":
        yield from _parameters(value.items)
    elif _kind(value) == "A_ArrayExpr":
        yield from _parameters(value.elements or ())
    elif _kind(value) == "CaseExpr":
        # such as the new values of several rows in one UPDATE
        yield from _parameters((*(each.result for each in value.args), value.defresult))
    elif _kind(value) == "CoalesceExpr":
        yield from _parameters(value.args)


def _nodes(node: Any) -> Iterator[Any]:  # noqa: ANN401 - nodes of the parser
    import pglast.ast

    if isinstance(node, tuple):
        for each in node:
            yield from _nodes(each)
    elif isinstance(node, pglast.ast.Node):
        yield node
        for name in node:
            yield from _nodes(getattr(node, name))


def nodes_of(node: Any, *kinds: str) -> Iterator[Any]:  # noqa: ANN401 - nodes of the parser
    """Yield the nodes of these kinds that are `node`, or below it, or below its elements."""
    return (each for each in _nodes(node) if _kind(each) in kinds)


def _kind(node: Any) -> str:  # noqa: ANN401 - nodes of the parser
    return type(node).__name__
