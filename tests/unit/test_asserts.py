"""`python -O` removes assertions: no assertion in pgdyno does any work."""

import ast
from collections.abc import Iterator

import pytest

from tests.unit.test_architecture import ROOT

pytestmark = pytest.mark.slow

PURE = {"isinstance", "callable", "len", "all", "any", "issubclass"}
WORK = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


def working(source: str) -> Iterator[int]:
    """Lines of assertions that call, bind or wait for something, and of `__debug__`."""
    if "assert" not in source and "__debug__" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and node.id == "__debug__":
            yield node.lineno
        if not isinstance(node, ast.Assert):
            continue
        for part in ast.walk(node.test):
            called = part.func if isinstance(part, ast.Call) else None
            is_pure = called is None or (isinstance(called, ast.Name) and called.id in PURE)
            if not is_pure or isinstance(part, WORK):
                yield node.lineno


def test_assertions_that_do_work_are_found() -> None:
    for source, lines in (
        ("assert x is not None\nassert isinstance(x, int)\nassert a.b == 2", []),
        ("assert total.add(x)", [1]),
        ("x = 1\nassert (y := x)", [2]),
        ("if __debug__: pass", [1]),
    ):
        assert list(working(source)) == lines


def test_no_assertion_does_any_work() -> None:
    found = [f"{path.relative_to(ROOT)}:{line}" for path in ROOT.rglob("*.py") for line in working(path.read_text())]
    assert found == []
