"""The answer of loads at fixed rates, in phases, and with outages; lines about events, ledgers and searches."""

from typing import Any

from pgdyno import records
from pgdyno.report.answers.answer import Answer, answer, answer_json
from pgdyno.report.report_content import NO_EXTRAS, digest
from pgdyno.report.run_notes import disturbance_lines, search_lines
from pgdyno.report.table import Table
from tests.present import present
from tests.unit.report_answer_sample import answered, at_rates, in_phases, shown
from tests.unit.report_sample import SampleRun, add_trial, manifest
from tests.unit.store_sample import trial_record

IMPORTED = records.Imported(file="pgbench.txt", line=1, last_line=9, tool="pgbench")
BEHIND = "PostgreSQL 18.6 does not keep up with 4,000 transactions a second: it serves "


def at_a_rate(tps: float, rate: float = 219.0, failed: int = 0, **more: Any) -> SampleRun:  # noqa: ANN401
    run = SampleRun(manifest())
    add_trial(
        run, "pg18", 8, tps, point=records.Point(clients=8, protocol="prepared", rate=rate), failed=failed, **more
    )
    return run


def change(run: SampleRun, at: int, of_trial: dict[str, object] | None = None, **of_summary: object) -> None:
    summary = present(run.trials[at].summary).model_copy(update=of_summary)
    run.trials[at] = run.trials[at].model_copy(update={"summary": summary, **(of_trial or {})})


def table_of(said: Answer) -> Table:
    return present(said.table)


def test_a_fixed_rate_is_answered_by_its_latency_and_times_to_connect() -> None:
    said = answered(at_rates([1000.0]))
    assert said.text.startswith("At 1,000 transactions a second, PostgreSQL 18.6 has a p99 of ")
    assert said.details[1].startswith("noise: p99 of the trials lies between ")
    everything = "\n".join(shown(at_rates([500.0, 1000.0])))
    assert "knee" not in everything
    assert "peak" not in everything
    # without percentiles, by its mean
    run = at_rates([1000.0])
    run.blobs = {}
    unknown = {"mean": 3.72e6} | dict.fromkeys(("p50", "p90", "p95", "p99", "p999"))
    for at, trial in enumerate(run.trials):
        latency = present(present(trial.summary).latency_ns).model_copy(update=unknown)
        change(run, at, {"imported": IMPORTED}, latency_ns=latency)
    assert " has a mean latency of 3.72 ms; its percentiles are unknown (" in answered(run).text
    # times to connect are those of all trials
    run = at_rates([1000.0])
    for at in range(3):
        total = records.Latency(p50=(at + 1) * 1_000_000, p99=(at + 1) * 4_000_000)
        start = records.Latency(mean=(at + 1) * 800_000)
        connect = records.ConnectFigures(
            count=9, total=total, socket=None, tls=None, authentication=None, backend_start=start
        )
        change(run, at, connect=connect)
    assert "time to connect: p50 2.00 ms, p99 8.00 ms; on average backend start 1.60 ms" in answered(run).details


def test_rates_and_phases_have_a_row_each_and_one_that_is_too_high_is_told() -> None:
    said = answered(at_rates([4000.0], served=0.8, of=at_rates([500.0])))
    assert [row[:2] for row in table_of(said).rows] == [("500", "500"), ("4,000", "3,200")]
    kept = "PostgreSQL 18.6 keeps up with 500 transactions a second: the rate limits throughput, not the server"
    assert said.details[:2] == (kept, f"{BEHIND}3,200, 80.0 % of those due")
    # nothing succeeded
    run = at_rates([500.0])
    point = records.Point(clients=8, protocol="prepared", rate=4000.0)
    add_trial(run, "pg18", 8, 0, seconds=2, point=point, failed=8_000, with_latency=False)
    said = answered(run)
    assert [row[:3] for row in table_of(said).rows] == [("500", "500", "100"), ("4,000", "0", "0")]
    assert f"{BEHIND}0, 0 % of those due" in said.details
    said = answered(in_phases())
    assert said.text == (
        "PostgreSQL 18.6 in 2 phases: 502 to 902 transactions a second; p99 2.00 to 8.00 ms, the highest in hold"
    )
    rows = table_of(said).rows
    assert [row[:2] for row in rows] == [("rise", "100 to 900"), ("hold", "900"), ("settle (not counted)", "100")]
    assert rows[1][5] == "8.00"


def test_many_failures_come_before_latency_with_their_messages() -> None:
    uuid = 'invalid input syntax for type uuid: "{}"'
    errors = [records.ErrorCount(sqlstate="22P02", message="(other messages)", count=12)]
    errors += [records.ErrorCount(sqlstate="22P02", message=uuid.format(value), count=2) for value in range(7)]
    run = at_a_rate(216.4, failed=26, errors=errors)
    said = answered(run)
    assert said.text == "1.19 % of the 219 transactions a second fail on PostgreSQL 18.6"
    assert said.details[0].startswith("At 219 transactions a second, PostgreSQL 18.6 has a p99 of ")
    # failed transactions are not late
    assert not any("keep up" in each or "the rate limits throughput" in each for each in said.details)
    everything = shown(run)
    assert "Errors of finished trials" in "\n".join(everything)
    assert any("22P02" in line and uuid.format("…") in line and line.endswith("14") for line in everything)
    # few come after it
    said = answered(at_a_rate(218.0, failed=10))
    assert "fail on" not in said.text
    assert "fail on" in said.details[0]


