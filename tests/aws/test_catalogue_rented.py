"""Every catalogue plan with rented servers: they come up and are removed in the simulated account, in its region."""

from pathlib import Path

import pytest

from pgdyno.plan import load_plan
from pgdyno.targets.aws import rental as life
from pgdyno.targets.aws.pricing.rental_costs import rented_targets
from pgdyno.targets.aws.rental import begin
from tests.aws.account import use_account
from tests.aws.simulator import Simulator, simulated

REGIONS = {
    "graviton-pgbench": "us-east-1",
    "aurora-sysbench": "us-east-1",
    "pgecons-queries": "ap-northeast-1",
    "pgecons-tprocc": "ap-northeast-1",
}


def test_the_list_is_complete() -> None:
    plans = Path(life.__file__).parents[2] / "plans"
    rented = {file.stem for file in plans.glob("*.toml") if rented_targets(load_plan(file.stem).plan)}
    assert rented == REGIONS.keys()


@pytest.mark.long_cases("aurora", "pgbench", "queries")
@pytest.mark.parametrize("name", REGIONS)
def test_a_plan_of_the_catalogue_passes(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PGDYNO_ADDRESS", "203.0.113.7")
    monkeypatch.setattr("pgdyno.targets.aws.hosts.generator_hosts.check_reach", lambda *_: None)
    monkeypatch.setattr(life, "tls_root", lambda *_: tmp_path / "root.pem")
    with simulated(Simulator(region=REGIONS[name])) as simulator:
        use_account(simulator, monkeypatch)
        said: list[str] = []
        rental = begin(load_plan(name).plan, tmp_path, said.append, 24 * 3600)
        rental.up()
        assert {each["zone"] for each in rental.journal.ready.values()} == {f"{REGIONS[name]}a"}
        refusals = [each for each in said if "no capacity" in each or "not checked" in each]
        assert refusals == []
        assert rental.remove_all() == []
        assert simulator.left() == []
