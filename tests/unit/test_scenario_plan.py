"""Groups of clients and steps in a plan: the trials they make, and refusals; `[replica_load]` of earlier plans."""

from pathlib import Path

import pytest

from pgdyno.effect import Effect
from pgdyno.plan import Plan, planned_trials
from pgdyno.plan.checks.targets import Abilities, check_abilities
from pgdyno.plan.output.plan_output import in_each_trial
from pgdyno.plan.scenario.loads import background_groups, delay_s, plan_of_load, steps_s
from pgdyno.plan.workload import effect_of_plan, script_files
from pgdyno.records import Point
from pgdyno.report.plan_toml import plan_toml
from pgdyno.run.engine import background_options, trial_options
from tests.unit.plan_sample import load, loaded, problems, refuse, small_plan

TARGET = small_plan(a="18").partition("[workload]")[0]
GROUPS = """
[[group]]
name = "orders"
scripts = ["simple-update"]
clients = 4
rate = 200
protocol = "prepared"
[[group]]
name = "reports"
scripts = ["select-only"]
begin = "2s"
[[group]]
name = "sleepers"
idle = 50
"""
TRIAL = '[trial]\nduration = "10s"\nwarmup = "1s"\nseed = 1\n'
STEPS = """
[[step]]
name = "fill"
groups = ["orders"]
until = { transactions = 400 }
[[step]]
name = "vacuum"
do = "vacuum"
[[step]]
name = "both"
groups = [{ name = "orders", rate = 50 }, "reports"]
duration = "3s"
result = true
[trial]
seed = 1
"""


def test_each_group_has_a_trial_beside_the_others_with_its_own_load_and_time(tmp_path: Path) -> None:
    plan = load(tmp_path, TARGET + f"{GROUPS}{TRIAL}[sweep.group]\nreports.clients = [0, 2]\nsleepers.idle = 7\n")
    trials = planned_trials(plan)
    assert [(each.place, each.point.group, each.point.clients) for each in trials if each.point.clients != 2] == [
        (1, "orders", 4), (2, "orders", 4),
    ]  # fmt: skip
    assert [each.point.rate for each in trials if each.point.group == "reports"] == [None]
    assert {each.point.groups["sleepers.idle"] for each in trials} == {"7"}
    assert [each.idle for each in background_groups(plan, trials[0].point)] == [7]
    # those of the whole place, which the server must take
    assert sorted(point.planned_clients for point in plan.points()) == [11, 13]
    assert plan.order() == "interleaved"
    explicit = '[sweep]\npoints = [{ "group.reports.clients" = 2 }, { "group.reports.clients" = 5 }]\n'
    plan = load(tmp_path, TARGET + GROUPS + TRIAL + explicit)
    assert [point.groups["reports.clients"] for point in plan.points()] == ["2", "5"]
    # it has its own load and time
    plan = load(tmp_path, TARGET + GROUPS + TRIAL)
    orders, reports = (each.point for each in planned_trials(plan))
    assert (plan_of_load(plan, orders).workload.scripts, delay_s(plan, orders)) == (["simple-update"], 0)
    later = plan_of_load(plan, reports)
    # it begins 2 s after the warm-up of the others, and measures at once
    assert (later.workload.scripts, later.trial.warmup, later.trial.duration, delay_s(plan, reports)) == (
        ["select-only"], 0, 8, 3,
    )  # fmt: skip
    # arrivals may be regular
    for given, option in (("", False), ('arrivals = "regular"\n', True)):
        plan = load(tmp_path, TARGET + GROUPS.replace("rate = 200\n", f"rate = 200\n{given}") + TRIAL)
        options = [trial_options(plan, each.point, 1, tmp_path / "phases.toml") for each in planned_trials(plan)]
        assert ["--arrivals=regular" in each for each in options] == [option, False]


STEPPED = GROUPS.replace('begin = "2s"', "") + STEPS
COMPUTED = 'until = { transactions = "variables.rows / 10" }'
ROWS = "[workload]\nvariables = { rows = 4_030 }\n"


