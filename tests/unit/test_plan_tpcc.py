"""`name = "tpcc"` in a plan: its defaults, and the keys that it permits."""

from pathlib import Path

import pytest

from pgdyno.errors import PlanError
from pgdyno.plan import Plan, load_plan
from pgdyno.run.engine import trial_options

PLAN = """\
name = "small"
[target.pg18]
kind = "embedded"
version = "18"
[workload]
name = "tpcc"
warehouses = 3
{workload}
[sweep]
clients = 4
[trial]
duration = "10s"
{rest}
"""


def load(tmp_path: Path, workload: str = "", rest: str = "") -> Plan:
    path = tmp_path / "small.toml"
    path.write_text(PLAN.format(workload=workload, rest=rest))
    return load_plan(str(path)).plan


def test_a_name_says_scripts_dataset_and_how_data_is_brought_back(tmp_path: Path) -> None:
    plan = load(tmp_path, 'variant = "sql"')
    workload = plan.workload
    assert (workload.scripts, workload.dataset, workload.scale) == (["tpcc"], "tpcc", 3)
    assert plan.reset.method == "template"
    assert plan.points()[0].scale == 3
    assert workload.engine_options() == ["--workload=tpcc", "--tpcc-profile=hammerdb-6.1.1", "--tpcc-variant=sql"]
    options = trial_options(plan, plan.points()[0], seed=1, phases=tmp_path)
    assert not any(option.startswith("--protocol") for option in options)
    assert plan.as_resolved()["workload"]["name"] == "tpcc"


def test_hammerdb_is_the_newest_release_and_of_an_earlier_run_the_one_that_rolled_back(tmp_path: Path) -> None:
    for profile in ("", 'profile = "hammerdb"', 'profile = "hammerdb-6.1.1"'):
        resolved = load(tmp_path, profile).as_resolved()
        assert resolved["workload"]["profile"] == "hammerdb-6.1.1"
        assert Plan.from_resolved(resolved).workload.dataset_options["profile"] == "hammerdb-6.1.1"
    resolved["workload"]["profile"] = "hammerdb"
    assert Plan.from_resolved(resolved).workload.dataset_options["profile"] == "hammerdb-6.1"
    assert load(tmp_path, 'profile = "spec"').workload.dataset_options["profile"] == "spec"


def test_other_plans_stay_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text(
        PLAN.replace('name = "tpcc"\nwarehouses = 3', 'scripts = ["tpcb-like"]').format(workload="", rest="")
    )
    resolved = load_plan(str(path)).plan.as_resolved()
    assert not {"name", "profile", "variant"} & resolved["workload"].keys()
    assert resolved["reset"]["method"] == "vacuum"


MISTAKES = [
    ('scripts = ["tpcb-like"]', "", "workload.scripts", "defines scripts and dataset itself"),
    ('profile = "tpc"', "", "workload.profile", "hammerdb"),
    ("variables = { x = 1 }", "", "workload.variables", "has no scripts"),
    ("", '[reset]\nmethod = "vacuum"', "reset.method", "as the previous trial left them"),
    ("", '[[sweep.points]]\nprotocol = "prepared"', "sweep.points[0].protocol", "variant defines how"),
]


@pytest.mark.parametrize(("workload", "rest", "where", "said"), MISTAKES)
def test_keys_that_do_not_fit_tpcc_are_refused(tmp_path: Path, workload: str, rest: str, where: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        load(tmp_path, workload, rest)
    (problem,) = caught.value.problems
    assert problem.path == where
    assert said in problem.message


@pytest.mark.parametrize(
    ("given", "where", "hint"),
    [
        ('sweep.protocol=["simple", "prepared"]', "sweep.protocol", "workload.variant"),
        ("sweep.variables.x=[1, 2]", "sweep.variables", None),
        ("workload.scale=4", "workload.scale", "remove one"),
        ("trial.ledger=true", "trial.ledger", "tpcb-like"),
    ],
)
def test_keys_that_would_have_no_effect_are_refused(tmp_path: Path, given: str, where: str, hint: str | None) -> None:
    path = tmp_path / "small.toml"
    path.write_text(PLAN.format(workload="", rest=""))
    with pytest.raises(PlanError) as caught:
        load_plan(str(path), [given])
    (problem,) = caught.value.problems
    assert problem.path == where
    assert hint is None or hint in str(problem.hint)


def test_phases_name_the_transactions(tmp_path: Path) -> None:
    phase = '[[phase]]\nname = "a"\nduration = "5s"\nmix = { "New-Order" = 1, "Payment" = 1 }'
    path = tmp_path / "small.toml"
    path.write_text(PLAN.format(workload="", rest=phase).replace('duration = "10s"', ""))
    assert load_plan(str(path)).plan.phase[0].mix == {"New-Order": 1, "Payment": 1}
