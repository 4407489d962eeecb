"""Figures that an imported trial may lack, but pgdyno's own trials always have."""

from typing import TypeVar

T = TypeVar("T")


def present(figure: T | None) -> T:
    assert figure is not None
    return figure
