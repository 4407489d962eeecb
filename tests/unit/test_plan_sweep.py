"""Sweeps: expressions, ranges, points, errors in them; the trials of a plan and their order."""

import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, pairwise, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.plan import Plan, load_plan, planned_trials, time_needed_s
from pgdyno.plan.sweeps.expressions import Value, parse_expression, plain_number
from pgdyno.plan.sweeps.order import Order, Place, arm, by_chance, in_order, resolved_order
from pgdyno.plan.sweeps.ranges import MOST_VALUES, expand_range
from pgdyno.plan.trials import trials_in_recorded_order
from pgdyno.records import Point
from pgdyno.run.engine import trial_options
from tests.unit import plan_sample
from tests.unit.plan_sample import problems, the_problem

NAMES: dict[str, Value] = {
    "clients": Fraction(6), "scale": Fraction(100), "protocol": "simple", "settings.work_mem": "4MB",
    "settings.auto_explain.log_min_duration": "10", "variables.range": "50",
}  # fmt: skip


def test_numbers_and_conditions() -> None:
    for text, value in (
        ("clients / 4", Fraction(3, 2)), ("clients // 4", 1), ("clients % 4", 2), ("-clients + 2 * scale - 1", 193),
        ("0.1 * 30", 3), ("max(1, clients / 12)", 1), ("min(clients, scale, 5)", 5), ("round(clients / 4)", 2),
        ("round(clients / 12)", 1), ("round(0.4)", 0), ("variables.range * 2", 100), ("  clients ", 6),
        ("settings.auto_explain.log_min_duration + 1", 11), ("1_000 + 1", 1001), ("-scale // clients", -17),
        ("-scale % clients", 2), ("(scale - 1) / (clients - 3) // 2 * 4 - 2 - 1", 61),
        ("clients / 4 / 3", Fraction(1, 2)),
    ):  # fmt: skip
        assert parse_expression(text).number(NAMES) == value, text
    for text, holds in (
        ("clients > 5 and scale < 101", True), ("clients > 5 and not scale == 100", False),
        ("clients == 6 or clients == 7", True), ("1 < clients <= 6", True), ("1 < clients < 6", False),
        ('protocol == "simple"', True), ("protocol != 'simple'", False), ('settings.work_mem == "4MB"', True),
        ("variables.range == 50", True), ("variables.range >= 51", False),
    ):  # fmt: skip
        assert parse_expression(text).holds(NAMES) is holds, text
    # as people write them
    assert [plain_number(Fraction(text)) for text in ("26", "1/8", "1/3", "-5/2")] == [
        "26", "0.125", "0.3333333333333333", "-2.5",
    ]  # fmt: skip


UNSUPPORTED = [
    "__import__('os')", "open('x')", "clients.__class__.__mro__[0]", "(lambda: 1)()", "[1 for x in y]",
    "max(*clients, 1)", "min(clients, key=scale)", "'a'.b", "1j", "5is 3", "clients << 2", "f'{clients}'",
]  # fmt: skip


