"""Snapshots that pgdyno takes of a loaded server: taken once, restored before each trial, found and deleted."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pgdyno.errors import PlanError
from pgdyno.plan import load_plan
from pgdyno.plan.output.plan_output import before_each_trial
from pgdyno.targets.aws.boto3_clients import AwsError
from pgdyno.targets.aws.databases import dead_man
from pgdyno.targets.aws.inventory import Kind
from pgdyno.targets.aws.pricing.prices import Prices
from pgdyno.targets.aws.pricing.rental_costs import estimate, hourly_costs
from pgdyno.targets.aws.provider import PROVIDER
from pgdyno.targets.aws.removal import Reaper
from pgdyno.targets.aws.rental import Rental
from pgdyno.targets.rented.provider import Wanted
from tests.aws.account import SAID, Rent, failed, kill_at, plan, rental
from tests.aws.plans import aurora, rds, write_plan
from tests.aws.simulated_snapshots import CLUSTERS, INSTANCES
from tests.aws.simulator import REGION, Fault, Simulator
from tests.present import present

DATASET, OTHER = "Dataset(name='pgbench', scale=1)", "Dataset(name='pgbench', scale=2)"
MADE = {"rds": rds, "aurora": aurora}
TAKEN = {"rds": "rds:CreateDBSnapshot", "aurora": "rds:CreateDBClusterSnapshot"}
RESTORED = {
    "rds": ("rds:RestoreDBInstanceFromDBSnapshot", "DBSnapshotIdentifier"),
    "aurora": ("rds:RestoreDBClusterFromSnapshot", "SnapshotIdentifier"),
}
KINDS = {"rds": Kind.DB_SNAPSHOT, "aurora": Kind.CLUSTER_SNAPSHOT}


def target(root: Path, kind: str, **more: str) -> str:
    return MADE[kind](root, restore='"each-trial"', **more)


def asked(amazon: Simulator, action: str, key: str) -> list[str]:
    """The values of `key` in all requests of `action`."""
    calls = zip(amazon.calls, amazon.parameters, strict=True)
    return [given[key] for name, given in calls if name == action]


def left_elsewhere(tmp_path: Path, rented: Rental) -> set[str]:
    """What another machine finds of the run, by tags alone."""
    return {each.kind for each in Reaper(tmp_path / "another home").find(Wanted(rented.journal.run))}


@pytest.mark.long_cases("[rds]")
@pytest.mark.parametrize("kind", MADE)
def test_it_is_taken_once_for_each_dataset_and_deleted(
    amazon: Simulator, tmp_path: Path, root: Path, kind: str
) -> None:
    rented = rental(tmp_path, target(root, kind))
    rented.up()
    assert not rented.has_snapshot(kind, DATASET)
    rented.take_snapshot(kind, DATASET)
    first = f"{rented.server_id(kind)}-s1"
    assert asked(amazon, TAKEN[kind], RESTORED["rds"][1] if kind == "rds" else "DBClusterSnapshotIdentifier") == [first]
    assert rented.has_snapshot(kind, DATASET)
    # the server that loaded the data is replaced, too
    assert rented.wants_restore(kind)
    rented.restore(kind, DATASET)
    assert not rented.wants_restore(kind)
    assert rented.unread == {kind}
    rented.take_snapshot(kind, OTHER)
    rented.restore(kind, DATASET)
    rented.restore(kind, OTHER)
    assert asked(amazon, *RESTORED[kind]) == [first, first, f"{rented.server_id(kind)}-s2"]
    assert KINDS[kind] in left_elsewhere(tmp_path, rented)
    (journal,) = PROVIDER.journals(tmp_path / "home")
    assert journal.snapshots == rented.journal.snapshots
    assert rented.down() == []
    assert amazon.left() == []
    assert list(PROVIDER.journals(tmp_path / "home")) == []


@pytest.mark.long_cases("[rds]")
@pytest.mark.parametrize("kind", MADE)
def test_servers_that_are_up_keep_it_for_the_next_run(amazon: Simulator, tmp_path: Path, root: Path, kind: str) -> None:
    rented = rental(tmp_path, target(root, kind))
    rented.up()
    rented.take_snapshot(kind, DATASET)
    rented.journal.release()
    again = present(PROVIDER.standing(rented.plan, tmp_path / "home", SAID.append))
    assert again.has_snapshot(kind, DATASET)
    assert not again.has_snapshot(kind, OTHER)
    assert again.wants_restore(kind)
    again.restore(kind, DATASET)
    assert again.down() == []
    assert amazon.left() == []


@pytest.mark.long_cases("[rds]")
@pytest.mark.parametrize("kind", MADE)
def test_a_run_killed_while_it_takes_one_loses_nothing(
    amazon: Simulator, tmp_path: Path, root: Path, kind: str
) -> None:
    rented = rental(tmp_path, target(root, kind))
    rented.up()
    rented.journal.release()
    kill_at(amazon, TAKEN[kind], lambda: rented.take_snapshot(kind, DATASET))
    amazon.on_call = lambda _action, _number: None
    assert KINDS[kind] in left_elsewhere(tmp_path, rented)
    done = Reaper(tmp_path / "another home").reap(Wanted(rented.journal.run), SAID.append)
    assert (done.left, amazon.left()) == ([], [])


@pytest.mark.long_cases("[rds]")
@pytest.mark.parametrize("kind", MADE)
def test_it_is_gone_after_its_expiry_without_pgdyno(amazon: Simulator, tmp_path: Path, root: Path, kind: str) -> None:
    rented = rental(tmp_path, target(root, kind))
    rented.up()
    rented.take_snapshot(kind, DATASET)
    before = rented.journal.expires
    rented.prolong(datetime.now(UTC) + timedelta(hours=9))
    amazon.time_comes(before + timedelta(hours=1))
    assert KINDS[kind] in left_elsewhere(tmp_path, rented)
    assert {each.expires for each in rented.existing()} == {rented.journal.expires.replace(microsecond=0)}
    rented.journal.release()
    amazon.time_comes(rented.journal.expires + timedelta(minutes=15))
    amazon.time_comes(rented.journal.expires + dead_man.REPEATS_FOR)
    assert left_elsewhere(tmp_path, rented) == {Kind.SECURITY_GROUP}


def test_without_a_dead_man_switch_it_has_none(amazon: Simulator, root: Path, rent: Rent) -> None:
    rented = rent(target(root, "rds", dead_man='"none"'))
    rented.take_snapshot("rds", DATASET)
    assert amazon.schedules.all == {}


@pytest.mark.long_cases("[rds]")
@pytest.mark.parametrize("kind", MADE)
def test_what_amazon_refuses_at_first_is_asked_again(amazon: Simulator, root: Path, kind: str, rent: Rent) -> None:
    rented = rent(target(root, kind))
    code = {"rds": "InvalidDBInstanceState", "aurora": "InvalidDBClusterStateFault"}[kind]
    operation = TAKEN[kind].partition(":")[2]
    amazon.faults = [
        Fault(operation, code, times=2),
        # the answer to the request that did take it was lost
        Fault(operation, "InternalFailure", status=500, done=True),
    ]
    amazon.visibility.hidden_s = 20.0
    rented.take_snapshot(kind, DATASET)
    assert amazon.calls.count(TAKEN[kind]) >= 4
    of = {"rds": INSTANCES, "aurora": CLUSTERS}[kind]
    assert list(amazon.snapshots.manual(amazon.rds, of)) == [f"{rented.server_id(kind)}-s1"]
    rented.restore(kind, DATASET)


def test_one_that_fails_or_has_no_room_leaves_nothing(amazon: Simulator, root: Path, rent: Rent) -> None:
    rented = rent(target(root, "rds"))
    amazon.snapshots.most = 0
    with pytest.raises(AwsError, match="a quota of the account is used up"):
        rented.take_snapshot("rds", DATASET)
    amazon.snapshots.most, amazon.snapshots.fails = 100, True
    with pytest.raises(AwsError, match=r"database snapshot pgdyno-.*-s2 is failed"):
        rented.take_snapshot("rds", DATASET)
    assert not rented.has_snapshot("rds", DATASET)


def test_the_quota_of_snapshots_is_checked_first(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    amazon.snapshots.most = 0
    for kind, service in (("rds", "RDS"), ("aurora", "Aurora")):
        error = failed(tmp_path, target(root, kind))
        assert f"the plan needs 1 manual snapshots of {service}, and 0 of 0 are used" in str(error)
    assert not [each for each in amazon.calls if "Create" in each]


@pytest.mark.usefixtures("amazon")
def test_its_price_is_itemised_and_in_the_ceiling(tmp_path: Path, root: Path) -> None:
    targets = [target(root, "rds", storage='"120GB"'), target(root, "aurora")]
    once = [each.replace("each-trial", "once") for each in targets]
    found, without = (estimate(plan(tmp_path, *each, repeats=4), Prices(tmp_path), REGION) for each in (targets, once))
    items = [
        (each.target, each.words, each.rate.amount) for each in found.items if each.what == "snapshots" and each.rate
    ]
    assert items == [("rds", "120 GB of snapshots", 0.095), ("aurora", "1 GB of snapshots", 0.021)]
    assert "snapshots" not in {each.what for each in without.items}
    # four restores of an hour and one snapshot of half an hour for each of the two
    assert present(found.hours) - present(without.hours) == pytest.approx(9.0, abs=0.1)
    assert present(found.most) >= 1.5 * present(found.hours) * found.hourly + 2.5 * found.once
    # reading the restored server once counts as I/O
    assert found.once > without.once > 0


@pytest.mark.usefixtures("amazon")
def test_one_that_is_left_has_its_price(tmp_path: Path, root: Path, rent: Rent) -> None:
    rented = rent(target(root, "rds"))
    rented.take_snapshot("rds", DATASET)
    there = [each for each in rented.existing() if each.kind is Kind.DB_SNAPSHOT]
    line = str(hourly_costs(there, Prices(tmp_path)))
    assert line.startswith(f"this costs {20 * 0.095 / 730:.4f} USD an hour;")


def test_without_a_dataset_there_is_nothing_to_take_one_of(tmp_path: Path, root: Path) -> None:
    file = write_plan(tmp_path / "plan", target(root, "rds"))
    assert before_each_trial(load_plan(file).plan) == (
        "before each trial: restore rds from a snapshot of the loaded server; checkpoint"
    )
    assert load_plan(file).plan.target["rds"].describe().endswith("from a snapshot of its own, each trial, 20GB of gp3")
    with pytest.raises(PlanError) as caught:
        load_plan(file, ['workload.dataset="none"'])
    assert "target.rds.restore: there is nothing to restore" in [
        f"{each.path}: {each.message.partition(':')[0]}" for each in caught.value.problems
    ]
