"""Query plans: EXPLAIN of statements. It never executes them, because it is without ANALYZE."""

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from pgdyno.errors import TargetError

FIRST, GENERIC = 120_000, 160_000
"""The first versions with plan_cache_mode, and with EXPLAIN (GENERIC_PLAN)."""
LONGEST_PLAN = 200_000
"""Characters of a plan that are kept."""
_SHAPE = (
    "Node Type", "Parent Relationship", "Strategy", "Partial Mode", "Parallel Aware", "Operation", "Command",
    "Join Type", "Scan Direction", "Relation Name", "Index Name", "CTE Name", "Function Name",
)  # fmt: skip
"""Keys of a node that make its shape, without aliases and names of subplans, which versions number differently."""
_IN_ORDER = ("Outer", "Inner", "Member")
"""Relationships that the order of the nodes shows; versions call the child of an UPDATE differently."""

_NO_ORDER = "NoMovement"
"""How versions up to 15 scan an index without an order, such as a hash index; later ones say Forward."""


@dataclass(frozen=True, slots=True)
class Explained:
    """The plan of a statement, or the reason why the server does not plan it."""

    shape: str | None = None
    """A hash of its nodes, relations, indexes and joins, and of their order."""
    plan: str | None = None
    """As EXPLAIN (COSTS OFF) prints it."""
    reason: str | None = None


def explain(connection: psycopg.Connection[tuple[Any, ...]], texts: Iterable[str]) -> dict[str, Explained]:
    """Return what the server of `connection`, which is in autocommit mode, says of each of `texts`.

    A text is one statement with `$1`, `$2`, … for its values. Raises TargetError for a version without generic plans,
    and psycopg.Error.
    """
    version = connection.info.server_version
    if version < FIRST:
        raise TargetError(
            f"PostgreSQL {version // 10_000} cannot plan a statement without its values; 12 and later can"
        )
    found: dict[str, Explained] = {}
    run = secrets.token_hex(4)
    with connection.transaction(force_rollback=True):
        connection.execute("SET TRANSACTION READ ONLY")
        connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        for number, text in enumerate(dict.fromkeys(texts), start=1):
            try:
                with connection.transaction():
                    found[text] = _explain_text(
                        connection, text, f"pgdyno_{run}_{number}", is_generic=version >= GENERIC
                    )
            except psycopg.Error as error:
                if connection.closed:
                    raise
                found[text] = Explained(reason=error.diag.message_primary or str(error).strip())
            except RecursionError:
                found[text] = Explained(reason="its plan is nested too deeply")
    return found


def _explain_text(
    connection: psycopg.Connection[tuple[Any, ...]], text: str, name: str, *, is_generic: bool
) -> Explained:
    # `binary` requests the extended protocol, which refuses a text of several statements; PREPARE refuses statements
    # that have no plan. Only what passes both follows the word EXPLAIN
    connection.execute(f"PREPARE {name} AS {text}".encode(), binary=True)
    options = "GENERIC_PLAN, COSTS OFF" if is_generic else "COSTS OFF"
    what = text if is_generic else f"EXECUTE {name}{_nulls(connection, name)}"
    trees = connection.execute(f"EXPLAIN ({options}, FORMAT JSON) {what}".encode()).fetchone()
    lines = connection.execute(f"EXPLAIN ({options}) {what}".encode()).fetchall()
    # a connection pooler may keep the session, and with it the name
    connection.execute(f"DEALLOCATE {name}".encode())
    return Explained(shape_of(trees[0] if trees else []), "\n".join(line for (line,) in lines)[:LONGEST_PLAN])


def _nulls(connection: psycopg.Connection[tuple[Any, ...]], name: str) -> str:
    query = (
        "SELECT pg_catalog.cardinality(parameter_types) FROM pg_catalog.pg_prepared_statements"
        " WHERE name OPERATOR(pg_catalog.=) %s"
    )
    row = connection.execute(query, [name]).fetchone()
    return f"({', '.join(['NULL'] * row[0])})" if row and row[0] else ""


def shape_of(trees: Iterable[Any]) -> str:
    """Return a hash of the plans that EXPLAIN (FORMAT JSON) printed; a rewritten statement may have several."""
    shapes = [_shape(each["Plan"]) for each in trees if isinstance(each, dict) and "Plan" in each]
    return hashlib.sha256(json.dumps(shapes, sort_keys=True).encode()).hexdigest()[:16]


def _shape(node: Mapping[str, Any]) -> dict[str, Any]:
    # a version that lacks a key means what others call false
    kept = {key: node[key] for key in _SHAPE if node.get(key)}
    if kept.get("Parent Relationship") in _IN_ORDER:
        del kept["Parent Relationship"]
    if kept.get("Scan Direction") == _NO_ORDER:
        kept["Scan Direction"] = "Forward"
    return kept | {"Plans": [_shape(each) for each in node.get("Plans", ())]}
