"""Stages of a trial: a stage that fails ends its trial, not the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import psycopg

from pgdyno.errors import PgdynoError, StoreError
from pgdyno.experiment.stop import StopRunError
from pgdyno.records import Failure, Stage

T = TypeVar("T")


class StageFailedError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def stage(name: Stage, work: Callable[[], T]) -> T:
    """Return what `work` returns. Raises StageFailedError for its errors, but StopRunError and StoreError unchanged."""
    try:
        return work()
    except (StopRunError, StoreError):
        # they concern the whole run
        raise
    except PgdynoError as error:
        raise StageFailedError(Failure(stage=name, message=error.message, hint=error.hint)) from error
    except psycopg.Error as error:
        failure = Failure(stage=name, message=str(error).strip(), sqlstate=error.sqlstate)
        raise StageFailedError(failure) from error