def test_steps_have_their_loads_in_order(tmp_path: Path) -> None:
    plan = load(tmp_path, TARGET + STEPPED)
    trials = planned_trials(plan)
    assert [(each.point.step, each.point.group, each.point.rate) for each in trials] == [
        ("fill", "orders", 200), ("both", "orders", 50), ("both", "reports", None),
    ]  # fmt: skip
    assert {each.place for each in trials} == {1}
    assert plan_of_load(plan, trials[0].point).trial.transactions == 100
    # their ends can depend on variables
    text = TARGET + ROWS + STEPPED.replace("until = { transactions = 400 }", COMPUTED)
    plan = load(tmp_path, f"{text}[sweep]\nvariables.rows = [4_030, 12]\n")
    found = [plan_of_load(plan, each.point).trial.transactions for each in planned_trials(plan)]
    # 4,030 / 10 by 4 clients, rounded down; 12 rows are less than one for each
    assert [each for each in found if each is not None] == [100, 1]
    # at the rate of 200, and of the last step
    assert [round(steps_s(plan, point), 3) for point in plan.points()] == [2.0 + 3, 0.02 + 3]


def test_a_checkpoint_step_needs_the_right_to_it_and_resolved_plans_the_same_trials(tmp_path: Path) -> None:
    text = STEPPED.replace('do = "vacuum"', 'do = "checkpoint"')
    of = loaded(tmp_path, TARGET + f"{text}[reset]\ncheckpoint = false\n")
    for may, paths in ((True, []), (False, ["step[1].do"])):
        able = Abilities(100, may_checkpoint=may, may_reset_statistics=True, may_make_databases=True, is_standby=False)
        assert [each.path for each in check_abilities(of.plan, {"a": able}, of.document, tmp_path)] == paths
    for text in (GROUPS + TRIAL, STEPPED):
        for sweep in ("[sweep.group]\nreports.clients = [1, 2]\n", "[[sweep.points]]\ngroup.reports.clients = 2\n"):
            plan = load(tmp_path, TARGET + text + sweep)
            assert {each.point.groups["reports.clients"] for each in planned_trials(plan)} <= {"1", "2"}
            assert planned_trials(Plan.from_resolved(plan.as_resolved())) == planned_trials(plan)
            assert planned_trials(load(tmp_path, plan_toml(plan.as_resolved()))) == planned_trials(plan)


MAIN = '[workload]\nscripts = ["tpcb-like"]\n[sweep]\nclients = [1, 8]\n'
REPORTS = """
[[group]]
name = "reports"
scripts = ["select-only"]
background = true
[[group]]
name = "sleepers"
idle = 50
"""


def test_a_group_in_the_background_has_no_trial_and_may_be_of_a_search_or_write(tmp_path: Path) -> None:
    swept = MAIN.replace("clients = [1, 8]", "clients = [1, 8]\ngroup.reports.clients = [0, 2]")
    plan = load(tmp_path, TARGET + swept + REPORTS + TRIAL)
    trials = planned_trials(plan)
    assert {(each.point.group, each.point.clients, each.point.groups["reports.clients"]) for each in trials} == {
        (None, 1, "0"), (None, 1, "2"), (None, 8, "0"), (None, 8, "2"),
    }  # fmt: skip
    # a block is one number of clients beside each number of reports
    assert plan.order() == "interleaved"
    assert {trials[0].point.clients, trials[2].point.clients} == {1, 8}
    assert trials[0].point.clients == trials[1].point.clients
    beside = [(each.name, each.connections) for each in background_groups(plan, trials[0].point)]
    reports = int(trials[0].point.groups["reports.clients"])
    assert beside == [*([("reports", reports)] if reports else []), ("sleepers", 50)]
    assert plan_of_load(plan, trials[0].point).workload.scripts == ["tpcb-like"]
    assert effect_of_plan(plan, tmp_path) is Effect.WRITES
    # searches and phases may have one
    for more in (f"repeats = 2\n{SEARCH}", "ledger = true\n", PHASES):
        text = f"{PHASES}[trial]\nseed = 1\n" if more == PHASES else TRIAL + more
        plan = load(tmp_path, TARGET + MAIN + REPORTS + text)
        assert [each.name for each in background_groups(plan, plan.points()[0])] == ["reports", "sleepers"]
        assert not plan.has_group_trials
    # one that writes changes the data
    reads = MAIN.replace("tpcb-like", "select-only")
    for script, effect in (("select-only", Effect.READS), ("simple-update", Effect.WRITES)):
        plan = load(tmp_path, TARGET + reads + REPORTS.replace("select-only", script) + TRIAL)
        assert effect_of_plan(plan, tmp_path) is effect


