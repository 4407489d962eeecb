"""The picture of a run for links to its page (Open Graph): its answer and the chart that proves it, as PNG."""

from functools import cache

from markupsafe import Markup

from pgdyno.report.charts import palette
from pgdyno.report.charts.palette import Theme
from pgdyno.report.charts.svg import element, in_lines, shorten_end, text
from pgdyno.report.sections.draft import Draft
from pgdyno.safe_output import visible

WIDTH, HEIGHT, EDGE = 1200, 630, 56
TITLE, SMALL = 2.8, 1.7
"""Sizes of text, relative to that of labels."""
MOST_LINES = 3
_CHART_TOP, _CHART_HEIGHT = 214, 350


def picture(draft: Draft, machine: str) -> bytes:
    """Return the picture of the report `draft`, whose run was on `machine`."""
    said = ("Not valid: " if draft.said.invalid else "") + draft.said.text
    lines = in_lines(visible(said), (WIDTH - 2 * EDGE) / TITLE)
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], f"{lines[MOST_LINES - 1]}…"]
    parts = [_sized(EDGE, 76 + 50 * at, line, TITLE, "name") for at, line in enumerate(lines)]
    if draft.proof:
        # a nested drawing keeps its own units, and is placed by the size that it is given
        size = f'width="{WIDTH - 2 * EDGE}" height="{_CHART_HEIGHT}" preserveAspectRatio="xMinYMid"'
        place = f'<svg x="{EDGE}" y="{_CHART_TOP}" {size} '
        parts.append(Markup(str(draft.proof[0].half).replace("<svg ", place, 1)))  # noqa: S704 - a drawing of ours
    about = shorten_end(visible(f"pgdyno · {machine}" if machine else "pgdyno"), (WIDTH - 2 * EDGE) / SMALL)
    parts.append(_sized(EDGE, HEIGHT - 26, about, SMALL, "quiet"))
    return _drawn(Markup("").join(parts))


def _sized(x: float, y: float, content: str, size: float, look: str) -> Markup:
    return element("g", text(0, 0, content, look), transform=f"translate({x} {y}) scale({size})")


def _drawn(content: Markup) -> bytes:
    # imported here: only pictures need it
    import resvg_py

    ground = palette.INK[Theme.LIGHT]["ground"]
    drawing = element(
        "svg",
        element("style", Markup(palette.chart_css(Theme.LIGHT))),  # noqa: S704 - our own CSS
        element("rect", width=WIDTH, height=HEIGHT, fill=ground),
        content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
    )
    # nothing in it names a file, and what would is outside of this folder, which does not exist
    return bytes(resvg_py.svg_to_bytes(svg_string=drawing, width=WIDTH, height=HEIGHT))


@cache
def has_fonts() -> bool:
    """Return whether this machine has fonts, without which a picture has no words."""
    return _drawn(_sized(EDGE, HEIGHT / 2, "M", TITLE, "name")) != _drawn(Markup())
