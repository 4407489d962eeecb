"""The report: one HTML file that loads nothing else.

Every name and message on it came from outside (a plan, a server) and is escaped; the policy in its head allows only its
own style and script, by their hashes.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from jinja2 import BaseLoader, Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from pgdyno.report.charts import palette
from pgdyno.report.charts.palette import Theme
from pgdyno.report.sections.draft import Draft
from pgdyno.report.sections.section_blocks import Block
from pgdyno.report.sections.section_list import filled_sections
from pgdyno.report.sentences import conditions
from pgdyno.report.translation import Language, capital, current_language, gettext, ngettext, sentence

Sections = Sequence[tuple[str, str, str, Sequence[Block]]]
"""The anchor, the name in the navigation, the title and the blocks of each."""
_KEPT_TOGETHER = re.compile(
    r"(?<=\d) (?=%|(?:clients?|ms|tps|cores?|trials?|workers?)\b)|(?<=\bn) (?==)|(?<=\bn =) (?=\d)"
)
"""Spaces of a heading at which a line must not break: between a figure and its unit."""


class Publication(NamedTuple):
    """What a published page has besides the report."""

    head: Markup = Markup()
    brand: Markup = Markup("<b>pgdyno</b>")
    link: Markup = Markup()
    """An item of the contents."""
    end: Markup = Markup()
    """A section after the report's own."""


def render_page(draft: Draft, publication: Publication | None = None) -> str:
    manifest = draft.of.manifest
    return _render(
        "report.html.j2",
        [
            (each.id, gettext(each.link or each.title), gettext(each.title), filled)
            for each, filled in filled_sections(draft).items()
        ],
        version=manifest.pgdyno,
        started_at=manifest.started_at,
        title=draft.said.text,
        manifest=manifest,
        name=manifest.plan.get("name") or manifest.workload,
        draft=draft,
        said=draft.said,
        struck=draft.validity.invalid if draft.validity is not None else (),
        conditions=conditions(draft.of),
        numbers=draft.numbers,
        publication=publication or Publication(),
    )


def render_sections(name: str, started_at: datetime, version: str, title: str, sections: Sections) -> str:
    """Return a page of `sections` under the sentence `title`, for what is not a run."""
    return _render("base.html.j2", sections, name=name, started_at=started_at, version=version, title=title)


def _render(template: str, sections: Sections, **values: object) -> str:
    style, script = page_style(), "".join(map(page_file, ("script.js", "strips.js", "timeline.js")))
    return (
        page_environment(current_language())
        .get_template(template)
        .render(
            language=current_language().value,
            policy=policy(style, script),
            style=Markup(style),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
            sections=sections,
            **values,
        )
    )


def policy(style: str, script: str, forms: str = "'none'") -> str:
    """Return the Content-Security-Policy of a page with exactly this style and this script, and targets of forms."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        f"base-uri 'none'; form-action {forms}"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page_file(name: str) -> str:
    return files("pgdyno.report").joinpath("page", name).read_text(encoding="utf-8")


def page_style() -> str:
    """Return the colours of both themes, the charts' rules, then the page's own."""
    return page_colours() + palette.chart_css() + "\n" + page_file("style.css")


def page_colours() -> str:
    """Return the colours of both themes, and the fonts."""
    light, dark = palette.variables(Theme.LIGHT), palette.variables(Theme.DARK)
    themes = (
        f":root{{{light}color-scheme:light}}\n"
        "@media screen and (prefers-color-scheme:dark)"
        f"{{:root:not([data-theme=light]){{{dark}color-scheme:dark}}}}\n"
        f"@media screen{{:root[data-theme=dark]{{{dark}color-scheme:dark}}}}\n"
    )
    return themes + palette.fonts()


def template_environment(loader: BaseLoader) -> Environment:
    """Return the environment of templates of pages: it escapes all values and refuses unknown ones."""
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=loader)


@cache
def page_environment(_: Language) -> Environment:
    """Keep the compiled templates; by language, as filters may be applied to texts when a template is compiled."""
    environment = template_environment(FunctionLoader(page_file))
    environment.globals |= {"gettext": gettext, "ngettext": ngettext, "kind": _kind}
    environment.globals |= {"markup": _escape_values, "link": _link}
    environment.filters["capfirst"] = capital
    environment.filters["sentence"] = sentence
    environment.filters["joined"] = keep_units_together
    return environment


def _escape_values(text: str, **values: object) -> Markup:
    """Return a text of the page whose placeholders may be markup; everything else is escaped."""
    return escape(gettext(text)).format(**values)


def _kind(block: object) -> str:
    return "str" if isinstance(block, str) else type(block).__name__


def _link(to: str, text: str) -> Markup:
    return Markup('<a href="{}">{}</a>').format(to, text)


def keep_units_together(text: str) -> str:
    """Return `text` in which no line breaks between a figure and its unit."""
    return _KEPT_TOGETHER.sub("\u00a0", text)
