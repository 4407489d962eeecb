"""SVG elements with escaped content, and drawings with descriptions.

Colours are CSS classes (`palette.py`), never attributes: a page sets them for light and dark, and `Drawing.standalone`
carries its own for use outside of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

FONT_SIZE = 13.0
"""Of every label, in the drawing's own units."""


def number(value: float) -> str:
    """Return a coordinate: one decimal, no trailing zero."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def element(tag: str, *children: str, **attributes: str | float | None) -> Markup:
    """Return `<tag attributes>children</tag>`: text is escaped, Markup is inserted unchanged.

    An attribute's `_` becomes `-`, except one at the end (`class_`); None leaves it out.
    """
    parts = [f"<{tag}"]
    for name, value in attributes.items():
        if value is not None:
            text = value if isinstance(value, str) else number(value)
            parts.append(f' {name.rstrip("_").replace("_", "-")}="{escape(text)}"')
    inner = "".join(escape(child) for child in children)
    parts.append(f">{inner}</{tag}>" if inner else "/>")
    return Markup("".join(parts))  # noqa: S704 - every part was escaped above


def text(x: float, y: float, content: str, class_: str = "tick", anchor: str = "start") -> Markup:
    """Draw a label with its baseline at `y`."""
    return element("text", content, x=x, y=y, class_=class_, text_anchor=None if anchor == "start" else anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(points: Sequence[tuple[float, float]], class_: str, *, close: bool = False) -> Markup:
    """Draw a line through `points`."""
    steps = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    return element("path", d=f"M{steps}{'Z' if close else ''}", class_=class_)


def text_width(content: str, size: float = FONT_SIZE * 1.08) -> float:
    """Estimate the width of `content` in bold; an overestimate, so that labels do not touch."""
    narrow = sum(character in " .,:;'|!()[]ijlt" for character in content)
    wide = sum(character in "MWmw@%" or ord(character) > 0x2E80 for character in content)
    return size * (0.62 * (len(content) - narrow - wide) + 0.33 * narrow + 0.95 * wide)


def shortened(content: str, width: float) -> str:
    """Return `content`, cut with an ellipsis to fit `width`."""
    if text_width(content) <= width:
        return content
    kept = content
    while kept and text_width(kept + "…") > width:
        kept = kept[:-1]
    return kept.rstrip(" ,-") + "…"


def squeezed(content: str, width: float) -> str:
    """Return `content`, cut in the middle: names of one run often differ at their ends."""
    if text_width(content) <= width:
        return content
    middle, left_out = len(content) // 2, 1
    while left_out < len(content) - 2:
        head = content[: middle - left_out // 2].rstrip(" ,-")
        shown = head + "…" + content[middle + (left_out + 1) // 2 :].lstrip(" ,-")
        if text_width(shown) <= width:
            return shown
        left_out += 1
    return shortened(content, width)


@dataclass(slots=True)
class Drawing:
    """A drawing under construction."""

    width: float
    height: float
    title: str
    """The sentence that it supports."""
    description: str
    """A description for screen readers; the table has the figures."""
    parts: list[Markup] = field(default_factory=list)

    def add(self, *parts: Markup) -> None:
        """Draw `parts` over the existing content."""
        self.parts += parts

    def render(self, name: str, class_: str = "chart", style: str | None = None) -> Markup:
        """Render the SVG; `name` must be unique on its page. `style` is CSS to include."""
        title, description = f"{name}-title", f"{name}-desc"
        return element(
            "svg",
            element("title", self.title, id=title),
            element("desc", self.description, id=description),
            *([element("style", Markup(style))] if style is not None else []),  # noqa: S704 - our own CSS
            *self.parts,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {number(self.width)} {number(self.height)}",
            class_=class_,
            role="img",
            aria_labelledby=f"{title} {description}",
        )
