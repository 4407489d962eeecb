"""What a plan with `workload.replay` cannot have besides: a replay has its own statements, clients and times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.errors import Problem
from pgdyno.plan.checks.excluded_keys import Excluded, check_excluded
from pgdyno.plan.reading.plan_document import Document

_OWN_TIMES = "a replay has the times of its capture"
REFUSED: Sequence[Excluded] = (
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
    yield from check_excluded(REFUSED, "workload.replay", document)
