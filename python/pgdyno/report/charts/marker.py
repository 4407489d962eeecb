"""Marks at a measured point: one shape per series, so that colour is not the only distinction."""

from __future__ import annotations

from markupsafe import Markup

from pgdyno.report.palette import MARKERS, Look
from pgdyno.report.svg import element, line, number

RADIUS = 4.0


def marker(x: float, y: float, look: Look, tooltip: str | None = None, radius: float = RADIUS) -> Markup:
    """Draw the mark of `look` at a position, with a `tooltip`."""
    hint = [element("title", tooltip)] if tooltip is not None else []
    shape = MARKERS[look.shape]
    if shape == "circle":
        return element("circle", *hint, cx=x, cy=y, r=radius, class_=look.mark)
    outline = {
        "square": [(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
        "triangle": [(0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
        "diamond": [(0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)],
        "down": [(0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
        "cross": [
            (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4),
            (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4),
        ],
    }[shape]  # fmt: skip
    steps = " ".join(f"{number(x + dx * radius)},{number(y + dy * radius)}" for dx, dy in outline)
    return element("path", *hint, d=f"M{steps}Z", class_=look.mark)


def whisker(x: float, low: float, high: float, look: Look, cap: float = 3.5) -> Markup:
    """Draw an upright interval with caps, between two heights."""
    class_ = f"w t{look.colour}"
    return (
        line(x, low, x, high, class_)
        + line(x - cap, low, x + cap, low, class_)
        + line(x - cap, high, x + cap, high, class_)
    )
