"""A first run that is a warm-up by its length, where no text says so."""

from collections.abc import Sequence
from itertools import groupby

from pgdyno.importers.documents.repeats import settings_of
from pgdyno.importers.parsed import Output

SHORT = 0.25
"""A first run is a warm-up if its length is at most this share of the length of all that follow."""


def mark_short_first(outputs: Sequence[Output]) -> None:
    """Mark the first of outputs that no text separates, if it alone is short and all others have equal lengths."""
    for _, group in groupby(
        outputs, key=lambda output: (output.tool, output.place, output.section, output.server, settings_of(output))
    ):
        run = list(group)
        lengths = [output.duration_s or output.transactions_per_client or 0.0 for output in run]
        if len(run) < 2 or run[0].tool != "pgbench" or len(set(lengths[1:])) != 1:
            continue
        if 0 < lengths[0] <= SHORT * lengths[1]:
            run[0].warmup = run[0].warmup or f"the first, and {100 * lengths[0] / lengths[1]:.0f} % as long as the next"
