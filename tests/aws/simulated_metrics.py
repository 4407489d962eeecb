"""Metrics, sessions and logs that the simulated CloudWatch, Performance Insights and RDS return."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.aws.shapes import RefusedError

MINUTE_S = 60
CLOUDWATCH: Mapping[str, float] = {
    "CPUUtilization": 42.5, "DatabaseConnections": 3.0, "ReadIOPS": 100.0, "WriteIOPS": 250.0, "ReadThroughput": 8192.0,
    "WriteThroughput": 1e6, "ReadLatency": 0.0005, "WriteLatency": 0.002, "DiskQueueDepth": 1.5,
    "NetworkReceiveThroughput": 2e6, "NetworkTransmitThroughput": 3e6, "BurstBalance": 97.0,
}  # fmt: skip
"""Values for every database instance, in CloudWatch's units."""
HOST: Mapping[str, float] = {
    "CPUUtilization": 25.0, "EBSReadOps": 600.0, "EBSWriteOps": 12_000.0, "EBSReadBytes": 600 * 8192.0,
    "EBSWriteBytes": 12_000 * 8192.0, "NetworkIn": 6e6, "NetworkOut": 12e6,
}  # fmt: skip
VOLUME: Mapping[str, float] = {
    "VolumeReadOps": 0.0, "VolumeWriteOps": 6_000.0, "VolumeWriteBytes": 6_000 * 8192.0, "VolumeTotalReadTime": 0.0,
    "VolumeTotalWriteTime": 9.0, "VolumeQueueLength": 0.15, "VolumeIOPSExceededCheck": 1.0,
    "VolumeThroughputExceededCheck": 0.0,
}  # fmt: skip
"""Values for hosts and volumes; for metrics that pgdyno sums, the sum of a minute."""
BILLED: Mapping[str, float] = {"VolumeReadIOPs": 1_000.0, "VolumeWriteIOPs": 300_000.0}
"""The requests to the storage of a cluster in five minutes, which Amazon bills."""
NAMESPACES = {"AWS/RDS": CLOUDWATCH, "AWS/EC2": HOST, "AWS/EBS": VOLUME}
MEANS = {*CLOUDWATCH, *BILLED, "VolumeQueueLength", "VolumeIOPSExceededCheck", "VolumeThroughputExceededCheck"}
WAITS: Mapping[str, float] = {"CPU": 0.5, "IO:WALSync": 0.25, "Timeout:VacuumDelay": 0.0}
"""Active sessions in every second, by Performance Insights' name of the wait event."""
PORTION = 4000
"""The number of characters in one portion of a log."""


