"""`name = "tpcc"` in a plan: its defaults, and the keys that it permits."""

from pathlib import Path

import pytest

from pgdyno.plan import Plan
from pgdyno.run.engine import trial_options
from tests.unit.plan_sample import load, small_plan, the_problem


def plan(workload: str = "", rest: str = "") -> str:
    return small_plan(f'name = "tpcc"\nwarehouses = 3\n{workload}', "clients = 4") + rest


def test_a_name_says_scripts_dataset_and_how_data_is_brought_back(tmp_path: Path) -> None:
    read = load(tmp_path, plan('variant = "sql"'))
    workload = read.workload
    assert (workload.scripts, workload.dataset, workload.scale) == (["tpcc"], "tpcc", 3)
    assert read.reset.method == "template"
    assert read.points()[0].scale == 3
    assert workload.engine_options() == ["--workload=tpcc", "--tpcc-profile=hammerdb-6.1.1", "--tpcc-variant=sql"]
    options = trial_options(read, read.points()[0], seed=1, phases=tmp_path)
    assert not any(option.startswith("--protocol") for option in options)
    assert read.as_resolved()["workload"]["name"] == "tpcc"


def test_hammerdb_is_the_newest_release_and_of_an_earlier_run_the_one_that_rolled_back(tmp_path: Path) -> None:
    for profile in ("", 'profile = "hammerdb"', 'profile = "hammerdb-6.1.1"'):
        resolved = load(tmp_path, plan(profile)).as_resolved()
        assert resolved["workload"]["profile"] == "hammerdb-6.1.1"
        assert Plan.from_resolved(resolved).workload.dataset_options["profile"] == "hammerdb-6.1.1"
    resolved["workload"]["profile"] = "hammerdb"
    assert Plan.from_resolved(resolved).workload.dataset_options["profile"] == "hammerdb-6.1"
    assert load(tmp_path, plan('profile = "spec"')).workload.dataset_options["profile"] == "spec"


def test_other_plans_stay_as_they_were(tmp_path: Path) -> None:
    resolved = load(tmp_path, small_plan()).as_resolved()
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
    problem = the_problem(tmp_path, plan(workload, rest))
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
    problem = the_problem(tmp_path, plan(), given)
    assert problem.path == where
    assert hint is None or hint in str(problem.hint)


def test_phases_name_the_transactions(tmp_path: Path) -> None:
    phase = '[[phase]]\nname = "a"\nduration = "5s"\nmix = { "New-Order" = 1, "Payment" = 1 }'
    read = load(tmp_path, plan(rest=phase).replace('duration = "10s"', ""))
    assert read.phase[0].mix == {"New-Order": 1, "Payment": 1}
