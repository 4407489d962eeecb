"""Which wrappers a log has, from its beginning."""

from collections.abc import Callable, Sequence
from itertools import islice, pairwise

from pgdyno.capture.logs.wrappers.known_wrappers import WRAPPERS
from pgdyno.capture.logs.wrappers.piece import Wrapper
from pgdyno.capture.logs.wrappers.unwrap import Unwrapping, pieces
from pgdyno.errors import UsageError

_MOST_LAYERS = 3
_MOST_PIECES = 5000


def find_wrappers(
    head: Sequence[tuple[int, bytes]], year: int, is_log: Callable[[str, bool], bool], layers: int = _MOST_LAYERS
) -> list[Unwrapping]:
    """Return the wrappers of a log that begins with the lines `head`, the outermost first; none if it has none.

    `is_log` tells whether a text has an entry, perhaps with the time and process of a wrapper before it. Raises
    UsageError for a log of several servers, and for one whose newest lines come first.
    """
    for wrapper in WRAPPERS if layers else ():
        found = list(islice(pieces(iter(head), wrapper), _MOST_PIECES))
        wrapped = [piece for _, piece, is_wrapped in found if is_wrapped]
        # the lines of a long statement may have no wrapper
        if not wrapped or 10 * len(wrapped) < len(found):
            continue
        hits: list[list[Unwrapping]] = []
        for source in dict.fromkeys(piece.source for piece in wrapped):
            hit = _layers(head, wrapper, source, year, is_log, layers)
            if hit:
                hits.append(hit)
        if len(hits) > 1:
            names = " and ".join(each[0].source.decode("utf-8", "replace") for each in hits[:2])
            raise UsageError(
                f"the log has lines of several servers: {names}", hint="capture the log of each server separately"
            )
        if hits:
            stamps = [piece.stamp for piece in wrapped if piece.source == hits[0][0].source and piece.stamp]
            if sum(after < before for before, after in pairwise(stamps)) > len(stamps) // 2:
                raise UsageError(
                    "the newest lines of the log come first",
                    hint="export it in the order of time: --order=asc of gcloud logging read, jq reverse, or tac",
                )
            return hits[0]
    return []


def _layers(
    head: Sequence[tuple[int, bytes]],
    wrapper: Wrapper,
    source: bytes,
    year: int,
    is_log: Callable[[str, bool], bool],
    layers: int,
) -> list[Unwrapping]:
    for stamped in (False, True):
        layer = Unwrapping(wrapper, source, stamped=stamped, year=year)
        lines = list(layer.lines(iter(head)))
        if is_log(b"".join(line for _, line in lines).decode("utf-8", "replace"), stamped):
            return [Unwrapping(wrapper, source, stamped=stamped, year=year)]
        if not stamped and (inner := find_wrappers(lines, year, is_log, layers - 1)):
            return [Unwrapping(wrapper, source, stamped=False, year=year), *inner]
    return []
