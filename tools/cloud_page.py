"""Generates the reference of what Amazon measures, and of what a selftest tries, from the package for Amazon."""

from collections.abc import Iterable

from pgdyno.targets.aws.observe.cloudwatch import DATABASE, HOST, LATENCIES, VOLUME, Counted
from pgdyno.targets.aws.observe.reports import METRICS as INSIGHTS
from pgdyno.targets.aws.selftest import ALL, CHECKS

PAGE = """\
# Metrics of Amazon, and checks of the selftest

[Data about a rented server](cloud.md#data-about-a-rented-server) says when pgdyno reads these metrics.

## cloudwatch

Averages over the minute. What an instance does not have is absent.

| metric | Amazon's name | unit | meaning |
|---|---|---|---|
{database}

### Of a host

Sums over the minute, divided to per-second values.

| metric | Amazon's name | unit | meaning |
|---|---|---|---|
{host}

### Of each of its volumes

With the label `volume`: `root`, `data` or `wal`. Latency is the number of requests in flight divided by the arrival \
rate (Little's law); a minute without requests has none. If the demand on a volume exceeded its limits, the run's \
notes say in how many minutes.

| metric | Amazon's name | unit | meaning |
|---|---|---|---|
{volume}
{latencies}

## insights

Averages over the second. Waits without sessions are left out.

| metric | unit | meaning |
|---|---|---|
{insights}

## Checks of the selftest

`pgdyno target selftest` [tries these](../guides/aws.md#what-is-tested-and-what-needs-a-real-account).

| check | what is tried | kinds |
|---|---|---|
{checks}
"""


def page() -> str:
    """Returns the page in Markdown."""
    return PAGE.format(
        database=_counted(DATABASE),
        host=_counted(HOST),
        volume=_counted(VOLUME),
        latencies=_rows((f"`{metric}`", f"`{up}` / `{by}`", "ms", text) for metric, up, by, text in LATENCIES),
        insights=_rows((f"`{metric}`", unit, meaning) for metric, unit, meaning in INSIGHTS),
        checks=_rows(
            (f"`{each.key}`", each.what, "all" if each.kinds == ALL else ", ".join(each.kinds)) for each in CHECKS
        ),
    )


def _counted(metrics: Iterable[Counted]) -> str:
    return _rows((f"`{each.metric}`", f"`{each.name}`", each.unit, each.meaning) for each in metrics)


def _rows(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
