"""A trial whose generator was lost: pgdyno repeats it, and trusts no remains of the lost load."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.experiment.generators import GeneratorLostError
from pgdyno.experiment.trials.trial_runner import TrialRunner
from pgdyno.plan import PlannedTrial
from pgdyno.records import TrialRecord

TRIAL = cast(PlannedTrial, SimpleNamespace(number=7, target="a", server="a", slug="0007-a"))
STORED = cast(TrialRecord, SimpleNamespace(failure=None))


def test_a_trial_without_a_generator_is_repeated_and_its_dataset_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: Iterator[GeneratorLostError | TrialRecord] = iter(
        [GeneratorLostError("generator 2 of 3 (b) was lost"), STORED]
    )

    def attempt(*_arguments: object) -> TrialRecord:
        found = next(attempts)
        if isinstance(found, GeneratorLostError):
            raise found
        return found

    monkeypatch.setattr(TrialRunner, "_prepare_and_measure", attempt)
    done: list[str] = []
    folder = SimpleNamespace(begin_trial=lambda slug: SimpleNamespace(abandon=lambda: done.append(f"abandon {slug}")))
    servers = SimpleNamespace(
        is_unavailable=lambda _target: False, forget=lambda target: done.append(f"forget {target}")
    )
    fakes: dict[str, Any] = {
        "context": SimpleNamespace(folder=folder),
        "progress": SimpleNamespace(note=lambda message: done.append(str(message))),
        "servers": servers,
        "generators": None,
        "hooks": None,
        "resources": SimpleNamespace(guard=None, left=None, rental=None),
        "captured": None,
    }
    assert TrialRunner(**fakes).run(TRIAL) is STORED
    assert done == ["abandon 0007-a", "forget a", "trial 7 runs again: generator 2 of 3 (b) was lost"]
