"""Expressions on parameters: their values, and errors."""

import ast
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.plan.sweeps.expressions import Value, parse_expression, plain_number

NAMES: dict[str, Value] = {
    "clients": Fraction(6),
    "scale": Fraction(100),
    "protocol": "simple",
    "settings.work_mem": "4MB",
    "settings.auto_explain.log_min_duration": "10",
    "variables.range": "50",
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("clients / 4", Fraction(3, 2)),
        ("clients // 4", 1),
        ("clients % 4", 2),
        ("-clients + 2 * scale - 1", 193),
        ("0.1 * 30", 3),
        ("max(1, clients / 12)", 1),
        ("min(clients, scale, 5)", 5),
        ("round(clients / 4)", 2),
        ("round(clients / 12)", 1),
        ("round(0.4)", 0),
        ("variables.range * 2", 100),
        ("settings.auto_explain.log_min_duration + 1", 11),
        ("  clients ", 6),
        ("1_000 + 1", 1001),
    ],
)
def test_numbers(text: str, value: Fraction | int) -> None:
    assert parse_expression(text).number(NAMES) == value


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("clients > 5 and scale < 101", True),
        ("clients > 5 and not scale == 100", False),
        ("clients == 6 or clients == 7", True),
        ("1 < clients <= 6", True),
        ("1 < clients < 6", False),
        ('protocol == "simple"', True),
        ("protocol != 'simple'", False),
        ('settings.work_mem == "4MB"', True),
        ("variables.range == 50", True),
        ("variables.range >= 51", False),
    ],
)
def test_conditions(text: str, holds: bool) -> None:
    assert parse_expression(text).holds(NAMES) is holds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clients /", "is not an expression"),
        ("", "is not an expression"),
        ("2 ** 1000000", "2 ** 1000000 is not supported"),
        ("__import__('os')", "is not supported"),
        ("open('x')", "is not supported"),
        ("clients.__class__.__mro__[0]", "is not supported"),
        ("(lambda: 1)()", "is not supported"),
        ("[1 for x in y]", "is not supported"),
        ("max(1)", "max takes two or more numbers"),
        ("round(1, 2)", "round takes one number"),
        ("max(*clients, 1)", "is not supported"),
        ("min(clients, key=scale)", "is not supported"),
        ("'a'.b", "is not supported"),
        ("1j", "is not supported"),
        ("5is 3", "is not supported"),
        ("clients << 2", "is not supported"),
        ("f'{clients}'", "is not supported"),
        ("(" * 300 + "1" + ")" * 300, "too long|is not an expression"),
        ("1 + " * 200 + "1", "too long"),
    ],
)
def test_malformed_expressions(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("*", r"\*").replace("(", r"\(")):
        parse_expression(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clients / 0", "divides by zero"),
        ("clients % (scale - 100)", "divides by zero"),
        ("clients > 5", "is a condition"),
        ("(clients > 5) + 1", "is a condition"),
        ("settings.work_mem * 2", 'is "4MB", not a number'),
        ("protocol + 1", 'is "simple", not a number'),
        # no float, and more digits than Python prints
        ("clients * 1e308 * 10", "1e\\+308 exceeds 1e30"),
        ("max(clients, 1e400)", "1e309 exceeds 1e30"),
        ("clients" + " * 1e29" * 60, "exceeds 1e30"),
        ("-" * 480 + "clients", "nested too deeply"),
    ],
)
def test_expressions_without_a_numeric_value(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_expression(text).number(NAMES)


@pytest.mark.parametrize("text", ["clients", "clients and scale > 1", "not clients", "clients > 1 or 5"])
def test_expressions_that_are_no_conditions(text: str) -> None:
    with pytest.raises(ValueError, match="is not a condition"):
        parse_expression(text).holds(NAMES)


def test_a_number_that_would_fill_the_memory_is_no_number() -> None:
    with pytest.raises(ValueError, match="not a number"):
        parse_expression("variables.x + 1").number({"variables.x": "1e999999999"})


def test_names_that_are_used() -> None:
    expression = parse_expression("max(clients, settings.a.b / variables.c)")
    assert expression.names == {"clients", "settings.a.b", "variables.c"}
    assert not expression.bare
    assert parse_expression("clients").bare


_NUMBERS = st.integers(0, 99).map(str) | st.sampled_from(["clients", "scale"])
_TEXTS = st.recursive(
    _NUMBERS,
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
        lambda three: f"({' '.join(three)})"
    ),
    max_leaves=8,
)


class _Fractions(ast.NodeTransformer):
    """Python's own arithmetic, with every number a fraction."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Call(ast.Name("Fraction", ast.Load()), [node], [])

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        # // of two fractions is no fraction
        self.generic_visit(node)
        return ast.Call(ast.Name("Fraction", ast.Load()), [node], [])


@given(_TEXTS)
def test_arithmetic_is_pythons(text: str) -> None:
    tree = ast.fix_missing_locations(_Fractions().visit(ast.parse(text, mode="eval")))
    names = {"Fraction": Fraction, "clients": Fraction(6), "scale": Fraction(100)}
    try:
        expected = eval(compile(tree, "text", "eval"), names)
    except ZeroDivisionError:
        with pytest.raises(ValueError, match="divides by zero"):
            parse_expression(text).number(NAMES)
        return
    assert parse_expression(text).number(NAMES) == expected


def test_numbers_as_people_write_them() -> None:
    assert [plain_number(Fraction(text)) for text in ("26", "1/8", "1/3", "-5/2")] == [
        "26", "0.125", "0.3333333333333333", "-2.5",
    ]  # fmt: skip
