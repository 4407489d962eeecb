"""Texts of reports and messages in every language: complete, with the same placeholders; messages in run folders."""

import ast
import re
import shutil
from functools import cache
from pathlib import Path
from string import Formatter

import pytest
from babel.messages import Catalog
from pydantic import ValidationError
from rich.cells import cell_len

import messages_page
import pgdyno.report
import translations
from pgdyno.analyse import summary
from pgdyno.analyse.comparison import compare
from pgdyno.analyse.pairs import Metric, within
from pgdyno.messages import Message
from pgdyno.records import KeptMessage, Manifest
from pgdyno.records.base import VALUE_FORMAT
from pgdyno.report import numbers, translation
from pgdyno.report.export import markdown_of
from pgdyno.report.report_content import NO_EXTRAS, Extras, digest, notes
from pgdyno.report.several_runs import unite_runs
from pgdyno.report.terminal.text_drawing import wrap_text
from pgdyno.report.translation import Language, capital, enumeration, gettext, translate, use_language
from tests.present import present
from tests.unit.report_sample import SampleRun, add_failure, render_html, sweep, to_markdown

OTHERS = [language for language in Language if language is not Language.ENGLISH]
SAME = {"CPU", "I/O", "WAL", "Lock", "LWLock", "Client"}
"""Names that are the same in every language."""


def placeholders(text: str) -> list[str]:
    return sorted(re.findall(r"\{[^}]*\}", text))


@cache
def po(language: Language) -> Catalog:
    return translations.read(translations.LANGUAGES / language / "LC_MESSAGES" / "pgdyno.po")


def ids(catalog: Catalog) -> dict[tuple[str, ...], str]:
    """Translations by the text, and its plural where it has one."""
    found = {}
    for message in catalog:
        if message.id:
            assert not message.fuzzy
            key = (message.id,) if isinstance(message.id, str) else tuple(message.id)
            found[key] = message.string if isinstance(message.string, str) else (message.string or ("",))[0]
    return found


@cache
def texts_of_the_source() -> dict[tuple[str, ...], str]:
    return ids(translations.template())


def test_a_text_can_be_read_while_it_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a build of the wheel compiles them in the source tree, in which other tests of `make test` run
    text = tmp_path / "ko" / "LC_MESSAGES" / "pgdyno.po"
    text.parent.mkdir(parents=True)
    shutil.copy(translations.LANGUAGES / "ko" / "LC_MESSAGES" / text.name, text)
    monkeypatch.setattr(translations, "LANGUAGES", tmp_path)
    [compiled] = translations.compile_all()
    before = compiled.read_bytes()
    # the same source gives the same bytes at any time
    assert before.count(b"-Date: 1970-01-01 00:00+0000") == 2
    read = translations.read

    def read_meanwhile(path: Path) -> Catalog:
        assert compiled.read_bytes() == before
        return read(path)

    monkeypatch.setattr(translations, "read", read_meanwhile)
    assert translations.compile_all() == [compiled]
    assert compiled.read_bytes() == before
    assert sorted(each.name for each in text.parent.iterdir()) == [compiled.name, text.name]


KANA, HANGUL, HAN = "\u3040-\u30ff", "\uac00-\ud7af", "\u4e00-\u9fff"
FOREIGN = {Language.KOREAN: KANA + HAN, Language.JAPANESE: HANGUL, Language.CHINESE: KANA + HANGUL}
"""Characters that texts of each language do not have."""


@pytest.mark.parametrize("language", OTHERS)
def test_every_language_has_every_text_with_its_placeholders_and_none_else(language: Language) -> None:
    wanted, there = texts_of_the_source(), ids(po(language))
    # else: make messages, then translate what has no text yet
    assert sorted(wanted.keys() - there.keys()) == []
    assert sorted(there.keys() - wanted.keys()) == []
    assert {key[0] for key, other in there.items() if not other} == SAME
    texts = {key[-1]: other for key, other in there.items() if other}
    assert [text for text, other in texts.items() if placeholders(text) != placeholders(other)] == []
    foreign = re.compile(f"[{FOREIGN[language]}]")
    assert [other for other in texts.values() if foreign.search(other)] == []
    compiled = translation.translations(language)
    for key, other in there.items():
        found = compiled.gettext(key[0]) if len(key) == 1 else compiled.ngettext(key[0], key[1], 2)
        # else: make build
        assert found == (other or key[0])


