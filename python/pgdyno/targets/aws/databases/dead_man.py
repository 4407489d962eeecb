"""The dead-man switch of databases: schedules at Amazon that remove them once they have expired.

Nobody can log in to the host of a database, so that it cannot end itself as a host on EC2 does. EventBridge Scheduler
removes it instead, with a role of the account, even if pgdyno, its machine and its credentials are gone. A schedule
repeats, because the service refuses the removal of a database that is changing, and that of a cluster with an instance.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from pgdyno.messages import Message
from pgdyno.targets.aws.boto3_clients import AwsError, Cloud, ThereAlreadyError
from pgdyno.targets.aws.databases.schema import DEAD_MAN_ROLE
from pgdyno.targets.aws.inventory import APIS, Kind
from pgdyno.targets.aws.maker import Maker
from pgdyno.targets.aws.policy import dead_man_policy, dead_man_trust

EVERY = "rate(15 minutes)"
REPEATS_FOR = timedelta(days=1)
NONE = "none"
"""The plan's value for databases without a dead-man switch."""
_SERVERS = (Kind.DB_INSTANCE, Kind.DB_CLUSTER)
_THERE_ALREADY = "ConflictException"
_KEPT = ("Description", "FlexibleTimeWindow", "Name", "ScheduleExpression", "Target")
"""Members of a schedule's description that a request to change it has, too."""


def role_arn(partition: str, account: str, role: str) -> str:
    """Return the ARN of `role`, which is a name or already an ARN."""
    return role if role.startswith("arn:") else f"arn:{partition}:iam::{account}:role/{role}"


def guard(maker: Maker, role: str, kinds: tuple[Kind, ...], name: str | None = None) -> None:
    """Create schedules that remove the target's databases or snapshots of `kinds` after the run's expiry.

    `name` is theirs; None stands for the target's. Call it before they are created, so that no moment is without a
    switch. Raises AwsError.
    """
    if role == NONE:
        maker.warn(
            Message(
                "no-dead-man-switch",
                "{resource} has no dead-man switch: it runs, and costs money, until pgdyno removes it (pgdyno reap "
                "--run {run})",
                resource=maker.name,
                run=maker.journal.run,
            )
        )
        return
    name = name or maker.name
    for kind in kinds:
        # instance, cluster or snapshot
        schedule = f"{name}-{kind.rpartition(' ')[2]}"
        maker.note(Kind.SCHEDULE, schedule)
        try:
            maker.cloud.call("scheduler", "create_schedule", Name=schedule, **_schedule(maker, role, kind, name))
        except AwsError as error:
            # Names are random: an existing schedule comes from our own first attempt, whose response was lost.
            if error.code == _THERE_ALREADY:
                continue
            message = f"the database gets no dead-man switch: {error.message}"
            raise AwsError(message, code=error.code, hint=_remedy(role)) from error


def _remedy(role: str) -> str:
    make = "create its role once: pgdyno target dead-man" if role == DEAD_MAN_ROLE else f"see the role {role}"
    return f'{make}; or run without one, at your own risk: dead_man = "{NONE}" in the target'


def _schedule(maker: Maker, role: str, kind: Kind, name: str) -> dict[str, Any]:
    resource = APIS[kind].key.removesuffix("Identifier")
    # EventBridge Scheduler writes RDS's parameters as the AWS SDK for Java does: Db, not DB.
    parameter = f"Db{resource.removeprefix('DB')}Identifier"
    declined = {"SkipFinalSnapshot": True} if kind in _SERVERS else {}
    return {
        "Description": f"removes a {kind} of pgdyno, run {maker.journal.run}, once it has expired",
        "ScheduleExpression": EVERY,
        **_schedule_from(maker.journal.expires),
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {
            "Arn": f"arn:{maker.cloud.partition}:scheduler:::aws-sdk:rds:delete{resource}",
            "RoleArn": role_arn(maker.cloud.partition, maker.journal.account, role),
            "Input": json.dumps({parameter: name, **declined}),
            # The next repetition comes soon enough.
            "RetryPolicy": {"MaximumRetryAttempts": 0},
        },
    }


def _schedule_from(expires: datetime) -> dict[str, Any]:
    begin = max(expires, datetime.now(UTC)).replace(microsecond=0)
    return {"StartDate": begin, "EndDate": begin + REPEATS_FOR, "ActionAfterCompletion": "DELETE"}


def move(cloud: Cloud, name: str, expires: datetime) -> None:
    """Make the schedule `name` begin at `expires`. Raises AwsError."""
    found = cloud.call("scheduler", "get_schedule", Name=name)
    kept = {key: found[key] for key in _KEPT if key in found}
    cloud.call("scheduler", "update_schedule", **kept, **_schedule_from(expires))


class DeadManRole:
    """The role with which Amazon's scheduler removes databases; one for all runs of an account."""

    name = DEAD_MAN_ROLE

    def __init__(self, cloud: Cloud) -> None:
        """Asks for the account. Raises AwsError."""
        self._cloud = cloud
        self.documents = {"trust": dead_man_trust(cloud.identity().account), "policy": dead_man_policy()}

    def create(self) -> str:
        """Create the role, or correct the existing one; return what it did. Raises AwsError."""
        trust, policy = (json.dumps(self.documents[each]) for each in ("trust", "policy"))
        try:
            self._cloud.call("iam", "create_role", RoleName=self.name, AssumeRolePolicyDocument=trust)
            done = f"created the role {self.name}"
        except ThereAlreadyError:
            self._cloud.call("iam", "update_assume_role_policy", RoleName=self.name, PolicyDocument=trust)
            done = f"the role {self.name} existed; its policies are now as above"
        self._cloud.call("iam", "put_role_policy", RoleName=self.name, PolicyName=self.name, PolicyDocument=policy)
        return done
