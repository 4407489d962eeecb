"""A search for settings: proposals, stages, the space on a server, and simulated servers with noise."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import pytest
from simulations.settings import SPACE, flat, hill, place, random_search, simulate

from pgdyno.analyse.comparison import ALL_POINTS, PointComparison, Verdict
from pgdyno.analyse.pairs import Metric
from pgdyno.experiment.search.settings.proposals import QUASI_RANDOM, RESTART_GROUP, Proposals
from pgdyno.experiment.search.settings.server_space import (
    ServerSetting,
    SpaceProblem,
    attached_problems,
    searched_settings,
)
from pgdyno.experiment.search.settings.settings_result import (
    Goal,
    best_seen,
    best_words,
    configuration,
    found_messages,
    search_record,
)
from pgdyno.experiment.search.settings.stages import Asked, Best, Found, Line, Rules, Seen, Stage, Untested, search
from pgdyno.plan.sweeps.settings_space import Span, read_choice, read_over
from pgdyno.records import Point

TPS = Goal(Metric.TPS)
RULES = Rules(Metric.TPS, 6, 14)
POINT = PointComparison(ALL_POINTS, 6, 1.0, 0.9, None, Verdict.SLOWER, None, None)
ROUND_SIZES = [
    f"{size}{unit}" for unit in ("MB", "GB") for size in (1, 2, 3, 4, 6, 8, 128, 192, 256, 384, 512, 768, 1536)
]
SHARED = ServerSetting("postmaster", "integer", "8kB", "16", "1073741823", None)
COST = ServerSetting("user", "real", None, "0", "1.79769e+308", None)
JIT = ServerSetting("user", "bool", None, None, None, None)
METHOD = ServerSetting("sighup", "enum", None, None, None, ["fsync", "fdatasync"])
INTERNAL = ServerSetting("internal", "integer", None, "8192", "8192", None)
KNOWN = {
    "shared_buffers": SHARED, "random_page_cost": COST, "jit": JIT, "wal_sync_method": METHOD, "block_size": INTERNAL,
}  # fmt: skip


def test_a_range_is_read_in_the_smaller_of_its_units_and_no_space_is_refused() -> None:
    assert read_choice("128MB..8GB log") == Span(Decimal(128), Decimal(8192), "MB", is_log=True)
    assert read_choice("1..1000 log") == Span(Decimal(1), Decimal(1000), "", is_log=True)
    assert read_choice("1..4") == Span(Decimal(1), Decimal(4), "", is_log=False)
    assert read_choice("1..8GB") == Span(Decimal(1), Decimal(8), "GB", is_log=False)
    assert read_over({"jit": [True, False], "auto_explain": {"log_min_duration": "1..9"}}) == {
        "jit": ["on", "off"],
        "auto_explain.log_min_duration": "1..9",
    }
    for text in ("8GB..128MB", "1..", "1MB..2s", "0..4 log", "3", "1..4 linear", "1XB..2XB", ["on"], []):
        with pytest.raises(ValueError, match="; "):
            read_choice(text)


def test_the_server_refuses_values_that_it_cannot_have() -> None:
    for over, words in (
        ({"nonsense": "1..2"}, "no such setting"),
        ({"block_size": "1..2"}, "cannot be set"),
        ({"shared_buffers": "128MB..64GB"}, "128MB..64GB exceeds the memory of the machine, 4.0 GiB"),
        ({"shared_buffers": "1kB..1GB"}, "outside the server's range 16..1073741823 x 8kB"),
        ({"shared_buffers": "1s..2s"}, "is not the right unit"),
        ({"shared_buffers": "0.5GB..2GB log"}, "0.5GB..2GB log has a fraction"),
        ({"shared_buffers": ["128MB", "64GB"]}, "64GB exceeds the memory of the machine, 4.0 GiB"),
        ({"shared_buffers": ["1kB", "128MB"]}, "1kB is outside the server's range 16..1073741823 x 8kB"),
        ({"shared_buffers": ["128MB", "many"]}, "many is not a number"),
        ({"random_page_cost": "1MB..2MB"}, "without a unit"),
        ({"random_page_cost": "-1..2"}, "outside the server's range"),
        ({"random_page_cost": ["-1", "2.5"]}, "-1 is outside the server's range"),
        ({"jit": ["off", "maybe"]}, "maybe is not one of its values"),
        ({"jit": "0..1"}, "is of type bool"),
        ({"wal_sync_method": ["fsync", "never"]}, "never is not one of its values"),
    ):
        (problem,) = searched_settings(over, KNOWN, 4 << 30, by_session=False)
        assert isinstance(problem, SpaceProblem)
        assert words in problem.message
        assert problem.field == f"search.over.{next(iter(over))}"
        assert problem.hint


def test_problems_of_a_space_are_reported_together_with_those_of_servers_of_others() -> None:
    assert len(searched_settings({"a": "1..2", "b": "1..2"}, {}, None, by_session=False)) == 2
    over = {"random_page_cost": "1..4", "shared_buffers": "1GB..2GB", "wal_sync_method": ["fsync", "fdatasync"]}
    problems = searched_settings(over, KNOWN, None, by_session=True)
    assert [each.field for each in problems if isinstance(each, SpaceProblem)] == [
        "search.over.shared_buffers",
        "search.over.wal_sync_method",
    ]
    command = ServerSetting("sighup", "string", None, None, None, None)
    known = {"shared_buffers": SHARED, "archive_command": command, "wal_sync_method": METHOD}
    assert [each.field for each in attached_problems(known, restarts=False)] == [
        "search.over.shared_buffers",
        "search.over.archive_command",
    ]
    assert [each.field for each in attached_problems(known, restarts=True)] == ["search.over.archive_command"]


def proposals(seed: int, count: int) -> list[dict[str, str]]:
    source, found = Proposals(SPACE, seed), []
    for number in range(count):
        found.append(source.ask())
        source.tell(-float(number), 0.0)
    return found


def test_first_proposals_cover_ranges_evenly_repeat_with_their_seed_and_seldom_restart() -> None:
    assert proposals(3, QUASI_RANDOM + 6) == proposals(3, QUASI_RANDOM + 6)
    assert proposals(3, 4) != proposals(4, 4)
    for seed in range(12):
        first = proposals(seed, QUASI_RANDOM)
        for of in SPACE:
            at = [place(of, each[of.name]) for each in first]
            # a setting that needs a restart has three values, of which no two are in the same place
            assert min(at) < 0.5 < max(at), (of.name, at)
            assert max(at) - min(at) > 0.25, (of.name, at)
    # a setting that needs a restart changes once per group
    values = [each["shared_buffers"] for each in proposals(1, 6 * RESTART_GROUP)]
    assert sum(one != other for one, other in pairwise(values)) <= 5
    assert len(set(values)) > 1
    # a space of restarts only has no groups
    source, found = Proposals(SPACE[:1], 1), []
    for _ in range(8):
        found.append(source.ask()["shared_buffers"])
        source.tell(0.0, 0.0)
    assert len(set(found)) > 4
    # values are written as in postgresql.conf
    for each in proposals(2, 4):
        assert each["shared_buffers"] in ROUND_SIZES
        assert 1 <= float(each["random_page_cost"]) <= 4
        assert each["jit"] in ("on", "off")


def test_a_setting_is_proposed_only_under_its_condition() -> None:
    when = {"bgwriter_delay": "max_wal_size > 4", "work_mem": 'jit == "off"'}
    source, seen = Proposals(SPACE, 3, when), set[tuple[bool, bool]]()
    for number in range(QUASI_RANDOM + 6):
        each = source.ask()
        source.tell(-float(number), 0.0)
        assert ("bgwriter_delay" in each) == (int(each["max_wal_size"].removesuffix("GB")) > 4)
        assert ("work_mem" in each) == (each["jit"] == "off")
        assert {"shared_buffers", "random_page_cost"} <= each.keys()
        seen |= {("bgwriter_delay" in each, "work_mem" in each)}
    assert len(seen) == 4


class Listed:
    """Proposes two lines, one of which matters."""

    def __init__(self) -> None:
        self.told: list[tuple[float | None, float]] = []

    def ask(self) -> dict[str, str]:
        return {"good": "1", "idle": str(len(self.told))}

    def tell(self, gain: float | None, violation: float) -> None:
        self.told.append((gain, violation))

    def importance(self) -> dict[str, float]:
        return {"good": 0.9, "idle": 0.1}


def run(
    figure: Callable[[Asked, int], Seen], rules: Rules = RULES, proposer: Listed | None = None
) -> tuple[Found, list[Asked]]:
    steps, asked = search(rules, proposer or Listed(), list[Best]().append), []
    step = next(steps)
    while True:
        asked.append(step)
        try:
            step = steps.send(figure(step, len(asked)))
        except StopIteration as end:
            return end.value, asked


def wobbling(factor: float, number: int) -> Seen:
    return Seen(factor * (1 + 0.001 * (number % 3)), 0.0, 1.0)


def by_good(factor: float) -> Callable[[Asked, int], Seen]:
    """A server on which the line `good` has this figure, and every other configuration 100."""
    return lambda step, number: wobbling(factor if "good" in step.settings else 100, number)


def by_any(factor: float, violation: float = 0.0) -> Callable[[Asked, int], Seen]:
    """A server on which all but the starting configuration have this figure, and break a promise so far."""

    def seen(step: Asked, number: int) -> Seen:
        return replace(wobbling(factor, number), violation=violation) if step.settings else wobbling(100, number)

    return seen


FAILED = Seen(None, 1.0, 1.0)


def test_a_line_stays_only_if_a_difference_was_shown() -> None:
    found, asked = run(by_good(110))
    assert found.settings == {"good": "1"}
    assert found.confirmed is not None
    assert found.confirmed.change == pytest.approx(0.1, abs=0.005)
    assert [(line.name, line.is_kept) for line in found.lines] == [("good", True), ("idle", False)]
    assert all(step.pair > 0 for step in asked if step.stage in (Stage.CONFIRM, Stage.REDUCE))
    # the last confirmation is that of the settings that are left
    assert [step.settings for step in asked[-2:]] in ([{"good": "1"}, {}], [{}, {"good": "1"}])
    text = configuration(found, TPS, "run", "words")
    assert "# with this line: +10.0 % throughput, 95 % interval" in text
    assert text.endswith("good = '1'\n")
    assert "idle" not in text
    said, *others = found_messages(found, TPS)
    assert str(said).startswith("confirmed difference from the starting configuration: +10.0 % throughput")
    assert [str(each) for each in others] == [
        "with good = 1",
        "1 line made no detectable difference and is back at its starting value",
    ]
    record = search_record(found, TPS, "pg", Point(clients=1), 3, [said])
    assert [(line.name, line.kept) for line in record.lines] == [("good", True), ("idle", False)]
    assert record.confirmed is not None
    # with a latency as goal, less is better
    assert run(by_good(90), Rules(Metric.P99, 6, 14))[0].settings == {"good": "1"}


def test_what_is_not_better_or_breaks_a_promise_is_no_result() -> None:
    found, asked = run(by_any(90))
    assert (found.settings, found.confirmed) == ({}, None)
    assert all(step.pair == 0 for step in asked)
    # what breaks the promise or fails never wins
    assert run(by_any(200, violation=0.3))[0].settings == {}
    assert run(lambda step, n: FAILED if step.settings else wobbling(100, n))[0].settings == {}

    # a promise that breaks in the confirmation voids it
    def late(step: Asked, number: int) -> Seen:
        return by_any(120, violation=0.1 if step.pair == 3 else 0.0)(step, number)

    found, _ = run(late)
    assert (found.settings, found.broken) == ({}, 1)
    # failed trials give no answer
    # all of them, or those of the starting configuration
    for figure in (lambda *_: FAILED, lambda step, n: wobbling(100, n) if step.settings else FAILED):
        found, _ = run(figure)
        assert found.settings == {}
        (said,) = found_messages(found, TPS)
        assert str(said).startswith("no answer: too few trials finished")


def test_a_search_stays_within_its_budget_and_leaves_lines_untested() -> None:
    for budget_s in (20, 30, 45, 60, 100, 200):
        found, asked = crowded(by_good(110), budget_s)
        assert 0.75 * budget_s <= len(asked) <= budget_s
        assert found.settings
    # one that found nothing explores as long as there is room for a confirmation: two pairs of six trials
    _, asked = crowded(by_any(90), 60)
    assert 60 - 12 - 8 <= len(asked) <= 60
    # and for the fresh server of the pairs
    _, asked = crowded(lambda step, n: replace(by_good(110)(step, n), seconds=20.0 if n == 1 else 1.0), 60)
    assert len(asked) + 2 * 19 <= 60
    # it ends exploring, and leaves lines untested
    found, asked = run(by_good(110), Rules(Metric.TPS, 6, 1_000, budget_s=60))
    assert sum(step.stage is Stage.EXPLORE for step in asked) == 15
    assert found.settings
    assert any(line.without is None and line.is_kept for line in found.lines)
    # which are comments beside those that were confirmed
    found, _ = crowded(by_good(110), 100)
    untested = [Line("good", "1", POINT), Line("idle", "2", untested=Untested.BUDGET)]
    text = configuration(replace(found, settings={"good": "1", "idle": "2"}, lines=untested), TPS, "run", "words")
    assert "\ngood = '1'\n" in text
    assert "# not tested alone: the budget was used up\n# idle = '2'\n" in text


def test_lines_that_are_needed_stay_and_say_why() -> None:
    # as a server that does not start with one of two lines alone
    found, _ = run(lambda step, n: FAILED if step.settings.keys() == {"good"} else by_good(110)(step, n))
    assert found.settings.keys() == {"good", "idle"}
    text = configuration(found, TPS, "run", "words")
    assert "# without this line, a trial failed or broke a promise\nidle = " in text
    assert "# without this line: -9.0 % throughput" in text
    # both lines are needed together, and none alone is better than the starting configuration

    def both(step: Asked, number: int) -> Seen:
        # noise hides the second line's share while it is put back, and not in the confirmation of the other one
        is_good = len(step.settings) == 2 or (step.stage is Stage.REDUCE and "good" in step.settings)
        return wobbling(110 if is_good else 100, number)

    found, _ = run(both)
    assert found.settings.keys() == {"good", "idle"}
    text = configuration(found, TPS, "run", "words")
    assert "throughput, 95 % interval -9.2 to -8.9 %\ngood = " in text
    assert "# no difference shown alone" in text
    assert "\nidle = " in text
    assert "budget" not in text


class Crowded(Listed):
    """Proposes four lines, one of which matters most."""

    def ask(self) -> dict[str, str]:
        return super().ask() | {"one": "1", "two": "2"}

    def importance(self) -> dict[str, float]:
        return {"good": 0.85, "idle": 0.09, "one": 0.04, "two": 0.02}


def test_unimportant_lines_are_put_back_together_or_one_by_one() -> None:
    found, asked = run(by_good(110), RULES, Crowded())
    reduced = [step.settings for step in asked if step.stage is Stage.REDUCE]
    assert {len(each) for each in reduced} == {4, 1}
    assert len(reduced) == 12
    assert [(line.name, line.is_kept, line.is_one_of_several) for line in found.lines] == [
        ("two", False, True), ("one", False, True), ("idle", False, True), ("good", True, False),
    ]  # fmt: skip
    assert found.settings == {"good": "1"}

    # those that are needed are put back one by one, the most important first
    def needed(step: Asked, number: int) -> Seen:
        return wobbling(110 if {"good", "idle"} <= step.settings.keys() else 100, number)

    found, _ = run(needed, RULES, Crowded())
    assert [(line.name, line.is_kept) for line in found.lines] == [
        ("good", True), ("idle", True), ("one", False), ("two", False),
    ]  # fmt: skip


def crowded(figure: Callable[[Asked, int], Seen], budget_s: float) -> tuple[Found, list[Asked]]:
    return run(figure, Rules(Metric.TPS, 6, 1_000, budget_s=budget_s), Crowded())


@pytest.mark.slow
def test_a_search_finds_a_hill_and_claims_nothing_where_settings_do_not_matter() -> None:
    found, before = simulate(hill, seed=1)
    assert found.settings.keys() <= {"shared_buffers", "random_page_cost"}
    assert -hill(found.settings) < max(0.02, -random_search(hill, 1, before))
    assert max(found.importance, key=lambda name: found.importance[name]) in ("shared_buffers", "random_page_cost")
    assert [seed for seed in range(3) if simulate(flat, seed)[0].settings] == []


def test_the_price_of_a_million_falls_as_throughput_rises() -> None:
    found, _ = run(by_good(125))
    goal = Goal(Metric.TPS, hourly=0.36, currency="EUR")
    said, _, price, *_ = found_messages(found, goal)
    assert str(said).startswith("confirmed difference from the starting configuration: -20.0 % price of a million")
    assert str(price) == "a million transactions cost 0.799 EUR instead of 0.999"
    text = configuration(found, goal, "run", "words")
    assert "# with this line: -20.0 % price of a million transactions, 95 % interval" in text
    record = search_record(found, goal, "pg", Point(clients=1), 3, [said])
    assert (record.goal, record.currency) == ("price", "EUR")
    assert record.confirmed is not None
    assert record.confirmed.change == pytest.approx(-0.2, abs=0.005)
    assert record.confirmed.low <= record.confirmed.change <= record.confirmed.high
    best = Best({"good": "1"}, 125.0, 3, 0.02, 100.0)
    assert "not confirmed: 0.800 EUR a million (3 trials" in best_words(best, goal)
    shown = best_seen(best, goal)
    assert shown.figure == pytest.approx(0.8)
    assert shown.start == pytest.approx(1.0)
    assert shown.unit == "EUR a million"


def test_without_a_difference_the_file_has_no_line_and_the_best_so_far_is_not_confirmed() -> None:
    found, _ = run(by_any(100))
    (said,) = found_messages(found, TPS)
    assert "same" in str(said)
    lines = configuration(found, TPS, "run", str(said)).splitlines()
    assert all(line.startswith("#") for line in lines)
    assert search_record(found, TPS, "pg", Point(clients=1), 3, [said]).settings == {}
    # the best so far is shown with its noise
    words = best_words(Best({"jit": "off"}, 1234.5, 3, 0.021), TPS)
    assert words.startswith("best so far, not confirmed: 1,23")
    assert "(3 trials, noise ±2.1 % per trial) with jit = off" in words
