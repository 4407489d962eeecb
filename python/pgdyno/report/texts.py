"""What a report says, in the reader's language: English texts are the keys of one catalogue for each other language.

A language is spoken within a block (`spoken`); whatever is said in it, `say` translates. Terminal and live page speak
none, and so English. Names, SQL, settings and messages of servers, of the audit and of the analysis are not texts of
the report: they stay as they are. A test keeps the catalogues complete.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType


class Language(StrEnum):
    """What reports are written in, by its tag (BCP 47)."""

    ENGLISH = "en"
    KOREAN = "ko"
    JAPANESE = "ja"
    CHINESE = "zh"


_A_NAME = re.compile(r"[_/.:\d]")
_speaking: ContextVar[Language] = ContextVar("_speaking", default=Language.ENGLISH)


@contextmanager
def spoken(language: Language) -> Iterator[None]:
    """What is said within is said in `language`."""
    token = _speaking.set(language)
    try:
        yield
    finally:
        _speaking.reset(token)


def speaking() -> Language:
    """The language of now."""
    return _speaking.get()


def say(text: str, /, **values: object) -> str:
    """`text`, which is English, in the language of now, its `{placeholders}` filled with `values`."""
    found = catalogue(speaking()).get(text, text)
    return found.format(**values) if values else found


def say_count(number: int, one: str, many: str, /, **values: object) -> str:
    """`one` of 1 in English, else `many`: a text with `{count}`. Catalogues have `many` only."""
    english = one if number == 1 and speaking() is Language.ENGLISH else many
    return say(english, count=f"{number:,}", **values)


def later(text: str) -> str:
    """`text` itself: marks one that stands in a table of the code and is said with `say` afterwards."""
    return text


def listed(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(parts) < 2:
        return "".join(parts)
    return say("{first} and {last}", first=say(", ").join(parts[:-1]), last=parts[-1])


def sentence(text: str) -> str:
    """`text` with a capital at its beginning and a full stop."""
    return say("{sentence}.", sentence=capital(text))


def capital(text: str) -> str:
    """A sentence's first letter large, unless it begins with a name: synchronous_commit, pg17, a path, an address."""
    first = text.partition(" ")[0].rstrip(".,:;")
    return text if _A_NAME.search(first) else text[:1].upper() + text[1:]


@cache
def catalogue(language: Language) -> Mapping[str, str]:
    """Texts of `language` by the English one; nothing for English."""
    if language is Language.ENGLISH:
        return MappingProxyType({})
    file = files("pgdyno.report").joinpath("languages", f"{language.value}.toml")
    return MappingProxyType(tomllib.loads(file.read_text(encoding="utf-8")))


def said(*texts: str) -> tuple[str, ...]:
    """Each of `texts`, which are English, in the language of now: headings of a table."""
    return tuple(say(text) for text in texts)
