"""Snapshots: restored before each trial, and those that pgdyno takes of a loaded server, which it finds and deletes."""

from functools import partial

import pytest

from pgdyno.errors import PlanError
from pgdyno.plan.output.plan_output import before_each_trial
from pgdyno.targets.aws.boto3_clients import AwsError
from pgdyno.targets.aws.inventory import Kind
from pgdyno.targets.aws.pricing.prices import Prices
from pgdyno.targets.aws.pricing.rental_costs import estimate, hourly_costs
from pgdyno.targets.aws.provider import PROVIDER
from pgdyno.targets.rented.provider import Wanted
from tests.aws.account import Account, kill_at, take_snapshot
from tests.aws.plans import aurora, rds
from tests.aws.simulated_snapshots import CLUSTERS, INSTANCES
from tests.aws.simulator import REGION, Fault
from tests.present import present

DATASET, OTHER = "Dataset(name='pgbench', scale=1)", "Dataset(name='pgbench', scale=2)"
TARGETS = {"rds": rds(restore='"each-trial"'), "aurora": aurora(restore='"each-trial"')}
SERVICES = {"rds": INSTANCES, "aurora": CLUSTERS}
TAKEN = {"rds": "rds:CreateDBSnapshot", "aurora": "rds:CreateDBClusterSnapshot"}
RESTORED = {
    "rds": ("rds:RestoreDBInstanceFromDBSnapshot", "DBSnapshotIdentifier"),
    "aurora": ("rds:RestoreDBClusterFromSnapshot", "SnapshotIdentifier"),
}
KINDS = {"rds": Kind.DB_SNAPSHOT, "aurora": Kind.CLUSTER_SNAPSHOT}
both_kinds = pytest.mark.parametrize("kind", TARGETS)


def left_elsewhere(amazon: Account, run: str) -> set[str]:
    """What another machine finds of the run, by tags alone."""
    return {each.kind for each in amazon.reaper("another home").find(Wanted(run))}


@pytest.mark.long_cases("[rds]")
@both_kinds
def test_it_is_taken_once_for_each_dataset_kept_for_the_next_run_and_deleted(amazon: Account, kind: str) -> None:
    rented = amazon.hold(TARGETS[kind])
    assert not rented.has_snapshot(kind, DATASET)
    rented.take_snapshot(kind, DATASET)
    first = f"{rented.server_id(kind)}-s1"
    assert [each[SERVICES[kind].key] for each in amazon.asked(TAKEN[kind])] == [first]
    assert rented.has_snapshot(kind, DATASET)
    rented.journal.release()
    # servers that are up keep it for the next run
    again = present(amazon.standing(rented))
    assert again.has_snapshot(kind, DATASET)
    assert not again.has_snapshot(kind, OTHER)
    # the server that loaded the data is replaced, too
    assert again.wants_restore(kind)
    again.restore(kind, DATASET)
    assert not again.wants_restore(kind)
    assert again.unread == {kind}
    again.take_snapshot(kind, OTHER)
    again.restore(kind, DATASET)
    again.restore(kind, OTHER)
    action, key = RESTORED[kind]
    assert [each[key] for each in amazon.asked(action)] == [first, first, f"{again.server_id(kind)}-s2"]
    assert KINDS[kind] in left_elsewhere(amazon, again.journal.run)
    (journal,) = PROVIDER.journals(amazon.home)
    assert journal.snapshots == again.journal.snapshots
    assert again.remove_all() == []
    assert amazon.journals() == []


def test_a_run_killed_while_it_takes_one_loses_nothing(amazon: Account) -> None:
    rented = amazon.up(*TARGETS.values())
    for kind in TARGETS:
        kill_at(amazon, TAKEN[kind], partial(rented.take_snapshot, kind, DATASET))
    assert left_elsewhere(amazon, rented.journal.run) >= {*KINDS.values()}
    amazon.reap("another home", run=rented.journal.run)


