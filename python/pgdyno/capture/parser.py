"""PostgreSQL's own parser, libpg_query: what a class of statements is, and what a statement does to a transaction."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType

from pgdyno.errors import UsageError
from pgdyno.records.capture import CUT_OFF

LONGEST = 1 << 20
"""Characters of a text that the parser is given; a longer one is a class of its own, with the beginning of its text."""
_BEGINNING = 1000
"""Characters of that."""
_COMMENT = r"/\*(?:[^*/]++|\*(?!/)|/(?!\*))*+\*/"
for _ in range(2):
    # comments nest in PostgreSQL: three levels are more than anybody writes
    _COMMENT = rf"/\*(?:[^*/]++|\*(?!/)|/(?!\*)|{_COMMENT})*+\*/"
# each alternative is atomic and begins with other characters: a text that does not match costs one pass, and not one
# for each of the exponentially many ways to split it
BLANKS = rf"(?>\s+|--[^\n]*+(?:\n|\Z)|{_COMMENT})*+"
"""Matches all white space and comments at the beginning of a text; understood by Python alone."""


class Effect(StrEnum):
    """What a statement does to the transaction block of its session."""

    OPEN = "open"
    CLOSE = "close"
    CHAIN = "chain"
    """It ends a block and begins the next."""


@dataclass(frozen=True, slots=True)
class ParsedText:
    text: str
    """Normalised: constants are `$1`, `$2`, …"""
    fingerprint: str | None
    """None if the parser refuses the text."""
    effect: Effect | None
    failed: Effect | None
    """What it does to the transaction block if it fails while it runs."""
    ends_early: bool = False
    """Whether the parser refuses the text because more would have to follow."""


_ENDS_EARLY = re.compile(r"at end of input|^unterminated ")


def _pglast() -> ModuleType:
    try:
        import pglast
    except ImportError as error:
        raise UsageError(
            "captures need PostgreSQL's parser, which is not installed", hint="pip install 'pgdyno[capture]'"
        ) from error
    return pglast


def require_parser() -> None:
    """Raise UsageError if the parser is not installed."""
    _pglast()


def normalise(sql: str) -> str | None:
    """Return `sql` with `$1`, `$2`, … for constants; None if the parser refuses it. Raises UsageError without one."""
    pglast = _pglast()
    try:
        return str(pglast.normalize(sql))
    except (pglast.Error, UnicodeError, RecursionError):
        return None


def parse(sql: str) -> ParsedText:
    """Return what the parser says of `sql`. Raises UsageError if the parser is not installed."""
    pglast = _pglast()
    if len(sql) > LONGEST:
        return ParsedText(_beginning(sql) + CUT_OFF, None, effect_of([sql]), effect_of_failure([sql]))
    try:
        text, fingerprint = str(pglast.normalize(sql)), str(pglast.fingerprint(sql))
        words = [word for piece in pglast.split(sql) if (word := _FIRST_WORDS.match(piece)) is not None]
        statements = [word[1] for word in words]
        return ParsedText(text, fingerprint, effect_of(statements), effect_of_failure(statements))
    except (pglast.Error, UnicodeError, RecursionError) as error:
        early = _ENDS_EARLY.search(str(error)) is not None
        return ParsedText(without_constants(sql), None, effect_of([sql]), effect_of_failure([sql]), early)


_APART = re.compile(
    r"\b(?:from|join|into|update|only)\s+(\"[^\"]+\"|[a-z_]\w*)\s*\.|\b(in|any|some)\s*\(", re.IGNORECASE
)


def kept_apart(text: str) -> str:
    """Return what a fingerprint does not distinguish: schemas, and whether a value is compared with one or a list."""
    return " ".join(schema or word.lower().replace("some", "any") for schema, word in _APART.findall(text))


_FIRST_WORDS = re.compile(rf"{BLANKS}([A-Za-z]+(?:\s+[A-Za-z]+)*)")
_OPENS = re.compile(r"begin\b|start\s+transaction\b", re.IGNORECASE)
_CLOSES = re.compile(
    r"(?:commit|end|rollback|abort)\b(?!\s+prepared\b)(?!(?:\s+(?:work|transaction))?\s+to\b)|prepare\s+transaction\b",
    re.IGNORECASE,
)
_CHAINS = re.compile(r"\band\s+chain\b", re.IGNORECASE)


def effect_of(statements: Sequence[str]) -> Effect | None:
    """Return what `statements`, sent together, do to a transaction block; None if it is as before, or unknown."""
    effect: Effect | None = None
    before: Effect | None = None
    in_own_block = False
    for each in statements:
        words = each.lstrip()
        if _OPENS.match(words):
            before, in_own_block = effect, True
            effect = Effect.OPEN if effect is None else Effect.CHAIN
        elif _CLOSES.match(words):
            closes = before if in_own_block else Effect.CLOSE
            effect = Effect.CHAIN if _CHAINS.search(words) else closes
            in_own_block = False
    return effect


def effect_of_failure(statements: Sequence[str]) -> Effect | None:
    """Return what `statements`, sent together, do to a transaction block if one of them fails while it runs.

    The first one counts: what ends a block ends it also if it fails, and what follows BEGIN fails in the new block.
    """
    first = statements[0].lstrip() if statements else ""
    if _OPENS.match(first) and len(statements) > 1:
        return Effect.OPEN
    return Effect.CLOSE if _CLOSES.match(first) else None


_CONSTANTS = re.compile(r"'(?:[^']|'')*'|\b\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\b")
_PARAMETERS_TOO = re.compile(rf"\$\d+|{_CONSTANTS.pattern}")


def without_constants(sql: str) -> str:
    """Return `sql`, which the parser refuses, with `$1`, `$2`, … for its constants."""
    numbers = iter(range(1, len(sql) + 2))
    return _CONSTANTS.sub(lambda _: f"${next(numbers)}", re.sub(r"\$\d+", "0", sql))


def _beginning(sql: str) -> str:
    text, at = "", 0
    for number, constant in enumerate(_PARAMETERS_TOO.finditer(sql), 1):
        text += sql[at : min(constant.start(), at + _BEGINNING)]
        if len(text) >= _BEGINNING:
            return text[:_BEGINNING]
        text += f"${number}"
        at = constant.end()
    return (text + sql[at : at + _BEGINNING])[:_BEGINNING]
