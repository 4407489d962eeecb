"""The removal at the end: whatever becomes of it, what may be left is named, with how to remove it."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.errors import TargetError
from pgdyno.target.aws.life import Rental
from pgdyno.target.aws.reaper import left_lines

Say = Callable[[str], None]


def take_down(rental: Rental, say: Say) -> int | None:
    """Removes all that `rental` made; how much is left, None where nobody could look.

    An error of Amazon's is said and not raised: it must not stand before the one that this is done for.
    """
    run = rental.journal.run
    try:
        return removed(rental, say)
    except BaseException as error:
        why = error.message if isinstance(error, TargetError) else "their removal was interrupted"
        say(f"servers of run {run} may still be there: {why}; remove them: pgdyno reap --run {run}")
        if isinstance(error, TargetError):
            return None
        raise


def removed(rental: Rental, say: Say) -> int:
    """Removes all that `rental` made, and says what is left; how much that is. Raises TargetError."""
    left = rental.down()
    for line in left_lines(left):
        say(line)
    if left:
        say(f"try again: pgdyno reap --run {rental.journal.run}")
    return len(left)
