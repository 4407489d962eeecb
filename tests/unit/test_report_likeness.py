"""The section "Your load" of a report, and the audit of loads from a capture."""

import csv
import io
from typing import Any

import pytest

from pgdyno.analyse.likeness import likeness, replayed_statements
from pgdyno.audit import audit
from pgdyno.audit.finding import Finding
from pgdyno.records import ErrorCount, Latency, ReplayFigures, TrialRecord
from pgdyno.report.export import markdown_of, to_csv, to_json
from pgdyno.report.numbers import NOTHING
from pgdyno.report.report_content import Extras, digest
from pgdyno.report.sections.draft import Draft
from pgdyno.report.sections.likeness import load_lines, own_loads, waits_table
from pgdyno.report.sections.section_list import filled_sections
from pgdyno.report.table import Table
from pgdyno.report.translation import Language, use_language
from pgdyno.store.probe_queries import ProbeAverages
from tests.present import present
from tests.unit.audit_sample import FakeRun, changed, own
from tests.unit.capture_sample import capture
from tests.unit.report_sample import SampleRun, add_trial, manifest, plain_lines, render_html, to_markdown
from tests.unit.test_analyse_likeness import end_of, statement

DISAGREEMENTS = (
    "new_errors", "missing_errors", "other_errors", "in_failed_transaction", "different_rows", "cancelled_waits",
)  # fmt: skip
AGREED = dict.fromkeys(DISAGREEMENTS, 0)


def figures(**changes: Any) -> ReplayFigures:  # noqa: ANN401 - fields of any type
    of: dict[str, Any] = {
        "sessions": 2, "sessions_begun": 2, "sessions_lost": 0, "statements": 5, "done": 5, "not_started": 0,
        "disagreements": AGREED, "lateness_ns": Latency(p50=20_000, p99=900_000, max=2_000_000), "within_1ms": 0.995,
    }  # fmt: skip
    return ReplayFigures(**{**of, **changes})


LIKE = end_of([statement(0, 2), statement(1, 1), statement(2, 0, failures=1), statement(3, 1)])
UNLIKE = end_of([statement(0, 2), statement(1, 1), statement(3, 1)])


