"""The constants of a statement: where they stand in its text, and which values they have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pgdyno.capture.parser import normalise

PLACE = re.compile(r"\$\d+")
_STRING = r"'[^']*+(?:''[^']*+)*+'"
_CONSTANT = re.compile(
    r"(?>\$\d+"  # a parameter
    rf"|{_STRING}"
    r"|[eE]'(?:[^'\\]|\\.|'')*+'"
    rf"|(?:[bBxXnN]|[uU]&){_STRING}"
    r"|\$(?:[A-Za-z_]\w*)?\$.*?\$(?:[A-Za-z_]\w*)?\$"
    r"|[+-]?\s*(?:0[xXoObB][0-9A-Fa-f_]+|(?:\d[\d_]*\.?[\d_]*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?i:true|false|null))",
    re.DOTALL,
)
_END = re.compile(r"\s*;?\s*")
MOST_FORMS = 20
"""The most texts of a class that differ in more than constants, such as in the length of a list."""


class Form(Enum):
    """How a constant stands in the statement."""

    NUMBER = "number"
    """Without quotes: a number, true, false."""
    TEXT = "text"
    """In quotes."""
    RAW = "raw"
    """In quotes with escapes or dollars: kept as it is written."""
    PARAMETER = "parameter"
    """A parameter of the extended protocol."""


Value = str | None
"""The text of a constant without its quotes; None: NULL."""


@dataclass(frozen=True)
class Template:
    """A statement's text around its constants."""

    pieces: tuple[str, ...]
    """One more than constants."""

    @classmethod
    def parse(cls, normalised: str) -> Template:
        """Split a text in which constants are `$1`, `$2`, …"""
        return cls(tuple(PLACE.split(normalised)))

    def constants(self, sql: str) -> list[str] | None:
        """Return the constants of a statement with these pieces; None if it has others."""
        found = []
        at = 0
        *before, last = self.pieces
        for piece in before:
            match = _CONSTANT.match(sql, at + len(piece)) if sql.startswith(piece, at) else None
            if match is None:
                return None
            found.append(match[0])
            at = match.end()
        is_whole = sql.startswith(last, at) and _END.fullmatch(sql, at + len(last)) is not None
        return found if is_whole else None


@dataclass(frozen=True)
class Constants:
    """What a statement's text says of its constants."""

    template: Template
    forms: tuple[Form, ...]
    values: tuple[Value, ...]


class ConstantReader:
    """Reads the constants of the statements of one class."""

    def __init__(self, normalised: str) -> None:
        self._known = [Template.parse(normalised)]

    def read(self, sql: str, parameters: Sequence[Value]) -> Constants | None:
        """Return the constants of `sql`; None if it cannot be split."""
        for template in self._known:
            tokens = template.constants(sql)
            if tokens is not None:
                return _constants(template, tokens, parameters)
        if len(self._known) >= MOST_FORMS:
            return None
        normalised = normalise(sql)
        if normalised is None:
            return None
        template = Template.parse(normalised)
        if template not in self._known:
            self._known.append(template)
        tokens = template.constants(sql)
        return None if tokens is None else _constants(template, tokens, parameters)


def _constants(template: Template, tokens: Sequence[str], parameters: Sequence[Value]) -> Constants | None:
    forms, values = [], []
    for token in tokens:
        if PLACE.fullmatch(token):
            place = int(token[1:]) - 1
            if place >= len(parameters):
                return None
            forms.append(Form.PARAMETER)
            values.append(parameters[place])
        elif token[0] == "'":
            forms.append(Form.TEXT)
            values.append(token[1:-1].replace("''", "'"))
        elif token[0] in "eEbBxXnNuU$" and token[-1] in "'$":
            forms.append(Form.RAW)
            values.append(token)
        else:
            forms.append(Form.NUMBER)
            values.append(None if token.lower() == "null" else re.sub(r"^\+|\s", "", token).lower())
    return Constants(template, tuple(forms), tuple(values))


_VARIABLE = re.compile(r":(?=[A-Za-z_\x80-\U0010ffff])")
"""What pgdrive would take for a variable, also within quotes."""


def literal(value: Value, form: Form) -> str:
    if value is None:
        return "NULL"
    if form in (Form.NUMBER, Form.RAW):
        return value
    quoted = value.replace("'", "''")
    if _VARIABLE.search(value) is None:
        return f"'{quoted}'"
    # a colon by its code is no variable
    escaped = _VARIABLE.sub(r"\\x3a", quoted.replace("\\", "\\\\"))
    return f"E'{escaped}'"
