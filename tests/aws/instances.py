"""Databases and snapshots that exist without a plan."""

from pgdyno.targets.aws.boto3_clients import Cloud
from tests.aws.simulator import REGION, Simulator

_OWN = {"EngineVersion": "18.1", "MasterUsername": "pgdyno", "MasterUserPassword": "a password of theirs"}


def make_instance(name: str) -> None:
    """Creates the instance `name` with Performance Insights."""
    size = {"DBInstanceClass": "db.m7g.large", "AllocatedStorage": 20, "EnablePerformanceInsights": True}
    Cloud(REGION).call("rds", "create_db_instance", DBInstanceIdentifier=name, Engine="postgres", **size, **_OWN)


def take_snapshot(simulator: Simulator, name: str, kind: str = "rds") -> None:
    """Takes the snapshot `name` of the server `theirs`."""
    simulator.administrator = True
    if kind == "aurora":
        cluster = {"DBClusterIdentifier": "theirs"}
        Cloud(REGION).call("rds", "create_db_cluster", **cluster, Engine="aurora-postgresql", **_OWN)
        simulator.finish_changes()
        Cloud(REGION).call("rds", "create_db_cluster_snapshot", **cluster, DBClusterSnapshotIdentifier=name)
    else:
        make_instance("theirs")
        simulator.finish_changes()
        Cloud(REGION).call("rds", "create_db_snapshot", DBInstanceIdentifier="theirs", DBSnapshotIdentifier=name)
    simulator.finish_changes()
    simulator.administrator = False