def replayed(end: dict[str, object], **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - likewise
    return {"likeness": likeness(capture(), replayed_statements(end)), "summary": {"replay": figures(**changes)}}


def sample(end: dict[str, object] = LIKE, targets: tuple[str, ...] = ("pg15", "pg18"), **changes: Any) -> SampleRun:  # noqa: ANN401
    run = SampleRun(manifest(targets, trials_planned=len(targets)))
    for name in targets:
        add_trial(run, name, 2, 100.0, seconds=4)
    for at, trial in enumerate(run.trials):
        fields = replayed(end, **changes)
        summary = present(trial.summary).model_copy(update=fields["summary"])
        run.trials[at] = trial.model_copy(update={**fields, "summary": summary})
    return run


SEEN = {
    1: ProbeAverages(1, "a", None, None, [("CPU", "", 0.4), ("Lock", "tuple", 0.1)], None, None, None),
    2: ProbeAverages(2, "b", None, None, [("IO", "WalSync", 0.2)], None, None, None),
}


def test_the_load_is_the_first_section_and_has_its_tables() -> None:
    run = sample()
    section, blocks = next(iter(filled_sections(Draft(digest(run), Extras(limits=SEEN), "/runs/a")).items()))
    assert section.id == "load"
    texts = [block for block in blocks if isinstance(block, str)]
    assert texts[0] == (
        "pg15: True to 100 %: 5 of 5 statements had the captured result, as far as the capture knows it. The load is "
        "like the capture: each of its 4 classes of statements has the same share. 99.5 % of the statements began "
        "within 1 ms of their time, and 99 % within 0.900 ms."
    )
    classes, waits = [each for each in blocks if isinstance(each, Table)]
    assert classes.headings[:4] == ("statement", "captured: calls, %", "pg15: calls, %", "pg18: calls, %")
    assert classes.rows[0][:4] == ("SELECT a FROM t WHERE b = $1", "40.00", "40.00", "40.00")
    assert waits.rows == (
        ("CPU", "0.50", "0.40", "0.00"),
        ("Lock:tuple", "0.25", "0.10", "0.00"),
        ("IO:WalSync", "0.00", "0.00", "0.20"),
    )
    page = render_html(run, "/runs/a")
    assert page.index('id="load"') < page.index('id="validity"' if 'id="validity"' in page else 'id="points"')
    # the first link of the page
    assert page.index('href="#load"') < page.index('href="#points"')
    assert page.count("<li><a href=") <= 8


def test_waits_are_in_every_form_and_unknown_without_a_probe() -> None:
    run, half = sample(), Extras(limits={1: SEEN[1]})
    table = present(waits_table(own_loads(digest(run)), half.limits))
    assert table.rows == (("CPU", "0.50", "0.40", NOTHING), ("Lock:tuple", "0.25", "0.10", NOTHING))
    assert "Lock:tuple" in markdown_of(digest(run), half)
    assert "Lock:tuple" in "\n".join(plain_lines(run, 80, half))
    assert "Lock:tuple" not in to_markdown(run)


def test_a_report_without_a_capture_has_no_such_section() -> None:
    run = SampleRun(manifest())
    add_trial(run, "pg18", 2, 100.0, seconds=4)
    assert 'id="load"' not in render_html(run, "/runs/a")
    assert load_lines(digest(run)) == []
    assert findings(changed(own(), lambda _: replayed(LIKE))) == []


def test_terminal_markdown_csv_and_json_have_it() -> None:
    run = sample()
    lines = plain_lines(run)
    assert max(map(len, lines)) <= 80
    first = next(at for at, line in enumerate(lines) if "is like the capture" in line)
    at, heading = next((at, line) for at, line in enumerate(lines) if line.startswith("statement  "))
    assert first < at
    assert heading.split() == ["statement", *["captured:", "pg15:", "pg18:"] * 2]
    assert lines[at + 1].count("calls, %") == 3
    assert first < next(at for at, line in enumerate(lines) if line.split()[:2] == ["target", "clients"])
    assert "is like the capture" in to_markdown(run)
    assert "|SELECT a FROM t WHERE b" in to_markdown(run)
    wide = to_markdown(sample(targets=("pg18", "a-target-with-a-long-name")))
    assert max(map(len, wide.splitlines())) <= 80
    row = next(csv.DictReader(io.StringIO(to_csv(run))))
    assert (row["largest_share_difference"], row["disagreements"], row["late_p99_ms"]) == ("0", "0", "0.9")
    assert '"largest_difference": 0.0' in to_json(digest(run), Extras())


def test_differences_and_disagreements_are_named() -> None:
    many = AGREED | {"new_errors": 3, "different_rows": 1}
    run = sample(UNLIKE, ("pg18",), disagreements=many, not_started=7, sessions_lost=1, copies_without_data=2)
    text = "\n".join(load_lines(digest(run)))
    assert "The load is not like the capture: the share of UPDATE t SET a = $1 differs by 20 points" in text
    assert "Disagreements with the capture: 4 of 5 statements (new errors 3, other numbers of rows 1)" in text
    assert "Statements not started: 7 of 5; connections lost: 1" in text
    assert "COPY FROM STDIN without rows, because a log does not have them: 2" in text


@pytest.mark.parametrize(
    ("states", "copies", "causes"),
    [
        ({}, 0, ["replay-other-state"]),
        ({"42P01": 4}, 0, ["replay-other-state"]),
        ({"23503": 4, "23505": 2, "40001": 1}, 0, ["replay-other-keys"]),
        ({}, 3, ["replay-lacks-rows"]),
        ({"23503": 4}, 3, ["replay-lacks-rows", "replay-other-keys"]),
    ],
)
def test_the_causes_of_disagreements_are_named(states: dict[str, int], copies: int, causes: list[str]) -> None:
    errors = [ErrorCount(sqlstate=state, message="no", count=count) for state, count in states.items()]

    def change(_: TrialRecord) -> dict[str, Any]:
        found = replayed(LIKE, disagreements=AGREED | {"new_errors": 6}, done=100)
        return {
            "likeness": found["likeness"].model_copy(update={"copies_left_out": copies}),
            "summary": found["summary"] | {"errors": errors},
        }

    run = changed(own(), change)
    found = findings(run)
    assert [each.id for each in found] == ["unlike-capture-results"] * len(causes)
    assert [each.parameters["cause_id"] for each in found] == causes
    # a restore does not bring what a log never had
    assert [each.advice.startswith("restore the database") for each in found] == [
        cause != "replay-lacks-rows" for cause in causes
    ]
    figures = found[0].evidence[0].figures
    assert {name: figures.get(f"errors_{name}") for name in states} == states


def test_the_texts_are_translated() -> None:
    of = digest(sample(UNLIKE, ("pg18",), disagreements=AGREED | {"new_errors": 3}))
    assert own_loads(of)
    for language in Language:
        with use_language(language):
            assert ("capture" in "\n".join(load_lines(of))) is (language is Language.ENGLISH)


def findings(run: FakeRun) -> list[Finding]:
    return [each for each in audit(run) if each.rule == "unlike-capture"]


def test_the_audit_names_trials_that_are_unlike_their_capture() -> None:
    late: dict[str, Any] = {"lateness_ns": Latency(p99=11_000_000), "within_1ms": 0.9, "done": 100, "statements": 100}

    # the server was busy: most late statements waited for an answer
    waiting = {**late, "delayed_by_answer": 9}
    disagreeing = {"disagreements": AGREED | {"missing_errors": 6}, "done": 100}
    changes = {2: (UNLIKE, {}), 3: (LIKE, late), 4: (LIKE, waiting), 5: (LIKE, disagreeing)}

    def change(trial: TrialRecord) -> dict[str, Any]:
        end, figures = changes.get(trial.number, (LIKE, {}))
        return replayed(end, **figures)

    found = {each.id: each for each in findings(changed(own(), change))}
    assert {name: each.trials for name, each in found.items()} == {
        "unlike-capture-shares": [2],
        "unlike-capture-late": [3],
        "unlike-capture-results": [5],
    }
    assert found["unlike-capture-results"].evidence[0].figures == {"missing_errors": 6}
