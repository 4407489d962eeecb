"""Figures that an imported trial may lack, and one of our own never does."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def told(figure: T | None) -> T:
    """`figure`, which is there."""
    assert figure is not None
    return figure
