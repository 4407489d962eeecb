"""Classes of waits, and the colour and letter of each: as in the active-session charts that people know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WaitClass:
    """What waits have in common. `style` is one of the terminal's own colours, right on dark and light ground."""

    name: str
    style: str
    letter: str
    """Where there are no colours."""


CLASSES = (
    WaitClass("CPU", "green", "C"),
    WaitClass("IO", "blue", "I"),
    WaitClass("WAL", "yellow", "W"),
    WaitClass("Lock", "red", "L"),
    WaitClass("LWLock", "magenta", "M"),
    WaitClass("Client", "bright_black", "N"),
    WaitClass("other", "cyan", "o"),
)
"""From the bottom of the chart up."""
BY_NAME = {each.name: each for each in CLASSES}


def class_of(kind: str, event: str) -> str:
    """The class of a wait: its type, but WAL is one of its own, and rare types are `other`."""
    if event.lower().startswith("wal"):
        return "WAL"
    return kind if kind in BY_NAME else "other"


def style_of(wait: str) -> str:
    """The colour of a wait by its name, `type:event`."""
    kind, _, event = wait.partition(":")
    return BY_NAME[class_of(kind, event)].style