def test_malformed_expressions_and_those_without_a_value() -> None:
    for text, message in (
        ("clients /", "is not an expression"),
        ("", "is not an expression"),
        ("2 ** 1000000", "2 ** 1000000 is not supported"),
        *((text, "is not supported") for text in UNSUPPORTED),
        ("max(1)", "max takes two or more numbers"),
        ("round(1, 2)", "round takes one number"),
        ("(" * 300 + "1" + ")" * 300, "too long|is not an expression"),
        ("1 + " * 200 + "1", "too long"),
    ):
        with pytest.raises(ValueError, match=message.replace("*", r"\*").replace("(", r"\(")):
            parse_expression(text)
    for text, message in (
        ("clients / 0", "divides by zero"),
        ("clients % (scale - 100)", "divides by zero"),
        ("clients > 5", "is a condition"),
        ("(clients > 5) + 1", "is a condition"),
        ("settings.work_mem * 2", 'is "4MB", not a number'),
        ("protocol + 1", 'is "simple", not a number'),
        # no float, and more digits than Python prints
        ("clients * 1e308 * 10", "1e\\+308 exceeds 1e30"),
        ("max(clients, 1e400)", "1e309 exceeds 1e30"),
        ("clients" + " * 1e29" * 60, "exceeds 1e30"),
        ("-" * 480 + "clients", "nested too deeply"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_expression(text).number(NAMES)
    for text in ("clients", "clients and scale > 1", "not clients", "clients > 1 or 5"):
        with pytest.raises(ValueError, match="is not a condition"):
            parse_expression(text).holds(NAMES)
    # one that would fill the memory
    with pytest.raises(ValueError, match="not a number"):
        parse_expression("variables.x + 1").number({"variables.x": "1e999999999"})
    expression = parse_expression("max(clients, settings.a.b / variables.c)")
    assert expression.names == {"clients", "settings.a.b", "variables.c"}
    assert not expression.bare
    assert parse_expression("clients").bare


def test_values_of_ranges_and_malformed_ones() -> None:
    for text, values in (
        ("1..4", "1 2 3 4"), (" 2 .. 10  step  4 ", "2 6 10"), ("2..9 step 4", "2 6"), ("7..7", "7"),
        ("1..16 doubling", "1 2 4 8 16"), ("3..20 doubling", "3 6 12"), ("0..1 step 0.25", "0 0.25 0.5 0.75 1"),
        ("1GB..4GB doubling", "1GB 2GB 4GB"), ("1..3GB", "1GB 2GB 3GB"),
        ("64MB..256MB step 64", "64MB 128MB 192MB 256MB"), ("64MB..192MB step 64MB", "64MB 128MB 192MB"),
        ("0..0.6 step 0.1", "0 0.1 0.2 0.3 0.4 0.5 0.6"), ("0.05..0.2 step 0.05", "0.05 0.1 0.15 0.2"),
    ):  # fmt: skip
        assert expand_range(text) == values.split()
    assert len(expand_range(f"1..{MOST_VALUES}")) == MOST_VALUES
    for text, message in (
        ("1..", "is not a range; write"), ("..8", "is not a range"), ("1...8", "is not a range"),
        ("1..8 step", "is not a range"), ("1..8 stepp 2", "is not a range"), ("-1..8", "is not a range"),
        ("1..8 step 0", "a step of 0"), ("8..1", "ends before it begins; write 1..8"),
        ("0..8 doubling", "never leaves 0"), ("1MB..8GB", "mixes units; write both ends in MB"),
        ("1MB..8MB step 1kB", "mixes units"), ("1..1000000", "1,000,000 values"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message.replace(".", r"\.")):
            expand_range(text)


HEAD = """\
name = "mine"
target.pg18 = { kind = "embedded", version = "18" }
workload = { scripts = ["select-only"], scale = 10, variables = { range = 50 } }
trial.duration = "10s"
[sweep]
"""
FIRST = HEAD.count("\n") + 1
"""Line of the first key of a sweep."""


def load(folder: Path, sweep: str, *overrides: str) -> Plan:
    return plan_sample.load(folder, HEAD + sweep + "\n", *overrides)


def points(folder: Path, sweep: str, *overrides: str) -> list[Point]:
    return load(folder, sweep, *overrides).points()


def test_points_of_clients_that_connect_for_each_transaction_and_beside_the_product(tmp_path: Path) -> None:
    written = 'points = [{ clients = 64, scale = 5 }, { clients = 8, settings.work_mem = "1MB", "variables.x" = 2 }]'
    found = points(tmp_path, f'clients = [1, 2]\nworkers = "clients"\n{written}')
    assert [(point.clients, point.workers, point.scale) for point in found] == [
        (1, 1, 10), (2, 2, 10), (64, 64, 5), (8, 8, 10),
    ]  # fmt: skip
    assert (found[3].settings, found[3].variables) == ({"work_mem": "1MB"}, {"x": "2"})
    alone = points(tmp_path, written)
    assert [(point.clients, point.workers) for point in alone] == [(64, None), (8, None)]
    plan = load(
        tmp_path,
        'clients = 4\nscale = [1, 2]\nconnect = ["once", "each"]\nexclude = "connect == \'each\' and scale > 1"',
    )
    assert [(each.scale, each.connect) for each in plan.points()] == [(1, "once"), (1, "each"), (2, "once")]
    options = [trial_options(plan, each, 1, tmp_path) for each in plan.points()]
    assert ["--connect" in each for each in options] == [False, True, False]


def test_every_parameter_at_once(tmp_path: Path) -> None:
    found = points(
        tmp_path,
        'clients = ["2..6 step 2", 64]\nworkers = "max(1, clients // 4)"\nscale = [1, 10]\nrate = [100, 0.5]\n'
        'protocol = "prepared"\n"settings.work_mem" = ["4MB", 8]\nvariables.range = "range_is_text"\n'
        'exclude = ["clients > 50 and scale < 10", \'settings.work_mem == "8" and rate < 1\']',
    )
    assert len(found) == 4 * 2 * 2 * 2 - 4 - 8 + 1
    first, last = found[0], found[-1]
    assert first == Point(
        clients=2, workers=1, protocol="prepared", scale=1, rate=100.0, settings={"work_mem": "4MB"},
        variables={"range": "range_is_text"},
    )  # fmt: skip
    assert (last.clients, last.workers, last.rate, last.settings) == (64, 16, 100.0, {"work_mem": "8"})


def test_all_forms_of_a_setting_mean_the_same_also_by_override(tmp_path: Path) -> None:
    for form in (
        'settings.work_mem = ["4MB", "8MB"]\nsettings.auto_explain.log_min_duration = 10',
        '"settings.work_mem" = ["4MB", "8MB"]\n"settings.auto_explain.log_min_duration" = 10',
        'settings = { work_mem = ["4MB", "8MB"], "auto_explain.log_min_duration" = 10 }',
        '[sweep.settings]\nwork_mem = "4MB..8MB doubling"\nauto_explain.log_min_duration = 10',
    ):
        found = points(tmp_path, f"clients = 1\n{form}")
        assert [point.settings for point in found] == [
            {"auto_explain.log_min_duration": "10", "work_mem": value} for value in ("4MB", "8MB")
        ]
    sweep = 'clients = 1\nsettings.work_mem = "4MB"'
    for override in ("sweep.settings.work_mem=8MB", 'sweep."settings.work_mem"=8MB'):
        assert [point.settings for point in points(tmp_path, sweep, override)] == [{"work_mem": "8MB"}]
    assert the_problem(tmp_path, HEAD + sweep, 'sweep."settings.port"=1').line is None


def test_expressions_need_a_parameter_in_settings_and_are_rounded_down_elsewhere(tmp_path: Path) -> None:
    (found,) = points(
        tmp_path,
        'clients = 8\nsettings.max_connections = "clients + 10"\nsettings.lc_messages = "scale"\n'
        'settings.search_path = "a, b"\nvariables.rows = "variables.range * scale / 3"\nvariables.sum = "1 + 1"',
    )
    assert found.settings == {"max_connections": "18", "search_path": "a, b", "lc_messages": "scale"}
    assert found.variables == {"rows": "166.66666666666666", "sum": "1 + 1"}
    # others are rounded down
    halves = points(tmp_path, 'clients = [2, 3, 5]\nworkers = "clients / 2"')
    assert [point.workers for point in halves] == [1, 1, 2]
    (one,) = points(tmp_path, 'scale = 2\nclients = "scale * 8"\nworkers = "clients / 4"\nrate = "workers * 0.1"')
    assert (one.clients, one.workers, one.rate) == (16, 4, 0.4)
    # what is excluded may be invalid
    kept = points(tmp_path, 'clients = [1, 2]\nworkers = "clients / 2"\nexclude = "clients == 1"')
    assert [point.clients for point in kept] == [2]


WRONG = [
    # sweep, path, line within the sweep, part of the message, part of the hint
    ('clients = "2..x"', "clients", 1, '"2..x" is not a range', "2..160 step 2"),
    ('clients = [1,\n"8..2"]', "clients[1]", 2, "ends before it begins", "2..8"),
    ('clients = "1GB..4GB"', "clients", 1, "has a unit", "leave the unit out"),
    ('clients = "0..4"', "clients", 1, "must be at least 1", None),
    ('clients = "1..2 step 0.5"', "clients", 1, "must be a whole number, not", None),
    ('clients = "1-8"', "clients", 1, "names no parameter", '"1..8"'),
    ("clients = 1\nexclude = 'clients = 1'", "exclude", 2, "is not a condition", "write =="),
    ("points = { clients = 1 }", "points", 1, "must be a list", None),
    ("clients = 1\nsettings = 5", "settings", 2, "must be a table", None),
    ('clients = "four"', "clients", 1, "parameter four does not exist", "parameters: clients"),
    ('clients = "1 +"', "clients", 1, "is not an expression", "clients / 2"),
    ('clients = 4\nworkers = "client / 2"', "workers", 2, "parameter client does not exist", "did you mean clients?"),
    ('clients = [1, 4]\nworkers = "clients / 2"', "workers", 2, "rounded down 0 for clients = 1", "max(1, clients"),
    ('clients = [1, 4]\nworkers = "8 // (clients - 1)"', "workers", 2, "divides by zero", None),
    ('clients = 2\nworkers = "clients * 2"', "workers", 2, "4 workers are more than 2 clients", "min(clients"),
    ('clients = "clients + 1"', "clients", 1, "depends on itself: clients → clients", "a constant value"),
    ('clients = 1\nscale = "workers * 2"', "scale", 2, "workers is unknown", "add workers to the sweep"),
    ('clients = 1\nscale = "variables.rang"', "scale", 2, "variables.rang is unknown", "or the workload"),
    ('clients = 1\nrate = "variables.x"\nvariables.x = "abc"', "rate", 2, 'is "abc", not a number', None),
    ("clients = 1\nrate = 0", "rate", 2, "must be more than 0", None),
    ("clients = 1\nrate = 1e10", "rate", 2, "exceed the limit", None),
    ('clients = 1\nrate = "scale - 10"', "rate", 2, "comes to 0 for scale = 10", None),
    ('clients = 1\nrate = "scale * 1e8"', "rate", 2, "comes to 1e+09 for scale = 10", "less than 1e+09"),
    ('clients = 1\n"settings.port" = 1', "settings.port", 2, "chooses a free one", "remove"),
    ("clients = 1\nsettings.Port = [1, 2]", "settings.Port", 2, "chooses a free one", "remove"),
    ('clients = 1\nsettings.work_mem = ["1MB",\n"1MB"]', "settings.work_mem[1]", 3, "1MB is listed twice", "repeats"),
    (
        'clients = 1\nsettings.work_mem = ["4MB",\n"4096kB"]',
        "settings.work_mem[1]", 3, "4096kB is the same value as 4MB", "repeats",
    ),
    ('clients = 1\nsettings.work_mem = "4M"', "settings.work_mem", 2, "no unit of PostgreSQL", "write 4MB"),
    ('clients = 1\nsettings.shared_buffers = "25%"', "settings.shared_buffers", 2, "no unit", "512MB"),
    ('clients = 1\nsettings.checkpoint_timeout = "5m"', "settings.checkpoint_timeout", 2, "no unit", "write 5min"),
    ('clients = 1\nsettings.max_wal_size = "big"', "settings.max_wal_size", 2, "not a number", "512MB"),
    (
        "clients = 1\nsettings.effective_io_concurency = 4",
        "settings.effective_io_concurency", 2, "is no setting of PostgreSQL", "effective_io_concurrency?",
    ),
    ('clients = 1\nsettings.a = "1"\n"settings.a" = "2"', "settings.a", 3, "given twice", "remove one of them"),
    ('clients = 1\nsettings.max_connections = "client + 9"', "settings.max_connections", 2, "not exist", "clients"),
    ("clients = 90\nsettings.max_connections = [99, 50]", "clients", 1, "max_connections is 50", None),
    ('clients = 1\nvariables."a-b" = 1', "variables.a-b", 2, "not a valid name", "letters"),
    ('clients = 1\nvariables.a = ""', "variables.a", 2, "cannot be empty", None),
    ('clients = 1\n"setings.work_mem" = 1', '"setings.work_mem"', 2, "unknown key", "did you mean settings.work_mem?"),
    ("clients = 1\nshared_buffers = 1", "shared_buffers", 2, "unknown key", "settings.shared_buffers"),
    ('clients = ["1..4", 3]', "clients[1]", 1, "3 is listed twice", None),
    ('clients = 4\nworkers = ["clients / 2", 2]', "workers[1]", 2, "equals another item", None),
    ('clients = 1\nexclude = ["clients >"]', "exclude[0]", 2, "is not an expression", None),
    ('clients = 1\nexclude = ["clients"]', "exclude[0]", 2, "is not a condition", "clients > 64"),
    ('clients = 1\nexclude = ["clients > 1 and scal < 3"]', "exclude[0]", 2, "parameter scal does not exist", "scale"),
    ('clients = [1, 2]\nexclude = "clients > 0"', "exclude", 2, "leaves no point to measure", None),
    ("workers = 1", "clients", 0, "is missing", "clients = [1, 4, 16]"),
    ("points = []", "clients", 0, "is missing", None),
    ("clients = 1\npoints = [{ clients = 1 }]", "points[0]", 2, "is measured already", "repeats"),
    ("clients = 1\npoints = [{ clents = 2 }]", "points[0].clents", 2, "unknown key", "did you mean clients?"),
    ("clients = 1\npoints = [{ clients = 0 }]", "points[0].clients", 2, "at least 1", None),
    ('clients = 1\npoints = [{ clients = "1..4" }]', "points[0].clients", 2, "one value, not a range", None),
    ("clients = 1\nscale = [1, 2]\npoints = [{ clients = 2 }]", "points[0]", 3, "lacks scale", "scale = 4"),
    ("points = [{ scale = 2 }]", "points[0]", 1, "lacks clients, and the sweep has none", "clients = 4"),
    ("clients = 1\npoints = [{ clients = 3 }]\nexclude = 'clients == 3'", "points[0]", 2, "is excluded by", None),
    ('points = [{ clients = 3, "settings.port" = 1 }]', "points[0].settings.port", 1, "free one", None),
    ("points = [{ clients = 3, workers = 4 }]", "points[0].workers", 1, "4 workers are more", None),
    ('clients = "1..200"\nscale = "1..200"', "", 0, "has 40,000 combinations", "reduce the sweep"),
]  # fmt: skip


def test_errors_in_sweeps_are_reported_at_once(tmp_path: Path) -> None:
    for sweep, path, line, message, hint in WRONG:
        problem = the_problem(tmp_path, HEAD + sweep)
        assert (problem.path, problem.line) == (f"sweep.{path}".rstrip("."), FIRST + line - 1)
        assert message in problem.message
        assert (hint or "") in (problem.hint or "")
    sweep = (
        'clients = [1, 4]\nworkers = "clients / 2"\nrate = "nothing"\nsettings.port = 1\n'
        'points = [{ clients = "scal" }]\nexclude = ["clents > 3"]'
    )
    assert [(problem.line, problem.path) for problem in problems(tmp_path, HEAD + sweep)] == [
        (FIRST + 1, "sweep.workers"),
        (FIRST + 2, "sweep.rate"),
        (FIRST + 3, "sweep.settings.port"),
        (FIRST + 4, "sweep.points[0].clients"),
    ]
    # rates and phases exclude each other
    phase = '\n[[phase]]\nname = "a"\nduration = "1s"'
    text = HEAD.replace('trial.duration = "10s"\n', "trial.repeats = 1\n")
    found = problems(tmp_path, f"{text}clients = 1\nrate = 5\npoints = [{{ clients = 2, rate = 3 }}]{phase}")
    assert [problem.path for problem in found] == ["sweep.rate", "sweep.points[0].rate"]
    assert "cannot be combined with phases" in found[0].message


ORDERS: list[Order] = ["interleaved", "randomised", "as-listed"]


def swept(clients: int, scales: int, settings: int) -> list[Point]:
    return [
        Point(clients=each, scale=scale, settings={"work_mem": f"{setting}MB"} if settings else {})
        for scale in range(1, scales + 1)
        for setting in range(max(settings, 1))
        for each in range(1, clients + 1)
    ]


def changes(values: list[object]) -> int:
    return sum(before != after for before, after in pairwise(values))


@dataclass(frozen=True)
class SweepInput:
    targets: list[str]
    points: list[Point]
    repeats: int
    seed: int

    def places(self, order: Order) -> list[Place]:
        return in_order(order, self.targets, self.points, self.repeats, self.seed)

    @property
    def compares(self) -> bool:
        return resolved_order(None, self.targets, self.points) == "interleaved"


plans = st.builds(
    SweepInput,
    st.integers(1, 3).map(lambda count: ["a", "b", "c"][:count]),
    st.builds(swept, st.integers(1, 4), st.integers(1, 3), st.integers(0, 3)),
    st.integers(1, 5),
    st.integers(0, 2**31),
)


@given(order=st.sampled_from(ORDERS), plan=plans)
def test_every_order_has_each_trial_once_in_growing_blocks(order: Order, plan: SweepInput) -> None:
    places = plan.places(order)
    keys = [(at.target, at.point.model_dump_json(), at.repeat) for at in places]
    assert len(keys) == len(set(keys)) == len(plan.targets) * len(plan.points) * plan.repeats
    assert {at.repeat for at in places} == set(range(1, plan.repeats + 1))
    assert places == plan.places(order)
    assert places[0].block == 1
    assert all(after.block - before.block in (0, 1) for before, after in pairwise(places))
    if not by_chance(order, plan.targets, plan.points):
        assert places == in_order(order, plan.targets, plan.points, plan.repeats, plan.seed + 1)


@given(order=st.sampled_from(["interleaved", "randomised"]), plan=plans)
def test_a_dataset_is_loaded_once_a_target_and_blocks_hold_every_arm_once(order: Order, plan: SweepInput) -> None:
    places = plan.places(order)
    scales: list[object] = [at.point.scale for at in places]
    assert changes(scales) == len(set(scales)) - 1 or not plan.compares
    for _, group in groupby(places if plan.compares or order == "randomised" else [], key=lambda at: at.block):
        block = list(group)
        assert len({(at.repeat, at.point.model_dump_json(exclude={"settings"})) for at in block}) == 1
        assert len({arm(at.target, at.point) for at in block}) == len(block)


@pytest.mark.parametrize("settings", [2, 3])
def test_interleaved_arms_are_drawn_for_each_repeat(settings: int) -> None:
    """Whatever the period of a disturbance, it meets each arm about as often: no arm has a fixed place."""
    places = in_order("interleaved", ["a"], swept(1, 1, settings), 1_000, 1)
    for period in range(2, 9):
        met = Counter(arm(at.target, at.point) for at in places[::period])
        share = len(places[::period]) / settings
        assert all(abs(count - share) < 4 * share**0.5 for count in met.values())


@pytest.mark.parametrize(("order", "settings"), [("interleaved", 2), ("interleaved", 3), ("randomised", 2)])
def test_seeds_matter_where_there_is_chance(order: Order, settings: int) -> None:
    assert len({str(in_order(order, ["a"], swept(3, 1, settings), 4, seed)) for seed in range(10)}) > 5


def test_interleaved_repeats_go_through_all_points_that_can_be_interleaved() -> None:
    places = in_order("interleaved", ["a", "b"], swept(2, 1, 0), 4, 1)
    assert [(at.point.clients, at.repeat, at.block) for at in places[::2]] == [
        (1, 1, 1), (2, 1, 2), (1, 2, 3), (2, 2, 4), (1, 3, 5), (2, 3, 6), (1, 4, 7), (2, 4, 8),
    ]  # fmt: skip
    listed = in_order("as-listed", ["a"], swept(3, 2, 2), 1, 1)
    assert changes([arm(at.target, at.point) for at in listed]) == 3
    alone = [Point(clients=each, settings={"max_connections": str(each)}) for each in (1, 2, 3)]
    assert resolved_order(None, ["a"], alone) == "as-listed"
    assert resolved_order(None, ["a", "b"], alone) == "interleaved"
    assert resolved_order("randomised", ["a"], alone) == "randomised"
    assert in_order("interleaved", ["a"], alone, 2, 1) == in_order("as-listed", ["a"], alone, 2, 1)


def plan(sweep: dict[str, Any], *, targets: tuple[str, ...] = ("pg18",), **trial: object) -> Plan:
    return Plan.model_validate(
        {
            "name": "p",
            "target": {name: {"kind": "embedded", "version": "18"} for name in targets},
            "workload": {"scripts": ["select-only"], "scale": 10},
            "sweep": sweep,
            "trial": trial or {"duration": "10s"},
        }
    )


def test_slugs_name_in_order_what_varies_and_the_rest_has_defaults() -> None:
    sweep = {"clients": [2, 4], "workers": [1, 2], "protocol": ["simple", "prepared"], "scale": [1, 10]}
    trials = planned_trials(plan(sweep, targets=("a", "b"), duration="1s", repeats=2, order="as-listed"))
    assert [trial.slug for trial in (*trials[:5], trials[8], trials[16], trials[32])] == [
        "0001-a-c2-w1-simple-s1", "0002-a-c4-w1-simple-s1", "0003-a-c2-w2-simple-s1", "0004-a-c4-w2-simple-s1",
        "0005-a-c2-w1-prepared-s1", "0009-a-c2-w1-simple-s10", "0017-b-c2-w1-simple-s1", "0033-a-c2-w1-simple-s1",
    ]  # fmt: skip
    assert [trial.repeat for trial in trials] == [1] * 32 + [2] * 32
    assert [trial.number for trial in trials] == list(range(1, 65))
    assert len({trial.slug for trial in trials}) == 64
    # they fit every file system
    (longest, *_) = planned_trials(plan({**sweep, "scale": [1, 2**31 - 1]}, targets=("b" * 64,), duration="1s"))
    assert re.fullmatch("[A-Za-z0-9_-]{1,240}", longest.slug)
    one, other = planned_trials(plan({"clients": [1, 8], "workers": 1, "protocol": "prepared", "scale": 5}))
    assert (one.slug, other.slug) == ("0001-pg18-c1", "0002-pg18-c8")
    assert (one.point.workers, one.point.protocol, one.point.scale) == (1, "prepared", 5)
    (trial,) = planned_trials(plan({"clients": 3}))
    assert (trial.point.workers, trial.point.protocol, trial.point.scale) == (None, "simple", 10)


def test_the_time_that_is_needed() -> None:
    clients = {"clients": [1, 2, 4]}
    assert time_needed_s(plan(clients, targets=("a", "b"), warmup="500ms", duration="2s", repeats=3)) == 3 * 2 * 3 * 2.5
    assert time_needed_s(plan(clients, transactions=10)) is None
    quick = load_plan("quick").plan
    assert len(planned_trials(quick)) == 18
    assert time_needed_s(quick) == pytest.approx(90)


def test_the_order_of_an_earlier_version_is_kept() -> None:
    """Two arms ran A B B A before their order was drawn."""
    trials = planned_trials(plan({"clients": [1, 2]}, targets=("a", "b"), repeats=2, order="interleaved"), 1)
    slugs = [f"{at:04d}-{arm}-c{clients}" for at, (clients, arm) in enumerate(product((1, 2), "abba"), start=1)]
    ordered = trials_in_recorded_order(trials, slugs)
    assert [trial.slug for trial in ordered] == slugs
    assert [(trial.number, trial.target, trial.repeat) for trial in ordered[:4]] == [
        (1, "a", 1), (2, "b", 1), (3, "b", 2), (4, "a", 2),
    ]  # fmt: skip
    for wrong in (slugs[:-1], [*slugs, "0009-a-c1"], [*slugs[:-1], "0008-a-c3"]):
        with pytest.raises(ValueError, match="of the plan"):
            trials_in_recorded_order(trials, wrong)