@dataclass
class Telling:
    """Answers the simulator's requests that moto does not have, by instance."""

    insights: dict[str, bool] = field(default_factory=dict)
    """Whether Performance Insights is on, by instance."""
    log: str = ""
    """The log of all instances, with RDS's log_line_prefix."""
    late: int = 0
    """The number of requests to each service in which the last period is still missing."""
    lost: frozenset[int] = frozenset()
    """Indexes of periods, from the first requested one, that are always missing."""
    looks: Counter[str] = field(default_factory=Counter)

    def heard(self, operation: str, parameters: Mapping[str, Any]) -> None:
        name = parameters.get("DBInstanceIdentifier")
        if operation in ("CreateDBInstance", "ModifyDBInstance") and "EnablePerformanceInsights" in parameters:
            self.insights[str(name)] = bool(parameters["EnablePerformanceInsights"])

    def described(self, instance: dict[str, Any]) -> None:
        """Adds the keys that moto does not keep to the description of an instance."""
        instance["PerformanceInsightsEnabled"] = self.insights.get(instance["DBInstanceIdentifier"], False)

    def _ends(self, operation: str, parameters: Mapping[str, Any], period_s: int) -> list[int]:
        self.looks[operation] += 1
        begin, end = (_seconds(parameters[each]) for each in ("StartTime", "EndTime"))
        assert begin % period_s == 0, "the start is on the period's grid"
        ends = range(begin + period_s, end + 1, period_s)
        there = [each for place, each in enumerate(ends) if place not in self.lost]
        return there[:-1] if self.looks[operation] <= self.late else there

    def GetMetricData(self, parameters: dict[str, Any], there: set[str]) -> dict[str, Any]:  # noqa: N802 - Amazon's
        found = []
        for query in parameters["MetricDataQueries"]:
            metric = query["MetricStat"]["Metric"]
            (instance,) = (each["Value"] for each in metric["Dimensions"])
            name, period_s = metric["MetricName"], MINUTE_S
            value = NAMESPACES[metric["Namespace"]].get(name) if instance in there else None
            if name in BILLED:
                assert metric["Dimensions"][0]["Name"] == "DBClusterIdentifier"
                value, period_s = BILLED[name], 5 * MINUTE_S
            assert query["MetricStat"]["Period"] == period_s
            if value is not None:
                assert query["MetricStat"]["Stat"] == ("Average" if name in MEANS else "Sum")
            times = self._ends(f"GetMetricData {query['Id']}", parameters, period_s) if value is not None else []
            told = {"Timestamps": [each - period_s for each in times], "Values": [value] * len(times)}
            found.append({"Id": query["Id"], "Label": name, "StatusCode": "Complete", **told})
        return {"MetricDataResults": found, "Messages": []}

    def GetResourceMetrics(self, parameters: dict[str, Any], there: set[str]) -> dict[str, Any]:  # noqa: N802
        del there
        if parameters["PeriodInSeconds"] != 1 or parameters["PeriodAlignment"] != "END_TIME":
            raise RefusedError("InvalidArgumentException", "this is not simulated")
        answer = {
            "Identifier": parameters["Identifier"],
            "AlignedStartTime": _seconds(parameters["StartTime"]),
            "AlignedEndTime": _seconds(parameters["EndTime"]),
        }
        # the sum is on the first page, the waits are on a second one
        if "NextToken" not in parameters:
            ends = self._ends("GetResourceMetrics", parameters, 1)
            key = {"Metric": "db.load.avg"}
            return {**answer, "MetricList": [_points(key, sum(WAITS.values()), ends)], "NextToken": "more"}
        ends = list(range(answer["AlignedStartTime"] + 1, answer["AlignedEndTime"] + 1))
        listed = [
            _points({"Metric": "db.load.avg", "Dimensions": _dimensions(name)}, value, ends)
            for name, value in WAITS.items()
        ]
        return {**answer, "MetricList": listed}

    def DescribeDBLogFiles(self, parameters: dict[str, Any], there: set[str]) -> dict[str, Any]:  # noqa: N802
        self._check(parameters, there)
        now_ms = round(datetime.now(UTC).timestamp() * 1000)
        files = [
            {"LogFileName": "error/postgres.log", "LastWritten": now_ms, "Size": 1},
            {"LogFileName": "error/postgresql.log.2020-01-01-00", "LastWritten": 1577836800000, "Size": 1},
            {"LogFileName": "error/postgresql.log.now", "LastWritten": now_ms, "Size": len(self.log)},
        ]
        wanted = parameters.get("FilenameContains", "")
        since = parameters.get("FileLastWritten", 0)
        return {
            "DescribeDBLogFiles": [
                each for each in files if wanted in str(each["LogFileName"]) and int(str(each["LastWritten"])) >= since
            ]
        }

    def DownloadDBLogFilePortion(self, parameters: dict[str, Any], there: set[str]) -> dict[str, Any]:  # noqa: N802
        self._check(parameters, there)
        if parameters["LogFileName"] != "error/postgresql.log.now":
            raise RefusedError("DBLogFileNotFoundFault", "no such file")
        begin = int(parameters["Marker"])
        end = begin + PORTION
        return {
            "LogFileData": self.log[begin:end],
            "Marker": str(min(end, len(self.log))),
            "AdditionalDataPending": end < len(self.log),
        }

    @staticmethod
    def _check(parameters: Mapping[str, Any], there: set[str]) -> None:
        if parameters["DBInstanceIdentifier"] not in there:
            raise RefusedError("DBInstanceNotFound", "no such instance")


def _seconds(moment: Any) -> int:
    at = moment if isinstance(moment, int | float) else datetime.fromisoformat(str(moment)).timestamp()
    assert at == math.floor(at), "a whole second"
    return int(at)


def _dimensions(name: str) -> dict[str, str]:
    return {"db.wait_event.name": name, "db.wait_event.type": name.partition(":")[0]}


def _points(key: Mapping[str, Any], value: float, ends: list[int]) -> dict[str, Any]:
    return {"Key": dict(key), "DataPoints": [{"Timestamp": each, "Value": value} for each in ends]}
