"""What a rental has cost so far, by its time and by the requests to Aurora's storage that Amazon has counted."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pgdyno.targets.aws.boto3_clients import AwsError, Cloud
from pgdyno.targets.aws.observe.cloudwatch import Counted, Subject, metric_query
from pgdyno.targets.aws.pricing.prices import Prices
from pgdyno.targets.aws.pricing.rental_costs import MOST_IO, io_usage
from pgdyno.targets.rented.estimate import ONCE, Item
from pgdyno.targets.rented.rental import Load, is_generator

LEAST_H = 1 / 6
"""The hours that Amazon bills at least for a database server: ten minutes."""
PERIOD_S = 300
"""The period for which CloudWatch has the billed requests of a cluster."""
_BILLED = (
    Counted("VolumeReadIOPs", "", "count", "billed read requests"),
    Counted("VolumeWriteIOPs", "", "count", "billed write requests"),
)


@dataclass(frozen=True, slots=True)
class RequestMeter:
    """Counts the billed requests to the storage of a cluster."""

    cloud: Cloud
    cluster: str
    processors: int
    prices: Prices

    @property
    def most_per_s(self) -> float:
        """The most requests per second that pgdyno expects."""
        return MOST_IO * self.processors

    @property
    def rate(self) -> float | None:
        """USD per request; None if unknown."""
        found = self.prices.rate(io_usage(self.cloud.region))
        return None if found is None else found.amount

    def cost(self, since: datetime, now: datetime, busy_since: datetime | None = None) -> float | None:
        """Return USD from `since` to `now`; None if the price is unknown.

        With `busy_since`, the start of the load, periods after it for which CloudWatch has nothing yet count with the
        most that pgdyno expects.
        """
        rate = self.rate
        if rate is None:
            return None
        counted, until = self._count_requests(since, now)
        late_s = 0.0 if busy_since is None else max(0.0, (now - max(until, busy_since)).total_seconds())
        return rate * (counted + self.most_per_s * late_s)

    def _count_requests(self, since: datetime, now: datetime) -> tuple[float, datetime]:
        begin = datetime.fromtimestamp(since.timestamp() // PERIOD_S * PERIOD_S, since.tzinfo)
        subject = Subject("AWS/RDS", "DBClusterIdentifier", self.cluster, _BILLED)
        queries = [metric_query(f"m{place}", subject, each, PERIOD_S) for place, each in enumerate(_BILLED)]
        total, until = 0.0, since
        try:
            found = self.cloud.list_elements(
                "cloudwatch",
                "get_metric_data",
                "MetricDataResults",
                MetricDataQueries=queries,
                StartTime=begin,
                EndTime=now.replace(microsecond=0),
            )
            for each in found:
                total += math.fsum(each.get("Values", ()))
                ends = [at + timedelta(seconds=PERIOD_S) for at in each.get("Timestamps", ())]
                until = max([until, *ends])
        except AwsError:
            return 0.0, since
        return total, until


def accrued_cost(
    items: Sequence[Item],
    since: Mapping[str, datetime],
    requests: Mapping[str, RequestMeter | None],
    now: datetime,
    load: Load,
    released: Mapping[str, datetime],
) -> tuple[float, float] | None:
    """Return what `items` have cost in USD until `now`, and what they could after the next trial of `load`.

    `since` has the times of the requests for servers and generators, by name, `released` those of their removal before
    `now`. None if a price is unknown.
    """
    if any(each.rate is None for each in items):
        return None
    generators = [moment for name, moment in since.items() if is_generator(name)]
    so_far = then = 0.0
    for each in items:
        begin = since.get(each.target) or min(generators, default=now)
        is_there = each.target not in released
        until = released.get(each.target, now)
        hours, hourly = max(LEAST_H, (until - begin).total_seconds() / 3600), each.hourly or 0.0
        if each.unit not in ONCE:
            so_far += hours * hourly
            then += (hours + is_there * (load.busy_s + load.idle_s) / 3600) * hourly
    for name, meter in requests.items():
        if meter is not None:
            paid = meter.cost(since[name], released.get(name, now), load.since)
            if paid is None:
                return None
            so_far += paid
            then += paid + (name not in released) * (meter.rate or 0.0) * meter.most_per_s * load.busy_s
    return so_far, then
