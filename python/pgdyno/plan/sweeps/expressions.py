"""Evaluates expressions on a plan's parameters: `clients / 2`, `max(1, clients // 4)`, `clients > 64 and scale < 100`.

Python's parser reads a small part of Python's grammar: numbers, names of parameters, + - * / // %, comparisons, and,
or, not, min, max, round. Nothing else is called, looked up or run. Numbers are exact fractions, so that `0.1 * 30` is
3.
"""

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from pgdyno.errors import InvalidValueError

LONGEST = 500
LARGEST = 10**30
"""The largest number in an expression, and the largest result of one of its operations."""
Value = Fraction | str | bool
_NUMBER = re.compile(r"[+-]?\d{1,30}(\.\d{1,30})?")
FUNCTIONS = ("min", "max", "round")

_ARITHMETIC: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda left, right: Fraction(left // right),
    ast.Mod: operator.mod,
}
_ORDER: dict[type[ast.cmpop], Callable[[Fraction, Fraction], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression that contains only supported operations."""

    text: str
    names: frozenset[str]
    """Parameters in the expression, such as `clients` or `settings.work_mem`."""
    bare: bool
    """Whether it is a single name or number, without an operator or function."""
    _tree: ast.expr

    def value(self, names: Mapping[str, Value]) -> Value:
        """Evaluate the expression. Raises ValueError with the reason; KeyError for a name that `names` lacks."""
        try:
            return _value(self._tree, names)
        except RecursionError as error:
            raise InvalidValueError("the expression is nested too deeply", "write a shorter one") from error

    def number(self, names: Mapping[str, Value]) -> Fraction:
        """Evaluate a numeric expression. Raises as `value` does."""
        return _number(self.value(names), self.text)

    def holds(self, names: Mapping[str, Value]) -> bool:
        """Evaluate a condition. Raises as `value` does."""
        return _truth(self.value(names), self.text)


@lru_cache(maxsize=1024)
def parse_expression(text: str) -> Expression:
    """Parse `text`. Raises ValueError with the mistake."""
    if len(text) > LONGEST:
        raise InvalidValueError(f"an expression of {len(text)} characters is too long", f"use at most {LONGEST}")
    try:
        with warnings.catch_warnings():
            # the parser warns of operations that are refused below
            warnings.simplefilter("ignore", SyntaxWarning)
            # a leading space would be an indent
            tree = ast.parse(text.strip(), mode="eval").body
        names: set[str] = set()
        _check(tree, names)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise InvalidValueError(f'"{text}" is not an expression', _HINT) from error
    return Expression(text.strip(), frozenset(names), isinstance(tree, (ast.Name, ast.Attribute, ast.Constant)), tree)


_HINT = 'such as "clients / 2" or "max(1, clients // 4)"'


def plain_number(value: Fraction) -> str:
    """Format `value` without an exponent and as precisely as a float: 26, 0.125."""
    if value.denominator == 1:
        return str(value.numerator)
    shortest = repr(float(value))
    return shortest if "e" not in shortest else f"{float(value):.30f}".rstrip("0")


# ---- allowed syntax ----


def _check(node: ast.expr, names: set[str]) -> None:
    """Add the names in `node` to `names`. Raises ValueError for unsupported operations."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            return
        case ast.Name() | ast.Attribute():
            names.add(_dotted_name(node))
            return
        case ast.Call(func=ast.Name(id=function), args=children, keywords=[]) if function in FUNCTIONS:
            _check_call(function, children)
        case _ if _is_operation(node):
            children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        case _:
            raise InvalidValueError(f"{_source(node)} is not supported", _UNDERSTOOD)
    for child in children:
        _check(child, names)


def _is_operation(node: ast.expr) -> bool:
    match node:
        case ast.BoolOp() | ast.UnaryOp(op=ast.UAdd() | ast.USub() | ast.Not()):
            return True
        case ast.BinOp(op=op):
            return type(op) in _ARITHMETIC
        case ast.Compare(ops=ops):
            return all(type(op) in _ORDER or isinstance(op, (ast.Eq, ast.NotEq)) for op in ops)
    return False


_UNDERSTOOD = "use + - * / // % ( ) min max round, comparisons, and, or, not"


def _check_call(function: str, arguments: list[ast.expr]) -> None:
    if function == "round" and len(arguments) != 1:
        raise ValueError("round takes one number, such as round(clients / 3)")
    if function != "round" and len(arguments) < 2:
        raise ValueError(f"{function} takes two or more numbers, such as {function}(1, clients / 4)")


def _dotted_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=around, attr=name):
            return f"{_dotted_name(around)}.{name}"
    raise InvalidValueError(f"{_source(node)} is not supported", _UNDERSTOOD)


def _source(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."


# ---- evaluation ----


def _value(node: ast.expr, names: Mapping[str, Value]) -> Value:
    match node:
        case ast.Constant(value=bool() | str() as value):
            return value
        case ast.Constant():
            # from the source text, so that 0.1 is exactly a tenth
            return _check_bounds(node, Fraction(ast.unparse(node).replace("_", "")))
        case ast.Name() | ast.Attribute():
            return names[_dotted_name(node)]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _truth(_value(operand, names), _source(operand))
        case ast.UnaryOp(op=op, operand=operand):
            number = _operand(operand, names)
            return -number if isinstance(op, ast.USub) else number
        case ast.BinOp(left=left, op=op, right=right):
            return _compute(node, op, _operand(left, names), _operand(right, names))
        case ast.BoolOp(op=op, values=values):
            # evaluates all operands, so that each mistake is found
            parts = [_truth(_value(each, names), _source(each)) for each in values]
            return all(parts) if isinstance(op, ast.And) else any(parts)
        case ast.Compare():
            return _compare_values(node, names)
        case ast.Call(func=ast.Name(id=function), args=arguments):
            return _call_function(function, [_operand(each, names) for each in arguments])
    raise AssertionError("checked before")


def _compute(node: ast.expr, op: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    try:
        return _check_bounds(node, _ARITHMETIC[type(op)](left, right))
    except ZeroDivisionError as error:
        raise ValueError(f"{_source(node)} divides by zero") from error


def _check_bounds(node: ast.expr, number: Fraction) -> Fraction:
    """Return `number`, the value of `node`. Raises ValueError if it has too many digits to print or to measure."""
    if abs(number) > LARGEST:
        raise InvalidValueError(f"{_source(node)} exceeds 1e30", "use smaller numbers")
    return number


def _call_function(function: str, numbers: list[Fraction]) -> Fraction:
    if function == "round":
        # half up, as people expect; Python rounds half to even
        return Fraction(math.floor(numbers[0] + Fraction(1, 2)))
    return min(numbers) if function == "min" else max(numbers)


def _compare_values(node: ast.Compare, names: Mapping[str, Value]) -> bool:
    sides = [node.left, *node.comparators]
    values = [_value(side, names) for side in sides]
    holds = True
    for place, op in enumerate(node.ops):
        left, right = values[place], values[place + 1]
        if type(op) in _ORDER:
            numbers = (_number(left, _source(sides[place])), _number(right, _source(sides[place + 1])))
            holds &= _ORDER[type(op)](*numbers)
        else:
            holds &= _are_equal(left, right) == isinstance(op, ast.Eq)
    return holds


def _are_equal(left: Value, right: Value) -> bool:
    if type(left) is type(right):
        return left == right
    # a variable or setting is text, converted where a number is needed
    if isinstance(left, str) != isinstance(right, str):
        return (left if isinstance(left, str) else _as_text(left)) == (
            right if isinstance(right, str) else _as_text(right)
        )
    raise ValueError("cannot compare a number with a condition")


def _as_text(value: Value) -> str:
    return plain_number(value) if isinstance(value, Fraction) else str(value).lower()


def _operand(node: ast.expr, names: Mapping[str, Value]) -> Fraction:
    return _number(_value(node, names), _source(node))


def _number(value: Value, text: str) -> Fraction:
    if isinstance(value, bool):
        raise ValueError(f"{text} is a condition, not a number")
    if isinstance(value, str):
        if _NUMBER.fullmatch(value) is None:
            raise ValueError(f'{text} is "{value}", not a number')
        return Fraction(value)
    return value


def _truth(value: Value, text: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidValueError(f"{text} is not a condition", "write one such as clients > 64")
    return value
