"""White space and comments before the words of a statement."""

import re
import subprocess
import sys

import pytest

from pgdyno.capture.parser import BLANKS
from pgdyno.synthesise.transactions import Kind, statement_kind
from pgdyno.synthesise.variables import is_insert
from tests.present import present

COMMENTS = ["", " \n\t", "-- a\n", "--\n", "/**/", "/***/", "/* * / ** */", "/*a*//*b*/ -- c\n ", "/* a /* b */ c */"]


@pytest.mark.parametrize("comments", COMMENTS)
def test_comments_are_matched_as_a_whole(comments: str) -> None:
    match = present(re.match(BLANKS, f"{comments}INSERT"))
    assert match[0] == comments
    assert is_insert(f"{comments}INSERT INTO t")
    assert statement_kind(f"{comments}COMMIT") is Kind.END


@pytest.mark.parametrize("text", ["/*", "/* a", "/* /* */", "- a", "/ a"])
def test_what_is_no_comment_is_not_matched(text: str) -> None:
    match = present(re.match(BLANKS, text))
    assert match[0] == ""


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
