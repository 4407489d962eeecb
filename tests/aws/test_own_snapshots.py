"""Snapshots that pgdyno takes of a loaded server: taken once, restored before each trial, found and deleted."""

from datetime import UTC, datetime, timedelta

import pytest

from pgdyno.errors import PlanError
from pgdyno.plan.output.plan_output import before_each_trial
from pgdyno.targets.aws.boto3_clients import AwsError
from pgdyno.targets.aws.databases import dead_man
from pgdyno.targets.aws.inventory import Kind
from pgdyno.targets.aws.pricing.prices import Prices
from pgdyno.targets.aws.pricing.rental_costs import estimate, hourly_costs
from pgdyno.targets.aws.provider import PROVIDER
from pgdyno.targets.rented.provider import Wanted
from tests.aws.account import Account, kill_at
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


@pytest.mark.long_cases("[rds]")
@both_kinds
def test_a_run_killed_while_it_takes_one_loses_nothing(amazon: Account, kind: str) -> None:
    rented = amazon.up(TARGETS[kind])
    kill_at(amazon, TAKEN[kind], lambda: rented.take_snapshot(kind, DATASET))
    assert KINDS[kind] in left_elsewhere(amazon, rented.journal.run)
    amazon.reap("another home", run=rented.journal.run)


@pytest.mark.long_cases("[rds]")
@both_kinds
def test_it_is_gone_after_its_expiry_without_pgdyno(amazon: Account, kind: str) -> None:
    rented = amazon.up(TARGETS[kind])
    rented.take_snapshot(kind, DATASET)
    before = rented.journal.expires
    rented.prolong(datetime.now(UTC) + timedelta(hours=9))
    amazon.time_comes(before + timedelta(hours=1))
    assert KINDS[kind] in left_elsewhere(amazon, rented.journal.run)
    assert {each.expires for each in rented.existing_resources()} == {rented.journal.expires.replace(microsecond=0)}
    amazon.time_comes(rented.journal.expires + timedelta(minutes=15))
    amazon.time_comes(rented.journal.expires + dead_man.REPEATS_FOR)
    assert left_elsewhere(amazon, rented.journal.run) == {Kind.SECURITY_GROUP}
    amazon.reap()


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