SEARCH = '[search]\nfind = "peak"\n'
PHASES = '[[phase]]\nname = "a"\nduration = "2s"\n[[phase]]\nname = "b"\nduration = "2s"\nclients = 1\n'


def test_what_is_refused(tmp_path: Path) -> None:
    for text, said in (
        (f"{GROUPS}{TRIAL}[sweep]\nclients = 4\n", "sweep.clients: belongs to a group of clients"),
        (f"{GROUPS}{TRIAL}[sweep.group]\nreport.clients = 4\n", "there is no group report"),
        (f"{GROUPS}{TRIAL}[sweep.group]\nreports.on = 4\n", "on cannot be swept"),
        (f"{GROUPS}{TRIAL}[sweep.group]\nreports.clients = -1\n", "should be greater than or equal to 0"),
        (f"{GROUPS}{TRIAL}[sweep.group]\nreports.clients = \"many\"\n", "'many' is no number"),
        (GROUPS.replace("reports", "orders") + TRIAL, "orders is the name of two groups"),
        (GROUPS.replace("idle = 50", "idle = 50\nclients = 3") + TRIAL, "has idle clients, and keys of a load"),
        (GROUPS.replace("idle = 50", 'idle = 5\nscripts = ["a.sql"]') + TRIAL, "has both scripts and idle"),
        (GROUPS.replace('begin = "2s"', 'begin = "2s"\nend = "1s"') + TRIAL, "ends before it begins"),
        (GROUPS.replace('"select-only"', '"none.sql"') + TRIAL, "none.sql is neither a built-in script nor a file"),
        (GROUPS.replace('begin = "2s"', 'on = "standby"') + TRIAL, "target a has no standby of its own"),
        (GROUPS.replace('begin = "2s"', 'on = "pooler"') + TRIAL, "target a has no pooler"),
        (GROUPS.replace('begin = "2s"', 'on = "b"') + TRIAL, 'must be "primary", "standby" or "pooler", not "b"'),
        (f"{GROUPS}{TRIAL}order = \"duet\"\n", "trial.order: cannot be combined with groups or steps"),
        (GROUPS.replace('"2s"', '"10s"') + TRIAL, "group[1].begin: is not before the end of a load of 10 s"),
        (GROUPS + STEPS.replace('"reports"', '"report"'), "there is no group report\n    did you mean reports?"),
        (GROUPS + STEPS.replace('"reports"', '"orders"'), "uses the group orders twice"),
        (GROUPS + STEPS.replace("= 400", "= 401"), "401 transactions do not divide by the 4 clients of orders"),
        (GROUPS + STEPS.replace('duration = "3s"', ""), "has no end"),
        (GROUPS + STEPS.replace('do = "vacuum"', ""), "has nothing to do"),
        (ROWS + GROUPS + STEPS.replace("= 400", '= "variables.row / 10"'), "variables.row is unknown\n    known: var"),
        (ROWS + GROUPS + STEPS.replace("= 400", '= "variables.rows / 0"'), "divides by zero"),
        (ROWS + GROUPS + STEPS.replace("= 400", '= "variables.rows / 9000"'), "it must be at least 1"),
        (GROUPS + STEPS.replace("= 400", '= "1 +"'), "is not an expression"),
        (GROUPS + STEPS.replace("= 400", "= 0"), "must be a whole number above 0"),
        (GROUPS + STEPS.replace('"both"', '"a\\tb"'), "use up to 64 characters on one line"),
        (REPORTS + TRIAL, "workload: is missing"),
        (MAIN + REPORTS.replace("background", 'begin = "1s"\nbackground') + TRIAL, "remove begin, end and promise"),
        (MAIN + REPORTS.replace("background", 'promise = "p99 < 1s"\nbackground') + TRIAL, "has no result"),
        (MAIN + REPORTS.replace('"select-only"', '"none.sql"') + TRIAL, "group[0].scripts[0]: none.sql is neither"),
        (MAIN + REPORTS.replace("= 50", "= 99") + TRIAL, "108 clients are too many for target a"),
        (GROUPS + STEPS.replace('"orders"]', '"sleepers"]'), "step[0].groups: all run in the background"),
        (GROUPS + TRIAL + SEARCH, "a group with background = true may run beside the load of [workload]"),
        (GROUPS + STEPS + 'duration = "5s"\n', "trial.duration: cannot be combined with steps"),
    ):  # fmt: skip
        found = problems(tmp_path, TARGET + text)
        assert said in "\n".join(f"{each.path}: {each.message}\n    {each.hint}" for each in found)


