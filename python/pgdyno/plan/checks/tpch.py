"""What a plan with the workload tpch cannot have besides: it runs its queries once, in an order of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.errors import Problem
from pgdyno.plan.checks.excluded_keys import Excluded, check_excluded
from pgdyno.plan.model import TPCH, Workload
from pgdyno.plan.reading.plan_document import Document

_OWN_END = "a trial ends with its last refresh function"
_OWN_QUERIES = "it has queries and parameters of its own"
_NO_RATE = "a client runs one query after the other, without a rate"
_ONE_SIZE = "the size is workload.scale_factor"
_LIMIT = "remove it; session_settings.statement_timeout of a target limits a query"
REFUSED: Sequence[Excluded] = (
    (("workload", "scale"), _ONE_SIZE, "set scale_factor"),
    (("workload", "variables"), _OWN_QUERIES, "remove it"),
    (("trial", "duration"), _OWN_END, _LIMIT),
    (("trial", "transactions"), _OWN_END, "remove it"),
    (("trial", "warmup"), "it measures all queries from the first one on", "remove it; reset.prewarm fills caches"),
    (("trial", "max_errors"), "the first error ends the trial", "remove it"),
    (("trial", "reconnect"), "the first error ends the trial", "remove it"),
    (("trial", "ledger"), "it needs a script that writes the ledger's rows", "remove it"),
    (("phase",), _NO_RATE, "remove the phases"),
    (("search",), "its clients are streams of one test", "list the numbers of streams in sweep.clients"),
    (("probe", "profile"), "a profile is of a load of fixed length", "remove it"),
    (("generator",), "one engine runs all streams", "remove it: the load then starts from here"),
    (("generators",), "one engine runs all streams", "remove them"),
)
REFUSED_IN_SWEEPS: Sequence[Excluded] = (
    (("rate",), _NO_RATE, "remove it"),
    (("protocol",), "queries are sent in the simple protocol", "remove it"),
    (("scale",), _ONE_SIZE, "measure another scale factor with a plan of its own"),
    (("variables",), _OWN_QUERIES, "remove it"),
)
"""Also for each of `sweep.points`."""


def check_tpch(workload: Workload, document: Document) -> Iterator[Problem]:
    """Yields the keys of `document` that the workload tpch excludes."""
    if (workload.scripts, workload.dataset) != ([TPCH], TPCH):
        message = "defines scripts and dataset itself"
        yield document.problem(("workload", "name"), message, "remove scripts and dataset, or the name")
    points = document.at(("sweep", "points"))
    count = len(points) if isinstance(points, list) else 0
    sweeps = (("sweep",), *(("sweep", "points", number) for number in range(count)))
    in_sweeps = [((*sweep, *path), why, hint) for sweep in sweeps for path, why, hint in REFUSED_IN_SWEEPS]
    yield from check_excluded([*REFUSED, *in_sweeps], f'workload.name = "{TPCH}"', document)
    if document.at(("trial", "order")) == "duet":
        message = "compares two trials second by second, and queries of tpch take longer"
        yield document.problem(("trial", "order"), message, 'remove it, or set it to "interleaved"')
    if document.at(("reset", "method")) in ("vacuum", "none"):
        message = "leaves the tables as the refresh functions of the previous trial left them"
        yield document.problem(("reset", "method"), message, 'set it to "template", "snapshot" or "reload"')
