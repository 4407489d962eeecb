"""A part of a trial that may fail, and then ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import psycopg

from pgdyno.errors import PgdynoError
from pgdyno.experiment.stop import StopRunError
from pgdyno.records import Failure, Stage

T = TypeVar("T")


class StageFailedError(Exception):
    """The trial is none, for this reason."""

    def __init__(self, failure: Failure) -> None:
        """Of this failure."""
        super().__init__(failure.message)
        self.failure = failure


def stage(name: Stage, work: Callable[[], T]) -> T:
    """What `work` gives. Raises StageFailedError for what is wrong with it, StopRunError as it is."""
    try:
        return work()
    except StopRunError:
        raise
    except PgdynoError as error:
        raise StageFailedError(Failure(stage=name, message=error.message, hint=error.hint)) from error
    except psycopg.Error as error:
        failure = Failure(stage=name, message=str(error).strip(), sqlstate=error.sqlstate)
        raise StageFailedError(failure) from error
