"""Checks equations in documents: the printed result, and what its own figures give."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

from pgdyno.importers.found import Claim

_CLAIM = re.compile(
    r"(?P<currency>[€$£¥])\s{0,4}(?P<printed>\d[\d,]{0,30}(?:\.\d{1,10})?)\s{0,4}"
    r"\((?P<formula>[^=/x×*]{0,150}[/x×*][^=]{0,200})\)(?!\S)"  # noqa: RUF001
)
_LONGEST = 2_000
"""Characters of a line that may contain an equation."""
_WORDS = re.compile(r"[A-Za-z€$£¥]+")
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def claims_in(text: str, line: int) -> list[Claim]:
    """Return every equation in `text`, such as `€ 0.11 (€ 38,364 / 365,974 TPS)`."""
    if not any(currency in text for currency in "€$£¥") or len(text) > _LONGEST:
        return []
    found = []
    for match in _CLAIM.finditer(text):
        computed = evaluate(match["formula"])
        if computed is None:
            continue
        printed = match["printed"].replace(",", "")
        decimals = len(printed.partition(".")[2])
        found.append(Claim(line, match[0], float(printed), decimals, computed, match["currency"]))
    return found


def evaluate(formula: str) -> float | None:
    """Evaluate `(€ 38,364 + 3 x 2 x € 4,200) / 365,974 TPS`; None if it is not a formula."""
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", formula).replace("×", "*")  # noqa: RUF001
    plain = re.sub(r"(?<=[\d\s)])x(?=[\s\d(€$£¥])", "*", plain)
    plain = _WORDS.sub("", plain).strip()
    try:
        return _value(ast.parse(plain, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError("not a formula")