# ---- [replica_load], by which earlier plans load standbys, is read as a group in the background ----

REPLICATED = (
    small_plan('scripts = ["tpcb-like"]\nvariables = { range = 5 }', "clients = 1\nvariables.range = [7]", a="18")
    + "[target.a.replicas]\ncount = 2\n[replica_load]\n"
)
LOAD = 'scripts = ["select-only@2", "read.sql"]\nclients = 5\nrate = 100\nprotocol = "prepared"\n'


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> None:
    (tmp_path / "read.sql").write_text("SELECT 1;\n")


def test_a_load_on_standbys_is_read_shown_and_resolved_and_the_engine_gets_its_options(tmp_path: Path) -> None:
    plan = load(tmp_path, REPLICATED + LOAD)
    (group,) = plan.group
    assert (group.name, group.on, group.background, group.has_trial) == ("standbys", "standby", True, False)
    assert script_files(plan) == ["read.sql"]
    said = "select-only@2, read.sql; 5 clients; 100 transactions a second; on the standby; in the background"
    assert in_each_trial(plan) == [f"group standbys: {said}"]
    assert [(each.point.group, each.point.clients) for each in planned_trials(plan)] == [(None, 1)]
    assert plan.workload.scripts == ["tpcb-like"]
    resolved = plan.as_resolved()
    # a run folder of an earlier version
    before = {"scripts": group.scripts, "clients": 5, "protocol": "prepared", "rate": 100.0}
    older = {key: value for key, value in resolved.items() if key != "group"} | {"replica_load": before}
    assert Plan.from_resolved(older).as_resolved() == resolved
    assert load(tmp_path, plan_toml(older)).as_resolved() == resolved
    assert load(tmp_path, REPLICATED + LOAD.replace('protocol = "prepared"\n', "")).group[0].protocol == "simple"
    plan = load(tmp_path, REPLICATED + LOAD)
    at = Point(clients=1, workers=1, rate=7.0, variables={"range": "7"})
    (group,) = background_groups(plan, at)
    options = background_options(plan, group, at, 3, tmp_path)
    assert {"--client=5", "--rate=100.0", "--protocol=prepared", "--random-seed=3", "--define=range=7"} <= set(options)
    assert options[:4] == ["-b", "select-only@2", "-f", "read.sql"]
    assert not any(each.startswith(("--jobs", "--warmup=1")) for each in options)


def test_mistakes_in_a_load_on_replicas_have_their_line(tmp_path: Path) -> None:
    for change, field, message in (
        (("[target.a.replicas]\ncount = 2\n", ""), "replica_load.on", "target a has no standby of its own"),
        (("select-only@2", "select-olny"), "replica_load.scripts[0]", "neither a built-in script nor a file"),
        (("select-only@2", "select-only@x"), "replica_load.scripts[0]", "must be a whole number"),
        (("clients = 5\n", "clients = -5\n"), "replica_load.clients", "must be"),
        (("clients = 5\n", "client = 5\nclients = 5\n"), "replica_load.client", "unknown key"),
    ):
        refuse(tmp_path, (REPLICATED + LOAD).replace(*change), field, message)
