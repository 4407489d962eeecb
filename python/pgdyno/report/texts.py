"""What a report says, in the reader's language: gettext, whose message ids are the English texts.

A language is in use within a block (`use_language`); `gettext` translates to it and fills placeholders. Terminal and
live page use none, and so English. Names, SQL, settings and messages of servers and of the audit are not texts of the
report: they stay as they are. `translations.py` in the root of the source extracts and compiles the texts; a test keeps
the catalogues complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import cache
from gettext import GNUTranslations, NullTranslations
from importlib.resources import files

from pgdyno.errors import UsageError
from pgdyno.messages import Message


class Language(StrEnum):
    """What reports are written in, by its tag (BCP 47)."""

    ENGLISH = "en"
    KOREAN = "ko"
    JAPANESE = "ja"
    CHINESE = "zh"


_A_NAME = re.compile(r"[_/.:\d]")
_WITHOUT_SPACES = (Language.JAPANESE, Language.CHINESE)
_current: ContextVar[Language] = ContextVar("_current", default=Language.ENGLISH)


@contextmanager
def use_language(language: Language) -> Iterator[None]:
    """Texts within the block are in `language`."""
    token = _current.set(language)
    try:
        yield
    finally:
        _current.reset(token)


def current_language() -> Language:
    """The language that is in use."""
    return _current.get()


def gettext(text: str, /, **values: object) -> str:
    """`text`, which is English, in the language in use, its `{placeholders}` filled with `values`."""
    found = translations(current_language()).gettext(text)
    return found.format(**values) if values else found


def ngettext(one: str, many: str, number: int, /, **values: object) -> str:
    """`one` or `many`, by the language's rule for `number`, which is the placeholder `count`."""
    return translations(current_language()).ngettext(one, many, number).format(count=number, **values)


def gettext_noop(text: str) -> str:
    """`text` itself: marks one that stands in a table of the code and goes through `gettext` afterwards."""
    return text


def gettext_each(*texts: str) -> tuple[str, ...]:
    """Each of `texts`, which are English, in the language in use: headings of a table."""
    return tuple(gettext(text) for text in texts)


def translated(message: Message) -> str:
    """A message that another package made, in the language in use."""
    known, parameters = translations(current_language()), message.parameters
    if message.plural is None:
        return known.gettext(message.template).format(**parameters)
    return known.ngettext(message.template, message.plural, int(parameters["count"])).format(**parameters)


def listed(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(parts) < 2:
        return "".join(parts)
    return gettext("{first} and {last}", first=gettext(", ").join(parts[:-1]), last=parts[-1])


def sentence(text: str) -> str:
    """`text` with a capital at its beginning and a full stop."""
    return gettext("{sentence}.", sentence=capital(text))


def sentence_space() -> str:
    """What stands between two sentences."""
    return "" if current_language() in _WITHOUT_SPACES else " "


def capital(text: str) -> str:
    """A sentence's first letter large, unless it begins with a name: synchronous_commit, pg17, a path, an address."""
    first = text.partition(" ")[0].rstrip(".,:;")
    return text if _A_NAME.search(first) else text[:1].upper() + text[1:]


@cache
def translations(language: Language) -> NullTranslations:
    """The compiled catalogue of `language`. Raises UsageError where it was not compiled."""
    if language is Language.ENGLISH:
        return NullTranslations()
    path = files("pgdyno.report").joinpath("languages", language.value, "LC_MESSAGES", "pgdyno.mo")
    try:
        with path.open("rb") as file:
            return GNUTranslations(file)
    except FileNotFoundError:
        raise UsageError(f"the report's texts are not compiled: {path} does not exist", hint="make build") from None
