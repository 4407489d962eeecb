"""Expressions on parameters, and ranges of a sweep: their values, and errors."""

import ast
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pgdyno.plan.sweeps.expressions import Value, parse_expression, plain_number
from pgdyno.plan.sweeps.spec import MOST_VALUES, expand_range

NAMES: dict[str, Value] = {
    "clients": Fraction(6),
    "scale": Fraction(100),
    "protocol": "simple",
    "settings.work_mem": "4MB",
    "settings.auto_explain.log_min_duration": "10",
    "variables.range": "50",
}


def test_numbers() -> None:
    for text, value in (
        ("clients / 4", Fraction(3, 2)), ("clients // 4", 1), ("clients % 4", 2), ("-clients + 2 * scale - 1", 193),
        ("0.1 * 30", 3), ("max(1, clients / 12)", 1), ("min(clients, scale, 5)", 5), ("round(clients / 4)", 2),
        ("round(clients / 12)", 1), ("round(0.4)", 0), ("variables.range * 2", 100), ("  clients ", 6),
        ("settings.auto_explain.log_min_duration + 1", 11), ("1_000 + 1", 1001),
    ):  # fmt: skip
        assert parse_expression(text).number(NAMES) == value, text


def test_conditions() -> None:
    for text, holds in (
        ("clients > 5 and scale < 101", True), ("clients > 5 and not scale == 100", False),
        ("clients == 6 or clients == 7", True), ("1 < clients <= 6", True), ("1 < clients < 6", False),
        ('protocol == "simple"', True), ("protocol != 'simple'", False), ('settings.work_mem == "4MB"', True),
        ("variables.range == 50", True), ("variables.range >= 51", False),
    ):  # fmt: skip
        assert parse_expression(text).holds(NAMES) is holds, text


UNSUPPORTED = [
    "__import__('os')", "open('x')", "clients.__class__.__mro__[0]", "(lambda: 1)()", "[1 for x in y]",
    "max(*clients, 1)", "min(clients, key=scale)", "'a'.b", "1j", "5is 3", "clients << 2", "f'{clients}'",
]  # fmt: skip


def test_malformed_expressions() -> None:
    for text, message in (
        ("clients /", "is not an expression"),
        ("", "is not an expression"),
        ("2 ** 1000000", "2 ** 1000000 is not supported"),
        *((text, "is not supported") for text in UNSUPPORTED),
        ("max(1)", "max takes two or more numbers"),
        ("round(1, 2)", "round takes one number"),
        ("(" * 300 + "1" + ")" * 300, "too long|is not an expression"),
        ("1 + " * 200 + "1", "too long"),
    ):
        with pytest.raises(ValueError, match=message.replace("*", r"\*").replace("(", r"\(")):
            parse_expression(text)


def test_expressions_without_a_numeric_value() -> None:
    for text, message in (
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
    ):
        with pytest.raises(ValueError, match=message):
            parse_expression(text).number(NAMES)


def test_names_that_are_used_and_expressions_that_are_no_conditions_or_numbers() -> None:
    for text in ("clients", "clients and scale > 1", "not clients", "clients > 1 or 5"):
        with pytest.raises(ValueError, match="is not a condition"):
            parse_expression(text).holds(NAMES)
    # one that would fill the memory
    with pytest.raises(ValueError, match="not a number"):
        parse_expression("variables.x + 1").number({"variables.x": "1e999999999"})
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


# ---- ranges ----


def test_values_of_ranges() -> None:
    for text, values in (
        ("1..4", "1 2 3 4"), (" 2 .. 10  step  4 ", "2 6 10"), ("2..9 step 4", "2 6"), ("7..7", "7"),
        ("1..16 doubling", "1 2 4 8 16"), ("3..20 doubling", "3 6 12"), ("0..1 step 0.25", "0 0.25 0.5 0.75 1"),
        ("1GB..4GB doubling", "1GB 2GB 4GB"), ("1..3GB", "1GB 2GB 3GB"),
        ("64MB..256MB step 64", "64MB 128MB 192MB 256MB"), ("64MB..192MB step 64MB", "64MB 128MB 192MB"),
    ):  # fmt: skip
        assert expand_range(text) == values.split()
    assert len(expand_range(f"1..{MOST_VALUES}")) == MOST_VALUES


def test_malformed_ranges() -> None:
    for text, message in (
        ("1..", "is not a range; write"),
        ("..8", "is not a range"),
        ("1...8", "is not a range"),
        ("1..8 step", "is not a range"),
        ("1..8 stepp 2", "is not a range"),
        ("-1..8", "is not a range"),
        ("1..8 step 0", "a step of 0"),
        ("8..1", "ends before it begins; write 1..8"),
        ("0..8 doubling", "never leaves 0"),
        ("1MB..8GB", "mixes units; write both ends in MB"),
        ("1MB..8MB step 1kB", "mixes units"),
        ("1..1000000", "1,000,000 values"),
    ):
        with pytest.raises(ValueError, match=message.replace(".", r"\.")):
            expand_range(text)


@given(low=st.integers(0, 10**6), steps=st.integers(0, 300), step=st.integers(1, 10**6), more=st.integers(0, 10**6))
def test_steps_are_even_and_the_ends_are_kept(low: int, steps: int, step: int, more: int) -> None:
    assume(more < step)
    values = [int(each) for each in expand_range(f"{low}..{low + steps * step + more} step {step}")]
    assert values == list(range(low, low + steps * step + more + 1, step))


@given(low=st.integers(1, 1000), high=st.integers(1, 10**9))
def test_doubling_stays_within_the_ends(low: int, high: int) -> None:
    assume(low <= high)
    values = [int(each) for each in expand_range(f"{low}..{high} doubling")]
    assert values[0] == low
    assert all(after == 2 * before for before, after in pairwise(values))
    assert values[-1] <= high < 2 * values[-1]


@given(low=st.decimals(0, 10, places=3), step=st.decimals("0.001", 5, places=3), count=st.integers(0, 50))
def test_decimals_do_not_drift(low: Decimal, step: Decimal, count: int) -> None:
    values = expand_range(f"{low}..{low + step * count} step {step}")
    assert [Decimal(each) for each in values] == [low + step * place for place in range(count + 1)]
