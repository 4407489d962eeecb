"""Messages: kept in run folders, translated by the report, whoever wrote them; and with a sentence for one trial."""

import ast
import re
from string import Formatter

import pytest
from pydantic import ValidationError

import messages_page
from pgdyno.messages import Message
from pgdyno.records import KeptMessage, Manifest
from pgdyno.records.base import VALUE_FORMAT
from pgdyno.report.export import markdown_of
from pgdyno.report.report_content import NO_EXTRAS, digest, notes
from pgdyno.report.several_runs import unite_runs
from pgdyno.report.translation import Language, translate, use_language
from tests.present import present
from tests.unit.report_sample import SampleRun, sweep

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


def test_a_message_within_a_message_is_kept() -> None:
    kept = KeptMessage.from_message(DROPPED)
    message = KeptMessage.model_validate_json(kept.model_dump_json()).message
    assert (str(message), message.parameters) == (str(DROPPED), DROPPED.parameters)
    # an earlier version kept its sentence
    stored = kept.model_dump(mode="json", exclude={"messages"})
    assert str(KeptMessage.model_validate(stored).message) == str(DROPPED)


def test_reports_translate_notes_and_show_those_of_earlier_versions_as_they_are() -> None:
    of = digest(with_notes("the fan was loud", DROPPED))
    found = notes(of)[:2]
    assert [each.message for each in found] == ["the fan was loud", str(DROPPED)]
    assert [each.value and each.value.id for each in found] == [None, "budget-dropped"]
    with use_language(Language.KOREAN):
        assert [each.message for each in notes(of)[:2]] == ["the fan was loud", IN_KOREAN]
        assert "The fan was loud" in markdown_of(of, NO_EXTRAS)


def test_notes_of_several_runs_have_the_run_and_their_ids() -> None:
    of = digest(unite_runs([with_notes(DROPPED, run="a-1"), with_notes("the fan was loud", run="b-2")]))
    found = notes(of)[:2]
    assert [each.message for each in found] == [f"a-1: {DROPPED}", "b-2: the fan was loud"]
    value = present(found[0].value)
    assert value.id == "budget-dropped"
    assert DROPPED.parameters.items() <= value.parameters.items()
    with use_language(Language.KOREAN):
        assert notes(of)[0].message == f"a-1: {IN_KOREAN}"


@pytest.mark.parametrize(
    "changed",
    [
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
    ],
)
def test_a_template_that_does_not_fit_is_refused(changed: dict[str, object]) -> None:
    counted = Message("dropped", "{count} of {points}: {took}", "{count} of {points}: {took}", **DROPPED.parameters)
    stored = KeptMessage.from_message(counted).model_dump(mode="json") | changed
    with pytest.raises(ValidationError):
        KeptMessage.model_validate(stored)


def test_every_message_can_be_kept() -> None:
    templates = [template for entry in messages_page.entries() for template in entry.templates]
    formats = [form for template in templates for _, _, form, _ in Formatter().parse(template) if form]
    assert formats
    assert [form for form in formats if VALUE_FORMAT.fullmatch(form) is None] == []


def test_the_page_lists_every_package_that_has_messages() -> None:
    having = {
        path.relative_to(messages_page.ROOT).parts[0]
        for path in messages_page.ROOT.rglob("*.py")
        if "Message(\n" in path.read_text() or 'Message("' in path.read_text()
    }
    assert having == set(messages_page.SECTIONS)


_COUNTED = re.compile(r"(?<!of )\{(trials|count|dips|jumps|percentiles|more)\}(?: more)? (?!is)[a-z]+s\b")


def _texts(node: ast.expr) -> list[str]:
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body), *_texts(node.orelse)]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def test_every_message_that_counts_something_has_a_singular() -> None:
    lacking = []
    for path, call in messages_page.message_calls():
        if len(call.args) == 2:
            lacking += [f"{path.name}: {text}" for text in _texts(call.args[1]) if _COUNTED.search(text)]
    assert lacking == []


def test_the_number_of_trials_chooses_the_sentence_without_a_count() -> None:
    for parameters, said in (
        ({"trials": 1}, "1 trial"),
        ({"trials": 2}, "2 trials"),
        ({"trials": 2, "count": 1}, "2 trial"),
    ):
        message = Message("off", "off in {trials} trial", "off in {trials} trials", **parameters)
        with use_language(Language.ENGLISH):
            assert str(message) == translate(message) == f"off in {said}"
