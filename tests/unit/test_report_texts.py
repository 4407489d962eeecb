"""Every text of the report in every language: complete, with the same placeholders, chosen by one switch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import jinja2
import pytest
from rich.cells import cell_len

import pgdyno.report
from pgdyno.analyse.compare import Verdict
from pgdyno.analyse.evidence import Cause
from pgdyno.analyse.metric import Metric
from pgdyno.audit import RULES, Severity
from pgdyno.fingerprint.compare import Severity as Weight
from pgdyno.records import Outcome
from pgdyno.report import numbers
from pgdyno.report.digest import digest
from pgdyno.report.extras import Extras
from pgdyno.report.heard import heard
from pgdyno.report.html import render_html
from pgdyno.report.markdown import markdown_of
from pgdyno.report.sections.times import script_texts
from pgdyno.report.texts import Language, catalogue, listed, say, spoken
from pgdyno.report.wrapping import wrapped
from tests.unit.report_sample import sweep

REPORT = Path(pgdyno.report.__file__).parent
OTHERS = [language for language in Language if language is not Language.ENGLISH]
ENUMS: tuple[type[StrEnum], ...] = (Verdict, Cause, Severity, Weight, Outcome)
CALLS = {"say": slice(0, 1), "later": slice(0, 1), "said": slice(None), "say_count": slice(2, 3)}
"""Which arguments of each function are texts."""


def in_modules() -> Iterator[str]:
    for path in REPORT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield from of_call(node)


def of_call(node: ast.Call) -> Iterator[str]:
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    given = [each.value if isinstance(each, ast.Constant) else None for each in node.args]
    if name == "count" and ast.unparse(node.func) == "numbers.count":
        one, many = str(given[1]), given[2] if len(given) > 2 else None
        yield f"{{count}} {many if isinstance(many, str) else one + 's'}"
    yield from (text for text in given[CALLS.get(name, slice(0, 0))] if isinstance(text, str))


def in_templates() -> Iterator[str]:
    for path in REPORT.rglob("*.j2"):
        for node in jinja2.Environment(autoescape=True).parse(path.read_text()).find_all(jinja2.nodes.Call):
            name = node.node.name if isinstance(node.node, jinja2.nodes.Name) else ""
            at = {"say": 0, "marked": 0, "say_count": 2}.get(name)
            if at is not None:
                text = node.args[at]
                assert isinstance(text, jinja2.nodes.Const)
                yield text.value


def of_other_rooms() -> Iterator[str]:
    for enum in ENUMS:
        yield from (each.value for each in enum)
    yield from (metric.words for metric in Metric)
    yield from (rule.id for rule in RULES)


def texts() -> set[str]:
    return {*in_modules(), *in_templates(), *script_texts(), *of_other_rooms()}


def placeholders(text: str) -> list[str]:
    return sorted(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("language", OTHERS)
def test_every_language_has_every_text_with_its_placeholders_and_none_else(language: Language) -> None:
    wanted, there = texts(), catalogue(language)
    own_names = {"CPU", "I/O", "WAL", "Lock", "LWLock", "Client"}
    assert sorted(wanted - there.keys() - own_names) == []
    assert sorted(there.keys() - wanted) == []
    assert [text for text, other in there.items() if placeholders(text) != placeholders(other)] == []
    # between sentences, Japanese and Chinese have no space
    assert [text for text, other in there.items() if not other] in ([], [" "])


def test_plurals_are_english_s() -> None:
    assert (numbers.count(1, "client"), numbers.count(2, "client")) == ("1 client", "2 clients")
    with spoken(Language.KOREAN):
        assert (numbers.count(1, "client"), numbers.count(1200, "client")) == ("클라이언트 1개", "클라이언트 1,200개")
    assert listed(["a", "b", "c"]) == "a, b and c"


def test_a_language_ends_with_its_block_even_by_an_exception() -> None:
    with spoken(Language.JAPANESE):
        assert say("Price") == "価格"

    def fail() -> None:
        with spoken(Language.JAPANESE):
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        fail()
    assert say("Price") == "Price"


def test_warnings_of_the_analysis_are_found_again_by_their_form() -> None:
    message = "peak not reached: the highest throughput is at the most clients measured (64)"
    assert heard(message) == message
    with spoken(Language.CHINESE):
        assert "(64)" not in heard(message)
        assert "64" in heard(message)
        assert heard("a message of a server") == "a message of a server"


@pytest.mark.parametrize("language", OTHERS)
def test_a_page_is_in_its_language(language: Language) -> None:
    english = render_html(sweep(("pg17", "pg18")), "here")
    assert '<html lang="en">' in english
    with spoken(language):
        page = render_html(sweep(("pg17", "pg18")), "here")
        text = markdown_of(digest(sweep(("pg17", "pg18"))), Extras())
    assert f'<html lang="{language}">' in page
    # texts long enough that they cannot be names are in no other language
    said = [text for text in {*in_modules(), *in_templates()} if len(text) > 24 and "{" not in text and text in english]
    assert said
    assert [text for text in said if text in page] == []
    assert max(cell_len(line) for line in text.splitlines()) <= 80


def test_lines_are_broken_where_their_script_allows() -> None:
    lines = wrapped("スループットは毎秒 71,300 トランザクション。遅延は低い。", 20, "  ")
    assert all(cell_len(line) <= 20 for line in lines)
    assert not any(line.strip().startswith(("。", "、")) for line in lines)
    assert wrapped("one two three", 7) == ["one two", "three"]


def test_years_are_counted_as_people_do() -> None:
    assert [numbers.span_of_years(years) for years in (1, 1.5, 3)] == ["1 year", "1.5 years", "3 years"]
