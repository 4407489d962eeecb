"""What a plan with `workload.replay` cannot have besides: a replay has its own statements, clients and times."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.errors import Problem
from pgdyno.plan.reading.plan_document import Document, KeyPath

_OWN_TIMES = "a replay has the times of its capture"
_WITH_REPLAY = "cannot be combined with workload.replay"
REFUSED: tuple[tuple[KeyPath, str, str], ...] = (
    (("sweep", "protocol"), "each statement is sent by the protocol with which it was captured", "remove it"),
    (("sweep", "rate"), _OWN_TIMES, "remove it; workload.pace makes the load faster or slower"),
    (("sweep", "scale"), "a replay has the data that it finds", "remove it; workload.scale is the size of a dataset"),
    (("sweep", "variables"), "a replay has no script with variables", "remove it"),
    (("sweep", "points"), "a replay has one number of clients", "sweep settings, or session_settings"),
    (("trial", "transactions"), _OWN_TIMES, "remove it; trial.duration replays the beginning only"),
    (("trial", "warmup"), "a warm-up would leave out the beginning of the capture", "remove it"),
    (("trial", "max_errors"), "errors that were captured happen again, and are no failures", "remove it"),
    (("trial", "ledger"), "it needs a script that writes the ledger's rows", "remove it"),
    (("phase",), _OWN_TIMES, "remove the phases; workload.pace makes the load faster or slower"),
    (("search",), "a replay has one number of clients and no rate", "remove it"),
    (("replica_load",), "its times would not be those of the replay", "remove it"),
    (("probe", "profile"), "a profile is of a short load, which a replay is not", "remove it"),
    (("generators",), "one engine replays all sessions of a capture", "remove them"),
    (("generator",), "the capture is on this machine", "remove it: the load then starts from here"),
)
"""Keys, why a replay cannot have them, and what to do. Values that change nothing, such as `warmup = "0s"`, pass."""


def check_replay(document: Document) -> Iterator[Problem]:
    """Yields the keys of `document` that a replay excludes, and the pace of a plan that replays nothing."""
    if document.at(("workload", "replay")) is None:
        if document.at(("workload", "pace")) is not None:
            hint = 'set replay = "FOLDER", or remove it; sweep.rate sets the rate of scripts'
            yield document.problem(("workload", "pace"), "is the speed of a replay", hint)
        return
    for path, why, hint in REFUSED:
        value = document.at(path)
        if value is None or value is False or value == [] or (path[-1] == "warmup" and value in ("0s", "0ms")):
            continue
        if path == ("generator",) and value == "here":
            continue
        yield document.problem(path, f"{_WITH_REPLAY}: {why}", hint)
