"""Which part of a statement may be shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.effect.shown_statement import kind_of, without_literals


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT 1", "SELECT"),
        ("  -- who\n /* app */ update t set a = 1", "UPDATE"),
        ("create role r password 'x'", "CREATE ROLE"),
        ("(SELECT 1)", ""),
        ("/* never ends", ""),
        ("", ""),
        ("vacuum analyze t", "VACUUM"),
    ],
)
def test_the_command(query: str, expected: str) -> None:
    assert kind_of(query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM t1 WHERE a = 17 AND b='it''s'", "SELECT * FROM t1 WHERE a = ? AND b=?"),
        ("ALTER ROLE bob\n  PASSWORD 'hunter2'", "ALTER ROLE bob PASSWORD ?"),
        ("SELECT $1, $2 -- secret\n FROM t", "SELECT $1, $2 FROM t"),
        ("DO $body$ secret $x$ $body$", "DO ?"),
        ("SELECT $$secret$$, E'a\\'secret', 1.5e3", "SELECT ?, ?, ?"),
        ('SELECT "Name 1" FROM "a"', 'SELECT "Name 1" FROM "a"'),
        # cut by track_activity_query_size
        ("SELECT 'secr", "SELECT ?"),
        ("SELECT $q$secr", "SELECT ?"),
        ("SELECT /* secr", "SELECT"),
        # whether the backslash ends the string depends on a setting
        (r"SELECT 'a\', 'b secret", "SELECT ?"),
        (r"SELECT 'a\'' || secret || '", "SELECT ?"),
        ("SELECT U&'sec', n'ret', B'01', x'ff'", "SELECT ?, ?, ?, ?"),
    ],
)
def test_the_text_without_literals(query: str, expected: str) -> None:
    assert without_literals(query) == expected


@given(st.text(alphabet="ab1 '\"\\$-/*\nE;", max_size=30), st.text(alphabet="xyz", min_size=3, max_size=9))
def test_literals_are_never_shown(before: str, secret: str) -> None:
    quoted = f"select {before.replace(chr(39), '').replace('$', '').replace(chr(34), '')}\n '{secret}' from t"
    # a comment that was opened before may swallow it, which hides it, too
    assert secret not in without_literals(quoted)