@pytest.mark.long_cases("[rds]")
@both_kinds
def test_what_amazon_refuses_at_first_is_asked_again(amazon: Account, kind: str) -> None:
    rented = amazon.hold(TARGETS[kind])
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
    assert list(amazon.snapshots.manual(amazon.rds, SERVICES[kind])) == [f"{rented.server_id(kind)}-s1"]
    rented.restore(kind, DATASET)
    assert rented.remove_all() == []


def test_one_that_fails_or_has_no_room_leaves_nothing_and_one_that_is_left_has_its_price(amazon: Account) -> None:
    rented = amazon.hold(TARGETS["rds"])
    amazon.snapshots.most = 0
    with pytest.raises(AwsError, match="a quota of the account is used up"):
        rented.take_snapshot("rds", DATASET)
    amazon.snapshots.most, amazon.snapshots.fails = 100, True
    with pytest.raises(AwsError, match=r"database snapshot pgdyno-.*-s2 is failed"):
        rented.take_snapshot("rds", DATASET)
    assert not rented.has_snapshot("rds", DATASET)
    amazon.snapshots.fails = False
    rented.take_snapshot("rds", DATASET)
    left = [each for each in rented.existing_resources() if each.kind is Kind.DB_SNAPSHOT]
    price = len(left) * 20 * 0.095 / 730
    assert str(hourly_costs(left, Prices(amazon.folder))).startswith(f"this costs {price:.4f} USD an hour;")
    assert rented.remove_all() == []


def test_its_price_is_itemised_and_in_the_ceiling(amazon: Account) -> None:
    targets = [rds(restore='"each-trial"', storage='"120GB"'), TARGETS["aurora"]]
    once = [each.replace("each-trial", "once") for each in targets]
    found, without = (
        estimate(amazon.plan(*each, repeats=4), Prices(amazon.folder), REGION) for each in (targets, once)
    )
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


def test_without_a_dataset_there_is_nothing_to_take_one_of(amazon: Account) -> None:
    plan = amazon.plan(TARGETS["rds"])
    assert before_each_trial(plan) == (
        "before each trial: restore rds from a snapshot of the loaded server; checkpoint"
    )
    assert plan.target["rds"].describe().endswith("from a snapshot of its own, each trial, 20GB of gp3")
    with pytest.raises(PlanError) as caught:
        amazon.plan(TARGETS["rds"], changes=['workload.dataset="none"'])
    assert "target.rds.restore: there is nothing to restore" in [
        f"{each.path}: {each.message.partition(':')[0]}" for each in caught.value.problems
    ]


@pytest.mark.long_cases("[rds]")
@both_kinds
def test_a_change_waits_until_a_backup_is_over(amazon: Account, kind: str) -> None:
    take_snapshot(amazon, "mine", kind)
    rented = amazon.hold({"rds": rds, "aurora": aurora}[kind](snapshot='"mine"', restore='"each-trial"'))
    change = {"rds": "rds:ModifyDBInstance", "aurora": "rds:ModifyDBCluster"}[kind]
    assert amazon.calls.count(change) > 1
    rented.restore(kind)
    assert rented.remove_all() == []


@pytest.mark.parametrize(("storage", "size"), [("20GB", 30), ("400GB", 400)])
def test_a_restored_server_has_the_storage_of_the_plan_or_that_of_a_larger_snapshot(
    amazon: Account, storage: str, size: int
) -> None:
    amazon.databases.initializes = True
    take_snapshot(amazon, "mine")
    amazon.rds.database_snapshots["mine"].allocated_storage = 30
    rented = amazon.rent(rds(snapshot='"mine"', storage=f'"{storage}"'))
    *_, asked = amazon.asked("rds:RestoreDBInstanceFromDBSnapshot")
    # the security group lets clients in at this port alone
    assert (asked["AllocatedStorage"], asked["Port"]) == (size, 5432)
    # it is used while it still loads its blocks
    assert amazon.rds.databases[rented.server_id("rds")].simulated == "storage-initialization"
    assert rented.reads_first("rds")
