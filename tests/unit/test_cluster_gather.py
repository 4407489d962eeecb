"""Waiting for several generators."""

import pytest

from pgdyno.errors import EngineError
from pgdyno.generators import generator_lifecycle


@pytest.mark.slow
def test_waiting_for_generators_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator_lifecycle, "GATHER_S", 1.2)
    monkeypatch.setattr(generator_lifecycle, "SILENT_S", 0.0)
    said: list[str] = []
    waiting = generator_lifecycle.Cluster(2, list, lambda: None, said.append)
    with pytest.raises(EngineError, match="only 0 of 2 generators are available") as raised:
        waiting.gather()
    assert "check the missing hosts" in (raised.value.hint or "")
    assert said == ["only 0 of 2 generators are available; waiting 1.2 s for the others"]
