"""PDF of a report: blocks as JSON, set by typst with the template in this folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any

from pgdyno.errors import UsageError
from pgdyno.fingerprint import fingerprint_of
from pgdyno.records import Manifest
from pgdyno.report.charts import palette
from pgdyno.report.charts.palette import Theme
from pgdyno.report.html import Content
from pgdyno.report.pdf.appendix import appendix
from pgdyno.report.pdf.first_page import first_page, second_page
from pgdyno.report.pdf.page_blocks import CODE_FONT, text_fonts
from pgdyno.report.translation import current_language, gettext
from pgdyno.safe_output import visible

NO_TYPST = "the PDF report is set by typst, which is not installed"
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""Characters that neither a PDF nor a drawing may contain."""
_UNKNOWN = re.compile(r'the text `"(.*?)"` could not be displayed')
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-f]+)\}|(.))")
"""In typst's messages, invisible characters are written as their numbers."""


@dataclass(frozen=True, slots=True)
class Paper:
    pdf: bytes
    missing: str
    """Characters that no available font has, each once; they are written as their numbers."""


def pdf_of(content: Content) -> Paper:
    """Return the report on A4: two pages, and an appendix. The same data give the same bytes.

    Raises UsageError if typst is not installed, or no available font has the letters of the report's language.
    """
    return typeset(printed(content), content["manifest"].started_at)


def printed(content: Content) -> dict[str, Any]:
    manifest: Manifest = content["manifest"]
    started = manifest.started_at
    digits, language = fingerprint_of(manifest.fingerprint), current_language()
    return {
        "title": content["headline"],
        "date": [started.year, started.month, started.day],
        "language": language.value,
        "fonts": text_fonts(language),
        "code": [CODE_FONT, *text_fonts(language)],
        "inks": dict(palette.INK[Theme.LIGHT]),
        "footer": f"pgdyno {manifest.pgdyno}, {manifest.run}"
        + (f", {gettext('fingerprint {digits}', digits=digits)}" if digits else ""),
        "contents": gettext("Appendix"),
        "name": content["name"],
        "started": content["started"],
        "first": first_page(content),
        "second": second_page(content),
        "appendix": appendix(content),
    }


def typeset(report: Mapping[str, Any], made: datetime) -> Paper:
    """Return the PDF/UA of the output of `printed`; `made` is its timestamp."""
    need_typst()
    missing: set[str] = set()
    while True:
        pdf, unknown = _compiled(_clean(report, missing), made)
        if pdf is not None:
            return Paper(pdf, "".join(sorted(missing)))
        if report["language"] != "en":
            raise UsageError(
                f"no font of this system has the letters {''.join(sorted(unknown))[:20]}",
                hint="install one, such as Debian's fonts-noto-cjk",
            )
        missing |= unknown


def need_typst() -> None:
    """Raise UsageError if typst is not installed."""
    try:
        import typst  # noqa: F401
    except ImportError as error:
        raise UsageError(NO_TYPST, hint="pip install 'pgdyno[pdf]'") from error


def _compiled(report: Mapping[str, Any], made: datetime) -> tuple[bytes, set[str]] | tuple[None, set[str]]:
    """Return the PDF, or the characters that prevent it."""
    import typst

    template = files("pgdyno.report").joinpath("pdf", "report.typ").read_bytes()
    inputs = {"report": json.dumps(report, ensure_ascii=False)}
    try:
        # an accessible PDF may have no character without a glyph: typst refuses to create it
        pdf = typst.compile(template, sys_inputs=inputs, pdf_standards="ua-1", timestamp=int(made.timestamp()))
    except typst.TypstError as error:
        unknown = {each for text in _UNKNOWN.findall(error.diagnostic) for each in _ESCAPE.sub(_unescaped, text)}
        if not unknown:
            raise
        return None, unknown
    return pdf, set()


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else escape[2]


def _clean(value: Any, missing: Set[str]) -> Any:  # noqa: ANN401 - JSON of any shape
    """Return `value` without invalid characters, and with `missing` characters as their numbers."""
    if isinstance(value, str):
        text = _NOT_TEXT.sub("\ufffd", visible(value))
        return "".join(f"\\u{ord(each):04x}" if each in missing else each for each in text) if missing else text
    if isinstance(value, Mapping):
        return {name: _clean(of, missing) for name, of in value.items()}
    return [_clean(of, missing) for of in value] if isinstance(value, list | tuple) else value
