"""Keys that a plan cannot have together with another one, with a replay, or with the workload tpch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.errors import Problem
from pgdyno.plan.model import TPCH, Workload
from pgdyno.plan.plan_document import Document, KeyPath

Excluded = tuple[KeyPath, str, str]
"""A key, why the plan cannot have it, and what to do."""


def check_excluded(excluded: Sequence[Excluded], with_what: str, document: Document) -> Iterator[Problem]:
    """Yields the keys of `document` that cannot be combined with `with_what`.

    Values that change nothing, such as `warmup = "0s"`, pass.
    """
    for path, why, hint in excluded:
        value = document.at(path)
        if value is None or value is False or value in ([], {}) or (path[-1] == "warmup" and value in ("0s", "0ms")):
            continue
        if path == ("generator",) and value == "here":
            continue
        yield document.problem(path, f"cannot be combined with {with_what}: {why}", hint)


_OWN_TIMES = "a replay has the times of its capture"
REFUSED_BY_REPLAY: Sequence[Excluded] = (
    (("sweep", "protocol"), "each statement is sent by the protocol with which it was captured", "remove it"),
    (("sweep", "rate"), _OWN_TIMES, "remove it; workload.pace makes the load faster or slower"),
    (
        ("sweep", "scale"),
        "a replay uses the data in the database",
        "remove it; workload.scale is the size of a dataset",
    ),
    (("sweep", "variables"), "a replay has no script with variables", "remove it"),
    (("sweep", "points"), "a replay has one number of clients", "sweep settings, or session_settings"),
    (("trial", "transactions"), _OWN_TIMES, "remove it; trial.duration replays the beginning only"),
    (("trial", "warmup"), "a warm-up would leave out the beginning of the capture", "remove it"),
    (("trial", "max_errors"), "errors that were captured happen again, and are no failures", "remove it"),
    (("trial", "ledger"), "it needs a script that writes the ledger's rows", "remove it"),
    (("phase",), _OWN_TIMES, "remove the phases; workload.pace makes the load faster or slower"),
    (("search",), "a replay has one number of clients and no rate", "remove it"),
    (("replica_load",), "its times would not be those of the replay", "remove it"),
    (("probe", "profile"), "a profile samples a short load of its own, which a replay cannot have", "remove it"),
    (("generators",), "one engine replays all sessions of a capture", "remove them"),
    (("generator",), "the capture is on this machine", "remove it: the load then starts from here"),
)


def check_replay(document: Document) -> Iterator[Problem]:
    """Yields the keys of `document` that a replay excludes, and the pace of a plan that replays nothing."""
    if document.at(("workload", "replay")) is None:
        if document.at(("workload", "pace")) is not None:
            hint = 'set replay = "FOLDER", or remove it; sweep.rate sets the rate of scripts'
            yield document.problem(("workload", "pace"), "is the speed of a replay", hint)
        return
    yield from check_excluded(REFUSED_BY_REPLAY, "workload.replay", document)


_OWN_END = "a trial ends with its last refresh function"
_OWN_QUERIES = "it has queries and parameters of its own"
_NO_RATE = "a client runs one query after the other, without a rate"
_ONE_SIZE = "the size is workload.scale_factor"
_LIMIT = "remove it; session_settings.statement_timeout of a target limits a query"
REFUSED_BY_TPCH: Sequence[Excluded] = (
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
REFUSED_BY_TPCH_SWEEPS: Sequence[Excluded] = (
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
    in_sweeps = [((*sweep, *path), why, hint) for sweep in sweeps for path, why, hint in REFUSED_BY_TPCH_SWEEPS]
    yield from check_excluded([*REFUSED_BY_TPCH, *in_sweeps], f'workload.name = "{TPCH}"', document)
    if document.at(("trial", "order")) == "duet":
        message = "compares two trials second by second, and queries of tpch take longer"
        yield document.problem(("trial", "order"), message, 'remove it, or set it to "interleaved"')
    if document.at(("reset", "method")) in ("vacuum", "none"):
        message = "leaves the tables as the refresh functions of the previous trial left them"
        yield document.problem(("reset", "method"), message, 'set it to "template", "snapshot" or "reload"')
