"""Reports about events, commit ledgers and searches."""

from typing import Any

import pytest

from pgdyno.records import (
    EventEffect,
    EventOutcome,
    EventRecord,
    LedgerRecord,
    Manifest,
    Point,
    ReadOrder,
    SearchRecord,
    TrialRecord,
)
from pgdyno.report.answers.answer import answer, answer_json
from pgdyno.report.report_content import NO_EXTRAS, digest
from pgdyno.report.run_notes import disturbance_lines, search_lines
from tests.present import present
from tests.unit.report_sample import SampleRun, add_trial, manifest
from tests.unit.store_sample import trial_record

EFFECT = EventEffect(
    nobody_served_s=1.72,
    first_success_s=1.73,
    failed=8,
    lost=7,
    connections_lost=8,
    all_away_s=1.6,
    before_tps=698.4,
    lowest_tps=0,
    recovered_s=2.0,
)
LEDGER = LedgerRecord(
    acknowledged=37599,
    missing=3,
    missing_ranges=[],
    unknown=0,
    unknown_present=0,
    refused=0,
    refused_present=0,
    present=37596,
    duplicates=0,
    strange=0,
    seconds=0.1,
)


def event(outcome: EventOutcome = EventOutcome.DONE, effect: EventEffect | None = EFFECT, **more: Any) -> EventRecord:  # noqa: ANN401
    fields = {"number": 1, "do": "kill", "at_s": 15, "began_s": 15.0004, "seconds": 0.0506, "message": None, **more}
    return EventRecord(outcome=outcome, effect=effect, **fields)


def trial(events: list[EventRecord], ledger: LedgerRecord | None = None) -> TrialRecord:
    return trial_record(3, warmup_s=5, duration_s=40, events=events, ledger=ledger)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            event(),
            (
                "kill at 15.0 s: took 0.0506 s; no successful transaction for 1.72 s; 8 transactions failed (7 lost); "
                "back within 5 % of 698 tps after 2.00 s"
            ),
        ),
        (
            event(effect=EFFECT.model_copy(update={"recovered_s": None, "failed": 0, "nobody_served_s": 0.0})),
            "kill at 15.0 s: took 0.0506 s; never without successful transactions; not back within 5 % of 698 tps",
        ),
        (event(EventOutcome.NOT_REACHED, None, began_s=None), "kill at 15.0 s: not reached"),
        (
            event(EventOutcome.FAILED, None, do="command", command="x y", message="exit code 3"),
            "command (x y) at 15.0 s: failed: exit code 3",
        ),
    ],
)
def test_an_event_is_a_line(given: EventRecord, line: str) -> None:
    assert disturbance_lines([trial([given])]) == [line]


def test_a_ledger_is_a_line_and_several_trials_are_told_apart() -> None:
    bad = LEDGER.model_copy(update={"unknown": 2, "unknown_present": 1, "duplicates": 1, "strange": 4})
    assert disturbance_lines([trial([], LEDGER), trial([], bad), trial([])]) == [
        "trial 3, ledger: 37,599 acknowledged, 3 of them missing",
        (
            "trial 3, ledger: 37,599 acknowledged, 3 of them missing; 2 without an answer, 1 of them committed; "
            "1 is present twice; 4 rows are from no client"
        ),
    ]


def test_a_search_is_a_line() -> None:
    found = SearchRecord(find="peak", target="a", point=Point(clients=8, scale=2), trials=27, words="peak at 8 clients")
    manifest = Manifest.model_construct(search=[found])
    assert search_lines(manifest) == ["peak at 8 clients (27 trials)"]
    both = Manifest.model_construct(search=[found, found.model_copy(update={"target": "b"})])
    assert search_lines(both)[1] == "target b, protocol simple, scale 2: peak at 8 clients (27 trials)"


def failed_over(outages_s: list[float | None], missing: int, went_back: int) -> SampleRun:
    """One trial for each outage; None did not end."""
    run = SampleRun(manifest(["a"], trials_planned=len(outages_s)))
    for at, seconds in enumerate(outages_s, start=1):
        add_trial(run, "a", 8, 1000, 900, repeat=at)
        stall = {"nobody_served_s": seconds or 9.0, "first_success_s": seconds}
        promoted = event(effect=EFFECT.model_copy(update=stall), do="promote")
        ledger = LEDGER.model_copy(update={"missing": missing if at == 1 else 0})
        order = ReadOrder(reads=100, went_back=went_back, furthest_s=0.25)
        run.trials[-1] = run.trials[-1].model_copy(update={"events": [promoted], "ledger": ledger, "read_order": order})
    return run


def test_repeated_outages_are_the_answer() -> None:
    run = failed_over([0.3, 0.1, 0.2], missing=5, went_back=2)
    said = answer(digest(run), NO_EXTRAS)
    assert said.text == (
        "promote: no client was served for 0.200 s (median of 3 trials), 0.300 s (p99), 0.300 s at most; "
        "5 of 112,797 acknowledged commits are missing, in 1 trial; "
        "6 of 300 reads of all servers in turn went back in time, by 0.250 s at most"
    )
    assert "1,000 transactions a second" in said.details[0]
    assert present(said.table).rows == (("a", "promote", "3", "0.200", "0.300", "0.300", "5", "0", "6"),)
    (outages,) = answer_json(digest(run), NO_EXTRAS)["outages"]
    assert outages == {
        "arm": "a",
        "do": "promote",
        "trials": [1, 2, 3],
        "seconds": [0.1, 0.2, 0.3],
        "missing": 5,
        "reads": 300,
        "went_back": 6,
    }


def test_an_outage_without_an_end_is_the_longest() -> None:
    said = answer(digest(failed_over([0.1, None], missing=0, went_back=0)), NO_EXTRAS)
    assert "0.100 s (median of 2 trials), the rest of the trial (p99), the rest of the trial at most" in said.text
    assert "none of 75,198 acknowledged commits is missing; none of 200 reads" in said.text
    assert present(said.table).rows[0][4] == "not back"


def test_one_outage_is_no_distribution() -> None:
    assert "1,000 transactions a second" in answer(digest(failed_over([0.1], 0, 0)), NO_EXTRAS).text
