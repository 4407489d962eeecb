"""Database instances that exist without a plan."""

from pgdyno.targets.aws.boto3_clients import Cloud
from tests.aws.simulator import REGION


def make_instance(name: str) -> None:
    """Creates the instance `name` with Performance Insights."""
    Cloud(REGION).call(
        "rds",
        "create_db_instance",
        DBInstanceIdentifier=name,
        DBInstanceClass="db.m7g.large",
        Engine="postgres",
        EngineVersion="18.1",
        AllocatedStorage=20,
        MasterUsername="pgdyno",
        MasterUserPassword="a password of theirs",
        EnablePerformanceInsights=True,
    )
