"""`storage.snapshot`: the possible snapshot methods in the cluster's folder."""

from __future__ import annotations

from pgdyno.doctor.check import good, note, stop, unknown
from pgdyno.doctor.needs import Place
from pgdyno.plan.snapshot_checks import folder_refusal
from pgdyno.plan.snapshot_words import SnapshotWay
from pgdyno.records import Check
from pgdyno.targets.cluster_copy import WORDS, best_way, refusal_of

NAME = "storage.snapshot"


def snapshot(place: Place, wanted: SnapshotWay | None) -> Check:
    """Tries methods in `place` with temporary files; `wanted` is the plan's reset.snapshot."""
    try:
        if wanted is not None:
            reason = folder_refusal(wanted, place.path) or refusal_of(wanted, place.path, kept=place.kept)
            if reason is not None:
                means = f'reset.snapshot = "{wanted}" cannot be followed'
                change = "remove reset.snapshot, or put the data on such a file system (environment.data)"
                return stop(NAME, f"{place.title}: {reason}", means, change)
        way = wanted or best_way(place.path, kept=place.kept)
    except OSError as error:
        return unknown(NAME, f"{place.title}: cannot write there: {error.strerror}")
    found = f"{place.title}: {WORDS[way]}"
    if way == "copy":
        means = "every trial waits for a copy of the whole cluster, which needs the same disk space again"
        return note(NAME, found, means, "put the data on XFS or btrfs (environment.data), where files can share blocks")
    return good(NAME, found)
