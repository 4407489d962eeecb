"""What a comparison shows as the cause of a difference, and when it shows none."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from pgdyno.analyse.comparison import Comparison, compare
from pgdyno.analyse.pairs import Metric, between, within
from pgdyno.audit.causes import NO_CAUSE, with_causes
from pgdyno.audit.subject import Subject
from pgdyno.records import TrialRecord
from pgdyno.store.read_runs import KeptPlan
from tests.unit.audit_sample import FakeRun, add_samples, each_second, own, quiet_looks, revise_trials

if TYPE_CHECKING:
    from pgdyno.analyse.over_time.timeline import RunSource

SECONDS = 60.0


def slower(run: FakeRun, tps: float = 5_000.0) -> FakeRun:
    def figures(trial: TrialRecord) -> Mapping[str, object]:
        rate = (tps if trial.target == "b" else 10_000.0) * (1 + 0.001 * (trial.number % 3))
        return {"summary": {"tps": rate, "succeeded": round(rate * SECONDS)}}

    return revise_trials(run, figures)


def caused(run: FakeRun, base: str = "a") -> Comparison:
    (found,) = compare(within(cast("RunSource", run), "target", Metric.TPS, base))
    return with_causes(found, Subject(run), Subject(run))


def sentences(of: Comparison) -> list[str]:
    return [str(each) for each in of.causes]


def counting(run: FakeRun, source: str, metric: str, a: float, b: float) -> FakeRun:
    """Return `run` in which the probe counts these in each second."""
    return add_samples(run, lambda trial: each_second(SECONDS, source, **{metric: b if trial.target == "b" else a}))


def test_counters_are_compared_per_transaction_whichever_arm_is_the_base() -> None:
    for base in ("a", "b"):
        of_base = caused(counting(slower(own()), "database", "temp", 0, 5_000 * 1e6), base)
        assert sentences(of_base) == ["temporary files: 999 kB a transaction at b, 0 at a"]
    for source, metric, each in (
        ("database", "blocks_read", 3),
        ("wal_position", "inserted", 500),
        ("database", "rows_returned", 900),
        ("locks", "fastpath_exceeded", 3),
    ):
        run = slower(own())
        assert len(caused(counting(run, source, metric, each * 10_000, 2 * each * 5_000)).causes) == 1
        # the same for each transaction
        assert caused(counting(run, source, metric, each * 10_000, each * 5_000)).causes == (NO_CAUSE,)
        # the faster arm has more
        assert caused(counting(run, source, metric, 2 * each * 10_000, each * 5_000)).causes == (NO_CAUSE,)


def test_waits_that_make_transactions_longer_are_shown() -> None:
    run = slower(own())
    looks = [quiet_looks(SECONDS, seconds) for seconds in (range(int(SECONDS)), [1])]
    locked, rarely = (
        caused(replace(run, looks_of_trials={each.number: of_b for each in run.trials if each.target == "b"}))
        for of_b in looks
    )
    assert sentences(locked) == ["waits (Lock): 0.599 ms a transaction at b, 0 at a"]
    assert rarely.causes == (NO_CAUSE,)


def test_nothing_is_shown_for_single_trials_without_a_verdict_or_without_a_probe() -> None:
    run = slower(own())
    rows = each_second(SECONDS, "database", temp=5e9)
    assert caused(add_samples(run, lambda trial: rows if trial.number in (2, 4) else ())).causes == (NO_CAUSE,)
    assert caused(counting(own(), "database", "temp", 0, 1e9)).causes == ()
    assert caused(replace(slower(own()), probe_rows=(), of_trials={})).causes == ()


def test_another_plan_comes_first() -> None:
    run = slower(own())
    plans = [
        KeptPlan("SELECT 1\n FROM t", shape, plan, [(each.number, 0, 0) for each in run.trials if each.target == arm])
        for arm, shape, plan in (
            ("a", "x", "Limit\n  ->  Index Scan using i on t"),
            ("b", "y", "Limit\n  ->  Seq Scan on t\n        Filter: (id = 1)"),
        )
    ]
    found = caused(replace(counting(run, "database", "temp", 0, 1e9), plans=plans))
    assert sentences(found)[0] == ("another plan of SELECT 1 FROM t: Seq Scan on t at b, Index Scan using i on t at a")
    assert len(found.causes) == 2


def test_runs_are_compared_with_the_trials_of_each() -> None:
    base, other = slower(own(run="one"), 10_000.0), slower(revise_trials(own(run="two"), lambda _: {}), 10_000.0)
    other = revise_trials(other, lambda trial: {"summary": {"tps": 4_000.0 + trial.number, "succeeded": 240_000}})
    other = add_samples(other, lambda _: each_second(SECONDS, "database", temp=4_000 * 2e3))
    (found,) = compare([between(cast("RunSource", base), cast("RunSource", other), Metric.TPS)])
    assert sentences(with_causes(found, Subject(base), Subject(other))) == [
        "temporary files: 2.00 kB a transaction at two, 0 at one"
    ]
