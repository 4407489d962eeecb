"""Generators that are waited for."""

from __future__ import annotations

import pytest

from pgdyno.cluster import cluster
from pgdyno.errors import EngineError


def test_who_is_waited_for_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "GATHER_S", 1.2)
    monkeypatch.setattr(cluster, "SILENT_S", 0.0)
    said: list[str] = []
    waiting = cluster.Cluster(2, list, lambda: None, said.append)
    with pytest.raises(EngineError, match="only 0 of 2 generators are available") as raised:
        waiting.gather()
    assert "check the missing hosts" in (raised.value.hint or "")
    assert said == ["only 0 of 2 generators are available; waiting 1.2 s for the others"]