def test_a_rate_is_kept_up_with_only_if_throughput_reaches_it() -> None:
    for tps, counted, keeps_up in ((3_000.0, True, False), (3_000.0, False, False), (3_970.0, True, True)):
        run = at_a_rate(tps, 4000.0)
        # pgbench counts no transactions that were due and had not started at the end
        unknown = {} if counted else dict.fromkeys(("scheduled", "succeeded", "in_flight"))
        change(run, 0, {"imported": IMPORTED}, **unknown)
        assert ("keeps up with 4,000" in " ".join(answered(run).details)) == keeps_up


def test_arms_at_a_rate_are_compared_by_latency_and_say_which_of_them_kept_up() -> None:
    run = at_rates([1000.0], "pg18", of=at_rates([1000.0], "pg17", 0.8, SampleRun(manifest(("pg17", "pg18")))))
    details = "\n".join(answered(run).details)
    assert "pg17 does not keep up with 1,000 transactions a second: it serves 800" in details
    assert "pg18 keeps up with 1,000 transactions a second" in details
    said = answered(at_rates([1000.0], "pg18", of=at_rates([1000.0], "pg17", of=SampleRun(manifest(("pg17", "pg18"))))))
    assert "p99 latency" in said.text
    assert len(table_of(said).rows) == 2


EFFECT = records.EventEffect(
    nobody_served_s=1.72, first_success_s=1.73, failed=8, lost=7, connections_lost=8, all_away_s=1.6,
    before_tps=698.4, lowest_tps=0, recovered_s=2.0,
)  # fmt: skip
LEDGER = records.LedgerRecord(
    acknowledged=37599, missing=3, missing_ranges=[], unknown=0, unknown_present=0, refused=0, refused_present=0,
    present=37596, duplicates=0, strange=0, seconds=0.1,
)  # fmt: skip


def event(
    outcome: records.EventOutcome = records.EventOutcome.DONE,
    effect: records.EventEffect | None = EFFECT,
    **more: Any,  # noqa: ANN401
) -> records.EventRecord:
    fields = {"number": 1, "do": "kill", "at_s": 15, "began_s": 15.0004, "seconds": 0.0506, "message": None, **more}
    return records.EventRecord(outcome=outcome, effect=effect, **fields)


def trial(events: list[records.EventRecord], ledger: records.LedgerRecord | None = None) -> records.TrialRecord:
    return trial_record(3, warmup_s=5, duration_s=40, events=events, ledger=ledger)


LONG = "no successful transaction for 1.72 s; 8 transactions failed (7 lost)"
NEVER = "never without successful transactions"
SHORT = EFFECT.model_copy(update={"recovered_s": None, "failed": 0, "nobody_served_s": 0.0})


def test_an_event_a_ledger_and_a_search_is_a_line() -> None:
    for given, line in (
        (event(), f"kill at 15.0 s: took 0.0506 s; {LONG}; back within 5 % of 698 tps after 2.00 s"),
        (event(effect=SHORT), f"kill at 15.0 s: took 0.0506 s; {NEVER}; not back within 5 % of 698 tps"),
        (event(records.EventOutcome.NOT_REACHED, None, began_s=None), "kill at 15.0 s: not reached"),
        (
            event(records.EventOutcome.FAILED, None, do="command", command="x y", message="exit code 3"),
            "command (x y) at 15.0 s: failed: exit code 3",
        ),
    ):
        assert disturbance_lines([trial([given])]) == [line]
    bad = LEDGER.model_copy(update={"unknown": 2, "unknown_present": 1, "duplicates": 1, "strange": 4})
    line = "trial 3, ledger: 37,599 acknowledged, 3 of them missing"
    more = "; 2 without an answer, 1 of them committed; 1 is present twice; 4 rows are from no client"
    assert disturbance_lines([trial([], LEDGER), trial([], bad), trial([])]) == [line, line + more]
    found = records.SearchRecord(
        find="peak", target="a", point=records.Point(clients=8, scale=2), trials=27, words="peak at 8 clients"
    )
    assert search_lines(records.Manifest.model_construct(search=[found])) == ["peak at 8 clients (27 trials)"]
    two = records.Manifest.model_construct(search=[found, found.model_copy(update={"target": "b"})])
    assert search_lines(two)[1] == "target b, protocol simple, scale 2: peak at 8 clients (27 trials)"


def failed_over(outages_s: list[float | None], missing: int = 0, went_back: int = 0) -> SampleRun:
    """Returns one trial for each outage; None did not end."""
    run = SampleRun(manifest(["a"], trials_planned=len(outages_s)))
    for at, seconds in enumerate(outages_s):
        add_trial(run, "a", 8, 1000, repeat=at + 1)
        stall = {"nobody_served_s": seconds or 9.0, "first_success_s": seconds}
        promoted = event(effect=EFFECT.model_copy(update=stall), do="promote")
        ledger = LEDGER.model_copy(update={"missing": 0 if at else missing})
        order = records.ReadOrder(reads=100, went_back=went_back, furthest_s=0.25)
        change(run, at, {"events": [promoted], "ledger": ledger, "read_order": order})
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
    assert table_of(said).rows == (("a", "promote", "3", "0.200", "0.300", "0.300", "5", "0", "6"),)
    (outages,) = answer_json(digest(run), NO_EXTRAS)["outages"]
    told = {"arm": "a", "do": "promote", "trials": [1, 2, 3], "seconds": [0.1, 0.2, 0.3], "missing": 5}
    assert outages == told | {"reads": 300, "went_back": 6}
    # one without an end is the longest
    said = answer(digest(failed_over([0.1, None])), NO_EXTRAS)
    assert "0.100 s (median of 2 trials), the rest of the trial (p99), the rest of the trial at most" in said.text
    assert "none of 75,198 acknowledged commits is missing; none of 200 reads" in said.text
    assert table_of(said).rows[0][4] == "not back"
    # and one alone is no distribution
    assert "1,000 transactions a second" in answer(digest(failed_over([0.1])), NO_EXTRAS).text
