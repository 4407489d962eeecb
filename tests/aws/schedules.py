"""EventBridge Scheduler of the simulated account: schedules, and their actions when they are due."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.aws.shapes import RefusedError

SERVICE = "scheduler"
ROLE = "pgdyno-dead-man"
Answer = dict[str, Any]
_OPERATIONS = {"POST": "CreateSchedule", "GET": "GetSchedule", "PUT": "UpdateSchedule", "DELETE": "DeleteSchedule"}
_TARGETS = "arn:aws:scheduler:::aws-sdk:rds:"


@dataclass
class Schedules:
    """All schedules of the account, and the roles that Amazon's scheduler may take."""

    roles: set[str] = field(default_factory=lambda: {ROLE})
    all: dict[str, Answer] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    """Errors of requests that schedules made."""

    def understood(self, method: str, path: str, body: str) -> tuple[str, Answer]:
        split = urlsplit(path)
        name = unquote(split.path.removeprefix("/schedules").removeprefix("/"))
        operation = _OPERATIONS[method] if name else "ListSchedules"
        given: Answer = json.loads(body) if body else {}
        given |= {key[0].upper() + key[1:]: value for key, value in parse_qsl(split.query)}
        given |= {"Name": name} if name else {}
        return operation, given

    def CreateSchedule(self, asked: Answer) -> Answer:  # noqa: N802 - Amazon's names, here and below
        if asked["Name"] in self.all:
            raise RefusedError("ConflictException", f"Schedule {asked['Name']} already exists.")
        return self._kept(asked)

    def UpdateSchedule(self, asked: Answer) -> Answer:  # noqa: N802
        self._known(asked)
        return self._kept(asked)

    def GetSchedule(self, asked: Answer) -> Answer:  # noqa: N802
        return {key: value for key, value in self._known(asked).items() if key != "ClientToken"}

    def DeleteSchedule(self, asked: Answer) -> Answer:  # noqa: N802
        self._known(asked)
        del self.all[asked["Name"]]
        return {}

    def ListSchedules(self, asked: Answer) -> Answer:  # noqa: N802
        found = sorted(name for name in self.all if name.startswith(asked.get("NamePrefix", "")))
        return {"Schedules": [{"Name": name, "State": "ENABLED"} for name in found]}

    def _known(self, asked: Answer) -> Answer:
        if asked["Name"] not in self.all:
            raise RefusedError("ResourceNotFoundException", f"Schedule {asked['Name']} does not exist.")
        return self.all[asked["Name"]]

    def _kept(self, asked: Answer) -> Answer:
        if asked["Target"]["RoleArn"].rpartition("/")[2] not in self.roles:
            message = "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."
            raise RefusedError("ValidationException", message)
        assert asked["FlexibleTimeWindow"] == {"Mode": "OFF"}
        assert asked["ActionAfterCompletion"] == "DELETE"
        self.all[asked["Name"]] = asked
        return {"ScheduleArn": f"arn:aws:scheduler:eu-central-1:123456789012:schedule/default/{asked['Name']}"}

    def come(self, now: datetime, ask: Callable[[str, Answer], Answer]) -> None:
        """Lets the schedules whose time has come at `now` make their request once, as one repetition does.

        `ask` carries out an operation of RDS.
        """
        for name, each in list(self.all.items()):
            if _moment(each["StartDate"]) > now:
                continue
            target = each["Target"]["Arn"]
            assert target.startswith(_TARGETS)
            operation = target.removeprefix(_TARGETS).replace("delete", "Delete")
            given = json.loads(each["Target"]["Input"])
            # the universal targets have the names of the AWS SDK for Java, unlike the service itself:
            # https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html
            assert not any(key.startswith("DB") for key in given)
            asked = {key.replace("Db", "DB"): value for key, value in given.items()}
            try:
                ask(operation, asked)
            except RefusedError as error:
                self.refused.append(error.code)
            if _moment(each["EndDate"]) <= now:
                del self.all[name]


def _moment(value: float | str) -> datetime:
    return datetime.fromtimestamp(float(value), UTC)
