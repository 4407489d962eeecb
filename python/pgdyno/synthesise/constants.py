"""The constants of a statement: where they stand in its text, and which values they have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pgdyno.capture.parser import normalise

PLACE = re.compile(r"\$\d+")
_STRING = r"'[^']*+(?:''[^']*+)*+'"
_CONSTANT = (
    r"((?>\$\d+"  # a parameter
    rf"|{_STRING}"
    r"|[eE]'(?:[^'\\]|\\.|'')*+'"
    rf"|(?:[bBxXnN]|[uU]&){_STRING}"
    r"|\$(?:[A-Za-z_]\w*)?\$.*?\$(?:[A-Za-z_]\w*)?\$"
    r"|[+-]?\s*(?:0[xXoObB][0-9A-Fa-f_]+|(?:\d[\d_]*\.?[\d_]*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?i:true|false|null)))"
)
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
    def of(cls, normalised: str) -> Template:
        """Splits a text in which constants are `$1`, `$2`, …"""
        return cls(tuple(PLACE.split(normalised)))

    def pattern(self) -> re.Pattern[str]:
        """Matches a statement with these pieces; its groups are the constants."""
        return re.compile(_CONSTANT.join(map(re.escape, self.pieces)) + r"\s*;?\s*", re.DOTALL)


@dataclass(frozen=True)
class Constants:
    """What a statement's text says of its constants."""

    template: Template
    forms: tuple[Form, ...]
    values: tuple[Value, ...]


class ConstantReader:
    """Reads the constants of the statements of one class."""

    def __init__(self, normalised: str) -> None:
        first = Template.of(normalised)
        self._known = {first: first.pattern()}

    def read(self, sql: str, parameters: Sequence[Value]) -> Constants | None:
        """Returns the constants of `sql`; None if it cannot be split."""
        for template, pattern in self._known.items():
            match = pattern.fullmatch(sql)
            if match is not None:
                return _constants(template, match.groups(), parameters)
        if len(self._known) >= MOST_FORMS:
            return None
        normalised = normalise(sql)
        if normalised is None:
            return None
        template = Template.of(normalised)
        pattern = self._known[template] = template.pattern()
        match = pattern.fullmatch(sql)
        return None if match is None else _constants(template, match.groups(), parameters)


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
