"""Rules of the services: pgdyno recovers from resources that are not visible yet or busy, or refuses them before
anything costs money.
"""

import pytest

from pgdyno.targets.aws import boto3_clients
from pgdyno.targets.aws.boto3_clients import NotThereError
from tests.aws.account import Account
from tests.aws.instances import take_snapshot
from tests.aws.plans import aurora, ec2, rds

PARAMETERS = {"parameters": '{ work_mem = "4MB" }'}


@pytest.mark.long_cases("[ec2]", "[rds]")
@pytest.mark.parametrize(
    ("target", "made"),
    [
        (ec2(), "ec2:RunInstances"),
        (rds(**PARAMETERS), "rds:CreateDBInstance"),
        (aurora(**PARAMETERS), "rds:CreateDBCluster"),
    ],
    ids=("ec2", "rds", "aurora"),
)
def test_an_invisible_resource_is_requested_again(amazon: Account, target: str, made: str) -> None:
    amazon.visibility.hidden_s = 30.0
    rented = amazon.hold(target)
    assert amazon.calls.count("ec2:AuthorizeSecurityGroupIngress") > 1
    assert amazon.calls.count(made) == 1, "the group is visible when it has been opened"
    assert amazon.dry_runs == (["ec2:RunInstances"] if made == "ec2:RunInstances" else [])
    assert (amazon.calls.count("rds:ModifyDBParameterGroup") > 1) == made.startswith("rds")
    assert max(amazon.clock.pauses) <= 15.0
    assert rented.remove_all() == []


def test_a_resource_that_stays_invisible_is_an_error(amazon: Account) -> None:
    amazon.visibility.hidden_s = 150.0
    assert isinstance(amazon.failed(rds()), NotThereError)
    assert amazon.clock.now_s >= boto3_clients.SETTLES_S


@pytest.mark.long_cases("[rds]")
@pytest.mark.parametrize("kind", ["rds", "aurora"])
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


def test_parameters_at_the_wrong_level_and_with_wrong_values_create_nothing(
    amazon: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a name that is known only to the service
    monkeypatch.setattr("pgdyno.targets.aws.databases.schema.CLUSTER_LEVEL", frozenset())
    error = amazon.failed(aurora(parameters='{ autovacuum = "off", work_mem = "4MB" }'))
    assert "has no parameter autovacuum" in error.message
    assert "put those of the cluster under cluster_parameters" in (error.hint or "")
    error = amazon.failed(rds(parameters='{ checkpoint_timeout = "2h", work_mem = "1kB", autovacuum = "2" }'))
    assert "work_mem = 1 is outside of 64 to 2147483647; autovacuum = 2 is not one of 0, 1" in error.message
    error = amazon.failed(rds(parameters='{ ssl = "on", no_such = "1", work_mem = "4MB" }'))
    assert "parameter ssl cannot be changed on postgres18; postgres18 has no parameter no_such" in error.message
    assert amazon.makes_nothing()
