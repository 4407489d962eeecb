"""Texts of pg_stat_statements: what a capture keeps of them."""

import pytest

from pgdyno.capture.server.statement_statistics import reason_to_leave_out
from pgdyno.capture.sql_constants import without_comments


@pytest.mark.parametrize(
    "text",
    [
        "ALTER ROLE a PASSWORD $p$x$p$",
        "ALTER ROLE a PASSWORD $é$x$é$",
        "ALTER ROLE a PASSWORD $$x$$",
        "ALTER ROLE a PASSWORD 'x'",
        "/* a */ COMMENT ON TABLE t IS E'x'",
        # of a prepared statement whose entry was evicted, constants stay
        "SELECT a FROM t WHERE name = 'Erika'",
        "SELECT a FROM t WHERE name = $a$Erika$a$",
        "SELECT a FROM t WHERE card = 4111111111111111",
    ],
)
def test_texts_with_constants_are_left_out(text: str) -> None:
    assert reason_to_leave_out(text) == "text-with-constants"


@pytest.mark.parametrize("text", ["SELECT /* a /* Erika */ b */ $1", "SELECT a /* Erika"])
def test_texts_whose_comments_are_unclear_are_left_out(text: str) -> None:
    assert reason_to_leave_out(text) == "not-anonymised"


@pytest.mark.parametrize(
    "text",
    [
        'SELECT a FROM t WHERE id = $1 AND "it\'s" = $2',
        "/* a */ (SELECT $1)",
        "SELECT a FROM t WHERE id IN ($1 /*, ... */)",
        "SELECT a FROM t -- it's",
        "VACUUM t",
        "SET work_mem = 17",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert reason_to_leave_out(text) is None


def test_comments_of_applications_are_removed_from_texts() -> None:
    assert without_comments("SELECT a -- alice\nFROM t /*user='alice'*/") == "SELECT a  \nFROM t"
    assert without_comments("/* alice */ SELECT '--', \"/*\", $1") == "SELECT '--', \"/*\", $1"


@pytest.mark.parametrize(
    "text",
    [
        "/*+ SeqScan(t) Leading((a (b c))) */ SELECT a FROM t",
        "SELECT a FROM t WHERE id IN ($1 /*, ... */)",
        "SELECT a FROM t",
    ],
)
def test_hints_and_comments_of_the_server_stay(text: str) -> None:
    assert without_comments(text) == text
