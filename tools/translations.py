"""The texts of reports in other languages: extracted from the source, kept as gettext's .po files, compiled to .mo.

`python tools/translations.py` brings the .po files up to date with the source and compiles them; with `compile`, it
only compiles, as `make build` and the wheel's build (`hatch_build.py`) do. Compiling needs nothing but Babel.
"""

import ast
import os
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from babel.messages import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "pgdyno"
LANGUAGES = PACKAGE / "report" / "languages"
MESSAGES_OF = (
    "analyse",
    "audit",
    "capture",
    "doctor",
    "experiment",
    "fingerprint",
    "generators",
    "importers",
    "live",
    "plan",
    "report",
    "run",
    "store",
    "targets",
    "workloads",
)
"""Packages whose messages reports translate."""
ARGUMENTS = {
    "gettext": slice(0, 1),
    "gettext_noop": slice(0, 1),
    "gettext_each": slice(None),
    "markup": slice(0, 1),
    "ngettext": slice(0, 2),
}
"""Which arguments of each function are texts."""


NAMES = {"ko": "Korean", "ja": "Japanese", "zh": "Chinese"}
HEADER = """\
# {name} texts of pgdyno's reports. Placeholders in braces stay as they are.
msgid ""
msgstr ""
"Language: {tag}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Plural-Forms: {plural}\\n"

"""
"""Without the dates and names of Babel's, which would change with every run."""


class Text(NamedTuple):
    """A text of the source."""

    one: str
    many: str | None
    path: str


def catalogues() -> list[Path]:
    """A .po file a language."""
    return sorted(LANGUAGES.glob("*/LC_MESSAGES/pgdyno.po"))


def read(path: Path) -> Catalog:
    """A .po file. Raises babel.messages.pofile.PoFileError."""
    with path.open("rb") as file:
        catalog = read_po(file, locale=path.parts[-3], abort_invalid=True)
    # Babel would write the time of day into each compiled file
    catalog.creation_date = catalog.revision_date = datetime.fromtimestamp(0, UTC)
    return catalog


def compile_all() -> list[Path]:
    """Writes the .mo file of each .po file, beside it. A pgdyno that runs meanwhile reads the old one or the new."""
    compiled = []
    for path in catalogues():
        compiled.append(path.with_suffix(".mo"))
        unfinished = path.with_suffix(f".mo.{os.getpid()}")
        try:
            with unfinished.open("wb") as file:
                write_mo(file, read(path))
            unfinished.replace(compiled[-1])
        finally:
            unfinished.unlink(missing_ok=True)
    return compiled


def template() -> Catalog:
    """Every text of the source, not translated. Raises ValueError where a text is not written out."""
    catalog = Catalog(project="pgdyno", charset="utf-8")
    for text in extracted():
        known = catalog.get(text.one)
        if text.many is not None:
            catalog.add((text.one, text.many), locations=[(text.path, 0)])
        else:
            # a text with a plural is also one by itself
            catalog.add(text.one if known is None else known.id, locations=[(text.path, 0)])
    return catalog


def update() -> None:
    """Adds new texts to each .po file, without a translation, and removes those that the source has no more."""
    wanted = template()
    for path in catalogues():
        catalog = read(path)
        catalog.update(wanted, no_fuzzy_matching=True)
        catalog.obsolete.clear()
        header = HEADER.format(name=NAMES[path.parts[-3]], plural=catalog.plural_forms, tag=catalog.locale)
        with path.open("wb") as file:
            file.write(header.encode())
            write_po(file, catalog, width=120, include_lineno=False, omit_header=True)


def extracted() -> Iterator[Text]:
    """From modules, templates and scripts of the report, messages of other packages, and words of their enums."""
    report = PACKAGE / "report"
    for path in (*sorted(report.rglob("*.py")), *sorted((PACKAGE / "workloads").rglob("*.py"))):
        yield from _of_module(path)
    for path in sorted(report.rglob("*.j2")):
        yield from _of_page(path)
    for package in MESSAGES_OF:
        for path in sorted((PACKAGE / package).rglob("*.py")):
            yield from _of_messages(path)
    yield from _of_values()


def _of_module(path: Path) -> Iterator[Text]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            given = [each.value if isinstance(each, ast.Constant) else None for each in node.args]
            yield from _texts(path, name, given)


def _of_page(path: Path) -> Iterator[Text]:
    import jinja2

    for node in jinja2.Environment(autoescape=True).parse(path.read_text()).find_all(jinja2.nodes.Call):
        name = node.node.name if isinstance(node.node, jinja2.nodes.Name) else ""
        yield from _texts(
            path, name, [each.value if isinstance(each, jinja2.nodes.Const) else None for each in node.args]
        )


def _texts(path: Path, name: str, given: Sequence[object]) -> Iterator[Text]:
    """Texts of a call; a variable stands for texts that are marked elsewhere."""
    texts = [text for text in given[ARGUMENTS.get(name, slice(0, 0))] if isinstance(text, str)]
    where = str(path.relative_to(ROOT))
    if name == "ngettext":
        if len(texts) != 2:
            raise ValueError(f"{where}: the texts of ngettext have to be written out")
        yield Text(texts[0], texts[1], where)
    else:
        yield from (Text(text, None, where) for text in texts)


def _of_messages(path: Path) -> Iterator[Text]:
    where = str(path.relative_to(ROOT))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Message":
            # the first argument is the id
            texts = [tuple(_alternatives(each, f"{where}:{node.lineno}")) for each in node.args[1:]]
            # where both are conditional expressions, each alternative has its own plural
            plurals = texts[1] if len(texts) > 1 else (None,)
            for at, one in enumerate(texts[0]):
                if _PLACEHOLDER.sub("", one).strip(": "):
                    yield Text(one, plurals[at if len(plurals) == len(texts[0]) else 0], where)


_PLACEHOLDER = re.compile(r"\{[^}]*\}")


def _alternatives(node: ast.expr, where: str) -> Iterator[str]:
    """A text, or both of a conditional expression. Raises ValueError."""
    if isinstance(node, ast.IfExp):
        yield from _alternatives(node.body, where)
        yield from _alternatives(node.orelse, where)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        raise ValueError(f"{where}: the templates of a message have to be written out")


def _of_values() -> Iterator[Text]:
    """What the page's scripts say, and words that other packages have as values."""
    from pgdyno.analyse.comparison import Verdict
    from pgdyno.analyse.over_time.dips import Cause
    from pgdyno.analyse.pairs import Metric
    from pgdyno.audit import RULES, Severity
    from pgdyno.fingerprint.differences import Weight
    from pgdyno.records import Outcome
    from pgdyno.report.sections.over_seconds.timelines import script_texts

    enums = [each.value for enum in (Verdict, Cause, Severity, Weight, Outcome) for each in enum]
    words = [*enums, *(metric.words for metric in Metric)]
    for text, path in (
        *((text, "python/pgdyno/report/page/timeline.js") for text in script_texts()),
        *((text, "python/pgdyno") for text in words),
        *((rule.id, "python/pgdyno/audit/rules") for rule in RULES),
    ):
        yield Text(text, None, path)


if __name__ == "__main__":
    if sys.argv[1:] != ["compile"]:
        update()
    compile_all()
