"""The search for the cheapest target: its plan, what trials show about a target, and the answer."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pgdyno.experiment.search.cheapest_order import Verdict
from pgdyno.experiment.search.cheapest_search import CheapestSearch, families_of, summarise_trials
from pgdyno.plan import Plan, planned_trials
from pgdyno.plan.output.plan_output import search_lines
from pgdyno.plan.time_budget.time_and_disk import trial_count
from pgdyno.records import Outcome, Point, TrialRecord
from tests.present import present
from tests.unit.plan_sample import load, refuse, small_plan
from tests.unit.test_search_trials import record

PRICES = {"s": 1, "m": 2, "l": 4, "other": 3, "tie": 2}
LOAD = ('scripts = ["tpcb-like", "select-only@9"]', "clients = 4\nrate = 100")
SEARCH = '[search]\nfind = "cheapest"\nlatency = "p99 < 10ms"\n'
PRICE = '[price]\ncurrency = "EUR"\ndate = 2026-11-01\nyears = 1\n'
PLAN = small_plan(*LOAD, **dict.fromkeys(PRICES, "18")) + SEARCH + 'families = [["s", "m", "l"]]\n' + PRICE
PLAN += "".join(f"[price.target.{name}]\nhourly = [{{ amount = {price} }}]\n" for name, price in PRICES.items())
RENTED = "".join(
    f'[target.{name}]\nkind = "rds"\nversion = "18"\ninstance = "db.{instance}"\nstorage = "{storage}"\n'
    for name, instance, storage in (
        ("two", "m7g.2xlarge", "20GB"),
        ("large", "m7g.large", "20GB"),
        ("one", "m7g.xlarge", "20GB"),
        ("more", "m7g.xlarge", "40GB"),
        ("r", "r7g.large", "20GB"),
        ("metal", "m7g.metal", "20GB"),
    )
)
RENTED = small_plan(*LOAD).replace('[target.pg18]\nkind = "embedded"\nversion = "18"\n', RENTED) + SEARCH


def trials(target: str, *p99_ms: float, served: Sequence[int] = (), failed: bool = False) -> list[TrialRecord]:
    return [
        record(
            number,
            target,
            Point(clients=4, rate=100, scale=1),
            p99_ms=p99,
            served=served[number - 1] if served else 1000,
            outcome=Outcome.FAILED if failed else Outcome.FINISHED,
        )
        for number, p99 in enumerate(p99_ms, start=1)
    ]


def searched(plan: Plan, p99_ms: Mapping[str, Sequence[float]]) -> tuple[CheapestSearch, list[str]]:
    """Run a search whose trials of a target have these p99; return its end, and the targets in order."""
    records: list[TrialRecord] = []
    order: list[str] = []
    while True:
        search = CheapestSearch.from_records(plan, present(plan.price), records)
        target = search.next()
        if target is None:
            return search, order
        assert target in search.open()
        order.append(target)
        records += trials(target, *p99_ms[target], failed=not p99_ms[target][0])


# ---- the plan ----


def test_a_plan_of_one_promise_is_valid_and_has_families_of_rented_targets(tmp_path: Path) -> None:
    plan = load(tmp_path, PLAN)
    assert plan.trial.repeats == 3
    assert planned_trials(plan) == []
    assert trial_count(plan, plan.points()) == 15
    (line,) = search_lines(plan)
    assert line.startswith(
        "searches 5 targets for the cheapest target that keeps 100 transactions per second at p99 < 10ms; 3 trials per"
    )
    assert families_of(load(tmp_path, RENTED)) == [["large", "one", "two"], ["more"], ["r"], ["metal"]]
    # the plan's own families come first, and take their members
    named = RENTED + 'families = [["one", "more"]]\n'
    assert families_of(load(tmp_path, named)) == [["one", "more"], ["large", "two"], ["r"], ["metal"]]


def test_a_plan_without_one_promise_or_prices_is_refused(tmp_path: Path) -> None:
    for text, field, message in (
        (PLAN.replace("rate = 100\n", ""), "sweep.rate", "lacks the promised load"),
        (PLAN.replace("rate = 100\n", "rate = [100, 200]\n"), "sweep", "has 2 points, but a promise is one point"),
        (PLAN.replace('latency = "p99 < 10ms"\n', ""), "search", "lacks the latency target"),
        (PLAN.replace("[price.target.l]\nhourly = [{ amount = 4 }]\n", ""), "target.l", "has no price"),
        (PLAN.replace('"m", "l"]', '"m", "xl"]'), "search.families[0][2]", "target xl does not exist"),
        (PLAN.replace('"m", "l"]', '"m"], ["m"]'), "search.families[1][0]", "is in a family already"),
        (PLAN.replace('[trial]\n', "[trial]\nrepeats = 2\n"), "trial.repeats", "too few trials"),
        (PLAN.replace('[trial]\n', '[trial]\nrepeats = "6..9"\n'), "trial.repeats", "no range of repeats"),
        (
            PLAN.replace('"cheapest"', '"capacity"').replace("rate = 100", "rate = [1, 9]"),
            "search.families",
            'is valid only with find = "cheapest"',
        ),
        (RENTED.replace('"20GB"\n', '"20GB"\ninstead = ["db.m7g.xlarge"]\n', 1), "target.two.instead", "other than"),
        (
            RENTED + '[target.mine]\nkind = "dsn"\ndsn = "host=db"\n' + PRICE
            + "".join(f"[price.target.{name}]\n" for name in ("two", "large", "one", "more", "r", "metal")),
            "target.mine",
            "has no price",
        ),
    ):  # fmt: skip
        assert refuse(tmp_path, text, field, message).hint


# ---- what the trials of a target show ----


def test_intervals_decide() -> None:
    for p99_ms, served, verdict, words in (
        ((5, 5.5, 6), (), Verdict.KEPT, "p99 5.48 ms (95 % interval 4.37 to 6.88 ms), at least 31 % below the limit"),
        ((20, 21, 22), (), Verdict.FAILED, "at least 86 % above the limit"),
        ((8, 9, 12), (), Verdict.UNDECIDED, "p99 9.52 ms (95 % interval 5.67 to 16.0 ms), which includes the limit"),
        # fast answers to too few transactions
        ((5, 5, 5), (700, 720, 740), Verdict.FAILED, "67.0 to 77.0 % of the transactions due succeeded"),
        ((5, 5, 5), (1000, 990, 960), Verdict.UNDECIDED, "93.2 to 100 % of the transactions due succeeded"),
        # both miss: the share decides, as the latency counts only what succeeded
        ((20, 21, 22), (700, 720, 740), Verdict.FAILED, "67.0 to 77.0 % of the transactions due succeeded"),
    ):
        found = present(summarise_trials(trials("s", *p99_ms, served=served), "p99 < 10ms", ["tpcb-like"], 3))
        assert (found.verdict, found.trials) == (verdict, 3)
        assert words in str(found.deciding_figure())


def test_each_script_must_keep_the_promise_and_a_failed_trial_decides_nothing() -> None:
    own = trials("s", 5, 5, 5)
    scripts = ["tpcb-like", "select-only@9"]
    # the sample has a p99 of 8 ms and of 2 ms by script
    kept = present(summarise_trials(own, {"tpcb-like": "p99 < 10ms", "select-only": "p99 < 3ms"}, scripts, 3))
    assert kept.verdict is Verdict.KEPT
    assert present(kept.latency).limited.limit == 10e6
    failed = present(summarise_trials(own, {"tpcb-like": "p99 < 10ms", "select-only": "p99 < 1ms"}, scripts, 3))
    assert failed.verdict is Verdict.FAILED
    assert present(failed.latency).limited.limit == 1e6
    assert summarise_trials(trials("s", 5, 5), "p99 < 10ms", [], 3) is None
    found = present(summarise_trials(trials("s", 50, failed=True), "p99 < 10ms", [], 3))
    assert (found.verdict, found.trials) == (Verdict.UNMEASURED, 1)
    assert str(found.deciding_figure()) == "a trial failed: failed"


# ---- the answer ----

FAST, SLOW, BETWEEN, BROKEN = (5, 5.2, 5.4), (30, 31, 33), (8, 9, 12), (0,)
KEEPS = "100 transactions a second at p99 < 10ms"


def test_the_answer_names_the_margin_the_next_cheaper_and_ties(tmp_path: Path) -> None:
    search, order = searched(load(tmp_path, PLAN), {"s": SLOW, "m": FAST, "tie": FAST})
    assert order == ["m", "s"]
    found = search.record()
    assert (found.target, found.kept, found.trials, found.currency) == ("m", True, 6, "EUR")
    assert found.words == (
        f"the cheapest target that keeps {KEEPS} is m, at 2.00 EUR an hour: p99 5.20 ms "
        "(95 % interval 4.72 to 5.72 ms), at least 43 % below the limit; "
        "s, the next cheaper at 1.00 EUR, does not keep the promise: p99 31.3 ms (95 % interval 27.8 to 35.3 ms), at "
        "least 180 % above the limit; as cheap, but not decided: tie"
    )
    assert "; ".join(str(part.message) for part in found.messages) == found.words
    by_target = {each.target: each for each in found.targets}
    assert list(by_target) == ["s", "m", "tie", "other", "l"]
    assert [each.verdict for each in found.targets] == ["failed", "kept", "untried", "untried", "untried"]
    assert str(by_target["tie"].why.message) == "not measured: it costs as much as m"
    assert str(by_target["l"].why.message) == "not measured: it costs more than m"
    assert present(by_target["m"].latency_ns) == pytest.approx(5.197e6, rel=1e-3)
    assert (by_target["m"].limit_ns, by_target["m"].served) == (10e6, 1)


def test_targets_that_were_not_decided_and_the_nearest_to_the_promise_are_named(tmp_path: Path) -> None:
    search, order = searched(load(tmp_path, PLAN), {"s": BROKEN, "m": BETWEEN, "l": FAST, "tie": SLOW, "other": FAST})
    assert order == ["m", "s", "tie", "other"]
    found = search.record()
    assert (found.target, found.kept) == ("other", True)
    assert found.words.endswith("; cheaper, but not decided: s, m")
    assert [each.verdict for each in found.targets] == ["unmeasured", "undecided", "failed", "kept", "untried"]
    plan = load(tmp_path, PLAN)
    slower = dict.fromkeys(PRICES, SLOW) | {"l": (20, 21, 22)}
    search, order = searched(plan, slower)
    # s is smaller than m, which fails
    assert order == ["m", "tie", "other", "l"]
    found = search.record()
    assert (found.target, found.kept) == ("l", False)
    assert found.words.startswith(f"no target keeps {KEEPS}; the nearest is l, at 4.00 EUR")
    assert str(found.targets[0].why.message) == "not measured: it is smaller than m, which fails"
    words = searched(plan, slower | {"other": BETWEEN})[0].record().words
    assert words.startswith(f"no target is shown to keep {KEEPS}; the nearest is other")
    assert words.endswith("; not decided: other")
    assert searched(plan, dict.fromkeys(PRICES, BROKEN))[0].record().words == (
        f"no target is shown to keep {KEEPS}; the nearest is l, at 4.00 EUR an hour: a trial failed: failed; "
        "not decided: s, m, tie, other, l"
    )