def test_a_counted_noun_has_a_singular_and_no_text_is_made_at_run_time() -> None:
    counted = re.compile(r"\{count[^}]*\} (?:[a-z]+ )?[a-z]+s\b")
    single = {key[0] for key in texts_of_the_source() if len(key) == 1}
    # "n = 1 trials" is a caption, whose noun is the unit
    found = {text for text in single if counted.search(text) and not text.startswith("n = ")}
    # else: ngettext
    assert found == NOT_ONE | OF_SCRIPTS
    # a text that is not a literal where it is looked up would be missing from the catalogues
    for path in Path(pgdyno.report.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in translations.ARGUMENTS:
                assert not any(isinstance(each, (ast.JoinedStr, ast.BinOp)) for each in node.args[:2]), path


NOT_ONE = {
    "over {count} points",
    "Of {count} points: {verdicts}",
    "{points} and {count} more points",
    "{pairs} on {count} instances",
    "{trials} on {count} instances",
    "{count:,} instances of a target",
    "{count} rules: {parts}",
    ". The chart shows the first {count} points",
    "; dashed: {count} processors",
    (
        "two new runs of about {count} trials per point, analysed without these, would reach a verdict with a "
        "chance of 80 %"
    ),
    "a new run of about {count} pairs, analysed without these, would reach a verdict with a chance of 80 %",
    "trials of {count} runs of each query",
    "{event}: no client was served for {p50} (median of {count} trials), {p99} (p99), {longest} at most",
    "a new run with about {count} instances of each target would reach a verdict with a chance of 80 %",
}
"""Texts with a number that is at least two, or practically always."""
OF_SCRIPTS = {
    "{count} further comparisons: {command} has all.",
    "{count} further points: choose their trials above.",
    (
        "{count} further trials have only throughput and p99: waits, processors, disks and WAL are shown for the "
        "median trial of each point, and for the trials with the deepest dips."
    ),
}
"""Texts of pages that have a limit of dozens, so that one more is rare, in a form that scripts or markup fill."""


def test_plurals_capitals_and_the_end_of_a_language() -> None:
    assert (numbers.clients(1), numbers.clients(1200)) == ("1 client", "1,200 clients")
    with use_language(Language.KOREAN):
        assert (numbers.clients(1), numbers.clients(1200)) == ("클라이언트 1개", "클라이언트 1,200개")
    assert enumeration(["a", "b", "c"]) == "a, b and c"
    assert [numbers.span_of_years(years) for years in (1, 1.5, 3)] == ["1 year", "1.5 years", "3 years"]
    assert capital("throughput falls") == "Throughput falls"
    for text in ("fsync is off", "jit off is faster than on", "work_mem is 4MB", "pg17 is slower"):
        assert capital(text) == text
    # a language ends with its block, even by an exception
    with use_language(Language.JAPANESE):
        assert gettext("Price") == "価格"
    with pytest.raises(ValueError, match=r"^$"), use_language(Language.JAPANESE):
        raise ValueError
    assert gettext("Price") == "Price"


def test_a_message_is_translated_by_its_template_and_broken_where_its_script_allows() -> None:
    message = summary.peak_at_edge(6400)
    assert translate(message) == str(message)
    assert "(6,400)" in str(message)
    with use_language(Language.CHINESE):
        assert "6,400" in translate(message)
        assert "peak" not in translate(message)
        assert translate(Message("other", "a message of a server")) == "a message of a server"
    lines = wrap_text("スループットは毎秒 71,300 トランザクション。遅延は低い。", 20, "  ")
    assert all(cell_len(line) <= 20 for line in lines)
    assert not any(line.strip().startswith(("。", "、")) for line in lines)
    assert wrap_text("one two three", 7) == ["one two", "three"]


@pytest.mark.parametrize("language", OTHERS)
def test_a_page_is_in_its_language(language: Language) -> None:
    run = sweep(("pg17", "pg18"), clients=(1, 4, 16), repeats=2)
    english = render_html(run, "here")
    assert '<html lang="en">' in english
    with use_language(language):
        page = render_html(run, "here")
        markdown = to_markdown(run)
    assert f'<html lang="{language}">' in page
    # texts long enough that they cannot be names are in no other language
    said = [text for text, *_ in texts_of_the_source() if len(text) > 24 and "{" not in text and text in english]
    assert said
    assert [text for text in said if text in page] == []
    assert max(cell_len(line) for line in markdown.splitlines()) <= 80


def test_sentences_end_with_their_language_s_full_stop() -> None:
    run = sweep(("pg17", "other"), clients=(1, 4, 16))
    add_failure(run, "other", 64)
    compared = compare(within(run, "target", Metric.TPS))
    with use_language(Language.CHINESE):
        page = render_html(run, "here", Extras([], compared))
    # warnings of the comparison, caveats with points, trials that failed
    assert len(re.findall("。</(?:p|li)>", page)) > 5
    assert re.findall(r"[\u3040-\u9fff\uff09][^<>]{0,40}(?:</\w+>)?\.</(?:p|li)>", page) == []
    # the name of a target begins no sentence
    assert "<li>other: " in page


DROPPED = Message(
    "budget-dropped",
    "to fit the budget, pgdyno leaves out {count} of {points} points: {took}",
    count=3,
    points=6,
    took=Message("trial-takes", "a trial takes {trial} with its preparation", trial="25s"),
)
IN_KOREAN = "예산에 맞추려고 pgdyno가 측정점 6개 중 3개를 제외한다: 시행 하나가 준비를 포함해 25s 걸린다"


def with_notes(*noted: Message | str, run: str = "quick-1") -> SampleRun:
    """A run whose notes are messages, or sentences of an earlier version."""
    of = sweep(("pg17",))
    details = [KeptMessage.from_message(each) for each in noted if isinstance(each, Message)]
    told = {"notes": [str(each) for each in noted], "note_details": details, "run": run}
    of.manifest = Manifest.model_validate_json(of.manifest.model_copy(update=told).model_dump_json())
    return of


def test_a_message_keeps_others_within_it_and_its_sentence_for_one_trial() -> None:
    kept = KeptMessage.from_message(DROPPED)
    message = KeptMessage.model_validate_json(kept.model_dump_json()).message
    assert (str(message), message.parameters) == (str(DROPPED), DROPPED.parameters)
    # an earlier version kept its sentence
    assert str(KeptMessage.model_validate(kept.model_dump(mode="json", exclude={"messages"})).message) == str(DROPPED)
    # the number of trials chooses the sentence without a count
    for told, said in (({"trials": 1}, "1 trial"), ({"trials": 2}, "2 trials"), ({"trials": 2, "count": 1}, "2 trial")):
        message = Message("off", "off in {trials} trial", "off in {trials} trials", **told)
        with use_language(Language.ENGLISH):
            assert str(message) == translate(message) == f"off in {said}"


def test_reports_translate_notes_of_one_run_and_of_several() -> None:
    of = digest(with_notes("the fan was loud", DROPPED))
    found = notes(of)[:2]
    assert [each.message for each in found] == ["the fan was loud", str(DROPPED)]
    assert [each.value and each.value.id for each in found] == [None, "budget-dropped"]
    with use_language(Language.KOREAN):
        assert [each.message for each in notes(of)[:2]] == ["the fan was loud", IN_KOREAN]
        assert "The fan was loud" in markdown_of(of, NO_EXTRAS)
    # those of several runs have the run and their ids
    of = digest(unite_runs([with_notes(DROPPED, run="a-1"), with_notes("the fan was loud", run="b-2")]))
    found = notes(of)[:2]
    assert [each.message for each in found] == [f"a-1: {DROPPED}", "b-2: the fan was loud"]
    value = present(found[0].value)
    assert value.id == "budget-dropped"
    assert DROPPED.parameters.items() <= value.parameters.items()
    with use_language(Language.KOREAN):
        assert notes(of)[0].message == f"a-1: {IN_KOREAN}"


def test_a_template_that_does_not_fit_is_refused() -> None:
    counted = Message("dropped", "{count} of {points}: {took}", "{count} of {points}: {took}", **DROPPED.parameters)
    for changed in (
        {"template": "{count:>999999999}"},
        {"template": "{count.__class__}"},
        {"template": "{count[0]}"},
        {"template": "{missing}"},
        {"template": "{}"},
        {"template": "{count"},
        {"template": "{took:.2f}"},
        {"plural": "{missing}"},
        {"plural": "{took}", "parameters": {"count": "many", "points": 6}},
        {"plural": "{took}", "template": "{took}", "parameters": {}},
    ):
        stored = KeptMessage.from_message(counted).model_dump(mode="json") | changed
        with pytest.raises(ValidationError):
            KeptMessage.model_validate(stored)


def test_every_message_can_be_kept_and_has_a_singular_and_its_package_is_on_the_page() -> None:
    templates = [template for entry in messages_page.entries() for template in entry.templates]
    formats = [form for template in templates for _, _, form, _ in Formatter().parse(template) if form]
    assert formats
    assert [form for form in formats if VALUE_FORMAT.fullmatch(form) is None] == []
    having = {
        path.relative_to(messages_page.ROOT).parts[0]
        for path in messages_page.ROOT.rglob("*.py")
        if "Message(\n" in path.read_text() or 'Message("' in path.read_text()
    }
    assert having == set(messages_page.SECTIONS)
    lacking = []
    for path, call in messages_page.message_calls():
        if len(call.args) == 2:
            lacking += [f"{path.name}: {text}" for text in _texts(call.args[1]) if _COUNTED.search(text)]
    assert lacking == []


_COUNTED = re.compile(r"(?<!of )\{(trials|count|dips|jumps|percentiles|more)\}(?: more)? (?!is)[a-z]+s\b")


def _texts(node: ast.expr) -> list[str]:
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body), *_texts(node.orelse)]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
