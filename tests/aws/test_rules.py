"""Rules of the services: pgdyno recovers from resources that are not visible yet, busy or without capacity, or refuses
them before anything costs money.
"""

from pathlib import Path

import pytest

from pgdyno.targets.aws import boto3_clients
from pgdyno.targets.aws.boto3_clients import CapacityError, Cloud, NotThereError
from tests.aws.account import PAUSES, Rent, failed, rental
from tests.aws.plans import aurora, ec2, rds
from tests.aws.simulator import REGION, Fault, Simulator


def snapshot(amazon: Simulator, kind: str) -> None:
    """Takes a snapshot `mine` of a server that pgdyno did not create."""
    amazon.administrator = True
    cloud = Cloud(REGION)
    of = {"EngineVersion": "18.1", "MasterUsername": "theirs", "MasterUserPassword": "a password of theirs"}
    if kind == "aurora":
        name = {"DBClusterIdentifier": "theirs"}
        cloud.call("rds", "create_db_cluster", **name, Engine="aurora-postgresql", **of)
        amazon.finish_changes()
        cloud.call("rds", "create_db_cluster_snapshot", **name, DBClusterSnapshotIdentifier="mine")
    else:
        name, size = {"DBInstanceIdentifier": "theirs"}, {"DBInstanceClass": "db.m7g.large", "AllocatedStorage": 20}
        cloud.call("rds", "create_db_instance", **name, Engine="postgres", **size, **of)
        amazon.finish_changes()
        cloud.call("rds", "create_db_snapshot", **name, DBSnapshotIdentifier="mine")
    amazon.finish_changes()
    amazon.administrator = False


@pytest.mark.long_cases("[ec2]", "[rds]")
@pytest.mark.parametrize("kind", ["ec2", "rds", "aurora"])
def test_an_invisible_resource_is_requested_again(amazon: Simulator, tmp_path: Path, root: Path, kind: str) -> None:
    more = {"parameters": '{ work_mem = "4MB" }'}
    targets = {"ec2": ec2(), "rds": rds(root, **more), "aurora": aurora(root, **more)}
    rented = rental(tmp_path, targets[kind])
    amazon.visibility.hidden_s = 30.0
    rented.up()
    tried = {"ec2": "ec2:RunInstances", "rds": "rds:CreateDBInstance", "aurora": "rds:CreateDBCluster"}[kind]
    assert amazon.calls.count("ec2:AuthorizeSecurityGroupIngress") > 1
    assert amazon.calls.count(tried) == 1, "the group is visible when it has been opened"
    assert amazon.dry_runs == (["ec2:RunInstances"] if kind == "ec2" else [])
    if kind != "ec2":
        assert amazon.calls.count("rds:ModifyDBParameterGroup") > 1
    assert max(amazon.clock.pauses) <= 15.0
    assert rented.down() == []
    assert amazon.left() == []


def test_a_group_that_instances_do_not_find_yet(amazon: Simulator, rent: Rent) -> None:
    said = "The security group 'sg-1' does not exist"
    amazon.faults = [Fault("RunInstances", "InvalidGroup.NotFound", said, times=3)]
    rent(ec2())
    assert amazon.calls.count("ec2:RunInstances") == 4
    assert len(amazon.machines.all) == 1


def test_a_resource_that_stays_invisible_is_an_error(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    amazon.visibility.hidden_s = 150.0
    assert isinstance(failed(tmp_path, rds(root)), NotThereError)
    assert amazon.clock.now_s >= boto3_clients.SETTLES_S


@pytest.mark.long_cases("[rds]")
@pytest.mark.parametrize("kind", ["rds", "aurora"])
def test_a_change_waits_until_a_backup_is_over(amazon: Simulator, root: Path, kind: str, rent: Rent) -> None:
    snapshot(amazon, kind)
    made = {"rds": rds, "aurora": aurora}[kind]
    rented = rent(made(root, snapshot='"mine"', restore='"each-trial"'))
    change = {"rds": "rds:ModifyDBInstance", "aurora": "rds:ModifyDBCluster"}[kind]
    assert amazon.calls.count(change) > 1
    rented.restore(kind)


def test_a_server_that_still_loads_its_blocks_is_used(amazon: Simulator, root: Path, rent: Rent) -> None:
    amazon.databases.initializes = True
    snapshot(amazon, "rds")
    rented = rent(rds(root, snapshot='"mine"'))
    assert amazon.rds.databases[rented.server_id("rds")].simulated == "storage-initialization"
    assert rented.reads_first("rds")


@pytest.mark.parametrize(("storage", "size"), [("20GB", 30), ("400GB", 400)])
def test_a_restored_server_has_the_storage_of_the_plan_or_that_of_a_larger_snapshot(
    amazon: Simulator, root: Path, storage: str, size: int, rent: Rent
) -> None:
    snapshot(amazon, "rds")
    amazon.rds.database_snapshots["mine"].allocated_storage = 30
    rent(rds(root, snapshot='"mine"', storage=f'"{storage}"'))
    asked = dict(zip(amazon.calls, amazon.parameters, strict=True))["rds:RestoreDBInstanceFromDBSnapshot"]
    # the security group lets clients in at this port alone
    assert (asked["AllocatedStorage"], asked["Port"]) == (size, 5432)


def test_missing_capacity_is_not_asked_for_ten_times(amazon: Simulator, tmp_path: Path) -> None:
    said = "We currently do not have sufficient m7g.large capacity in the Availability Zone you requested"
    fault = Fault("RunInstances", "InsufficientInstanceCapacity", said, status=500, times=2)
    amazon.faults = [fault]
    rented = rental(tmp_path, ec2(instead='["m8g.large"]', zones='["eu-central-1a", "eu-central-1b"]'))
    rented.up()
    assert (amazon.calls.count("ec2:RunInstances"), PAUSES) == (3, [])
    assert rented.journal.ready["ec2"]["instance"] == "m8g.large"
    assert rented.down() == []
    fault.times = 99
    assert isinstance(failed(tmp_path, ec2()), CapacityError)
    # a fault that passes is still repeated
    amazon.faults = [Fault("DescribeVpcs", "InternalError", status=500, times=2)]
    assert list(Cloud(REGION).each("ec2", "describe_vpcs", "Vpcs"))
    assert len(PAUSES) == 2


def test_parameters_at_the_wrong_level_and_with_wrong_values_create_nothing(
    amazon: Simulator, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a name that is known only to the service
    monkeypatch.setattr("pgdyno.targets.aws.databases.schema.CLUSTER_LEVEL", frozenset())
    error = failed(tmp_path, aurora(root, parameters='{ autovacuum = "off", work_mem = "4MB" }'))
    assert "has no parameter autovacuum" in error.message
    assert "put those of the cluster under cluster_parameters" in (error.hint or "")
    error = failed(tmp_path, rds(root, parameters='{ checkpoint_timeout = "2h", work_mem = "1kB", autovacuum = "2" }'))
    assert "work_mem = 1 is outside of 64 to 2147483647; autovacuum = 2 is not one of 0, 1" in error.message
    error = failed(tmp_path, rds(root, parameters='{ ssl = "on", no_such = "1", work_mem = "4MB" }'))
    assert "parameter ssl cannot be changed on postgres18; postgres18 has no parameter no_such" in error.message
    assert not [each for each in amazon.calls if "Create" in each]
