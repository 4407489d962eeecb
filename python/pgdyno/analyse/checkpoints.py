"""Checkpoint cycles of a trial, and throughput within them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pgdyno.analyse.probed import Probed
from pgdyno.analyse.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Cycle:
    """From the start of one checkpoint to that of the next, or to the ends of the trial."""

    from_s: float
    to_s: float
    """Seconds since the trial began."""
    whole: bool
    """Whether both ends are starts of checkpoints."""
    tps: float | None
    """Mean over its measured seconds; None if it has none."""
    full_page_images: float | None
    """Share of the cycle's full-page images that fall into its first tenth: near 1 if each page is written in full
    once, soon after the checkpoint. None if there are none, or the server does not report them.
    """


def checkpoint_cycles(timeline: Timeline, probe: Probed) -> list[Cycle]:
    """Return the checkpoint cycles of `timeline`; one incomplete cycle if no checkpoint began.

    The probe's counters (`timed`, `requested`) show in which second a checkpoint began, so the bounds are accurate to a
    second.
    """
    if not timeline.seconds:
        return []
    begin, end = timeline.seconds[0].from_s, timeline.seconds[-1].to_s
    begins = sorted(
        {
            (row.t_us - probe.origin_us) / 1e6
            for metric in ("timed", "requested")
            for row in probe.samples("checkpoints", metric, (begin, end))
            if row.value > 0
        }
    )
    edges = [begin, *begins, end]
    return [
        _cycle(timeline, probe, a, b, whole=0 < at < len(edges) - 2)
        for at, (a, b) in enumerate(pairwise(edges))
        if b > a
    ]


def _cycle(timeline: Timeline, probe: Probed, begin: float, end: float, *, whole: bool) -> Cycle:
    inside = [each for each in timeline.measured() if each.from_s >= begin and each.to_s <= end + 0.5]
    seconds = sum(each.to_s - each.from_s for each in inside)
    done = sum(each.tps * (each.to_s - each.from_s) for each in inside)
    images = probe.amount("wal", "full_page_images", (begin, end))
    first = probe.amount("wal", "full_page_images", (begin, begin + (end - begin) / 10))
    return Cycle(
        begin,
        end,
        whole,
        done / seconds if seconds else None,
        first / images if images and first is not None else None,
    )
