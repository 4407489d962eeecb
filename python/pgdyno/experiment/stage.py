"""A part of a trial that may fail, and then ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import psycopg

from pgdyno.errors import PgdynoError, StoreError
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
    """What `work` gives. Raises StageFailedError for what is wrong with it, StopRunError and StoreError as they are."""
    try:
        return work()
    except (StopRunError, StoreError):
        # these are no matter of one trial
        raise
    except PgdynoError as error:
        raise StageFailedError(Failure(stage=name, message=error.message, hint=error.hint)) from error
    except psycopg.Error as error:
        failure = Failure(stage=name, message=str(error).strip(), sqlstate=error.sqlstate)
        raise StageFailedError(failure) from error
