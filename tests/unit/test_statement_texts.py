"""Texts of statements: what a capture and a report may show of them, what is shortened, and what stands before them."""

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.capture.parser import BLANKS
from pgdyno.capture.server.statement_statistics import reason_to_leave_out
from pgdyno.capture.statement_templates import without_comments
from pgdyno.effect.short_statement import short_statement
from pgdyno.synthesise.transactions import Kind, statement_kind
from pgdyno.synthesise.variables import is_insert
from pgdyno.watch.shown_statement import kind_of, without_literals
from tests.present import present


def test_the_command_of_a_statement_and_its_text_without_literals() -> None:
    for query, expected in (
        ("SELECT 1", "SELECT"),
        ("  -- who\n /* app */ update t set a = 1", "UPDATE"),
        ("create role r password 'x'", "CREATE ROLE"),
        ("(SELECT 1)", ""),
        ("/* never ends", ""),
        ("", ""),
        ("vacuum analyze t", "VACUUM"),
    ):
        assert kind_of(query) == expected
    for query, expected in (
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
    ):
        assert without_literals(query) == expected


@given(st.text(alphabet="ab1 '\"\\$-/*\nE;", max_size=30), st.text(alphabet="xyz", min_size=3, max_size=9))
def test_literals_are_never_shown(before: str, secret: str) -> None:
    quoted = f"select {before.replace(chr(39), '').replace('$', '').replace(chr(34), '')}\n '{secret}' from t"
    # a comment that was opened before may swallow it, which hides it, too
    assert secret not in without_literals(quoted)


COLUMNS = ", ".join(f'"api_check"."column_{number}"' for number in range(30))
"""Object-relational mappers name every column, and the tables must stay in sight."""


def test_the_list_of_a_long_select_goes_first() -> None:
    for text, short in (
        ("SELECT 1", "SELECT 1"),
        ("SELECT a,\n  b FROM t", "SELECT a, b FROM t"),
        (f'SELECT {COLUMNS} FROM "api_check" WHERE "id" = $1', 'SELECT … FROM "api_check" WHERE "id" = $1'),
        (f'select distinct {COLUMNS}\nfrom "api_check"', 'select distinct … from "api_check"'),
        (f"SELECT {COLUMNS}, (SELECT max(x) FROM u WHERE y), extract(day FROM z) FROM v", "SELECT … FROM v"),
        (f"SELECT a FROM t WHERE x IN ({COLUMNS})", 'SELECT a FROM t WHERE x IN ("api_check"."column_0", "api_che…'),
        (f"INSERT INTO t ({COLUMNS}) SELECT 1 FROM u", 'INSERT INTO t ("api_check"."column_0", "api_check"."column…'),
        (f"SELECT {COLUMNS}", 'SELECT "api_check"."column_0", "api_check"."column_1", "api_…'),
    ):
        assert len(short_statement(text, 60)) <= 60
        assert short_statement(text, 60)[:58] == short[:58]


def test_texts_that_may_have_values_are_left_out_and_comments_removed() -> None:
    for text, reason in (
        ("ALTER ROLE a PASSWORD $p$x$p$", "text-with-constants"),
        ("ALTER ROLE a PASSWORD $é$x$é$", "text-with-constants"),
        ("ALTER ROLE a PASSWORD $$x$$", "text-with-constants"),
        ("ALTER ROLE a PASSWORD 'x'", "text-with-constants"),
        ("/* a */ COMMENT ON TABLE t IS E'x'", "text-with-constants"),
        # of a prepared statement whose entry was evicted, constants stay
        ("SELECT a FROM t WHERE name = 'Erika'", "text-with-constants"),
        ("SELECT a FROM t WHERE name = $a$Erika$a$", "text-with-constants"),
        ("SELECT a FROM t WHERE card = 4111111111111111", "text-with-constants"),
        # comments that are not clear
        ("SELECT /* a /* Erika */ b */ $1", "not-anonymised"),
        ("SELECT a /* Erika", "not-anonymised"),
        ('SELECT a FROM t WHERE id = $1 AND "it\'s" = $2', None),
        ("/* a */ (SELECT $1)", None),
        ("SELECT a FROM t WHERE id IN ($1 /*, ... */)", None),
        ("SELECT a FROM t -- it's", None),
        ("VACUUM t", None),
        ("SET work_mem = 17", None),
    ):
        assert reason_to_leave_out(text) == reason
    for text, expected in (
        ("SELECT a -- alice\nFROM t /*user='alice'*/", "SELECT a  \nFROM t"),
        ("/* alice */ SELECT '--', \"/*\", $1", "SELECT '--', \"/*\", $1"),
        # hints, and comments of the server
        *((text, text) for text in ("/*+ SeqScan(t) Leading((a (b c))) */ SELECT a FROM t", "SELECT a FROM t",
                                    "SELECT a FROM t WHERE id IN ($1 /*, ... */)")),
    ):  # fmt: skip
        assert without_comments(text) == expected


def test_comments_are_matched_as_a_whole() -> None:
    for comments in (
        "",
        " \n\t",
        "-- a\n",
        "--\n",
        "/**/",
        "/***/",
        "/* * / ** */",
        "/*a*//*b*/ -- c\n ",
        "/* a /* b */ c */",
    ):
        assert present(re.match(BLANKS, f"{comments}INSERT"))[0] == comments
        assert is_insert(f"{comments}INSERT INTO t")
        assert statement_kind(f"{comments}COMMIT") is Kind.END
    for text in ("/*", "/* a", "/* /* */", "- a", "/ a"):
        assert present(re.match(BLANKS, text))[0] == ""


MATCHED = r"""
import importlib, pkgutil, re

TEXTS = (
    "/**/" * 40 + "x", "/**/" * 40 + "(" * 40 + "1", "--" + " --" * 40 + "1", "-- -----" * 40 + "\n(1)",
    "--\n" * 40 + "1", "(/* a */ " * 40, "'" * 81, "a'" + "''" * 40, "E'" + "\\'" * 40, "$a$" * 41, "$" * 81,
    "a" + " " * 5000 + "1", "set" + " local" * 40, '"a".' * 40, "1" * 81, "{" + "1," * 40, "a" * 81 + "@",
    "/*+ set(a)" + " set(a)" * 40 + "@ */", "1 day " * 40 + "x", "2026-01-01 " * 40 + "x",
)


def patterns(value):
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from patterns(each)
    elif isinstance(value, dict):
        yield from patterns(list(value.values()))


names = ["pgdyno.experiment.trials.query_plans", "pgdyno.records.manifest"]
for package in ("pgdyno.capture", "pgdyno.synthesise", "pgdyno.watch"):
    path = importlib.import_module(package).__path__
    names += [each.name for each in pkgutil.walk_packages(path, f"{package}.")]
found = {each for name in names for value in vars(importlib.import_module(name)).values() for each in patterns(value)}
for pattern in found:
    for text in TEXTS:
        if isinstance(pattern.pattern, str):
            pattern.match(text), pattern.search(text), pattern.fullmatch(text)
print(len(found))
"""
"""Prints how many regular expressions it has applied to texts that take years if one is exponential."""


@pytest.mark.long
def test_no_expression_for_statements_is_exponential() -> None:
    done = subprocess.run([sys.executable, "-c", MATCHED], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) > 40
