"""The texts of a report in the reader's language: gettext, whose message ids are the English texts.

A language is in use within a block (`use_language`); `gettext` translates to it and fills placeholders. Terminal and
live page use none, so they are in English. Names, SQL, settings, messages of servers, evidence and advice of the audit
are not translated. `tools/translations.py` extracts and compiles the texts; a test keeps the catalogues complete.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import cache
from gettext import GNUTranslations, NullTranslations

from pgdyno.errors import UsageError
from pgdyno.messages import Message, fill_template


class Language(StrEnum):
    """The languages of reports, by tag (BCP 47)."""

    ENGLISH = "en"
    KOREAN = "ko"
    JAPANESE = "ja"
    CHINESE = "zh"


_A_NAME = re.compile(r"[_/.:\d]|^(autovacuum|fsync|geqo|jit|perf|pgbench|pgdrive|pgdyno|pgprobe|sysbench)$")
_WITHOUT_SPACES = (Language.JAPANESE, Language.CHINESE)
_current: ContextVar[Language] = ContextVar("_current", default=Language.ENGLISH)
_TRANSACTIONS = "transactions a second"
_QUERIES = {
    Language.ENGLISH: ((_TRANSACTIONS, "queries a second"),),
    Language.KOREAN: (("트랜잭션을", "쿼리를"), ("트랜잭션", "쿼리")),
    Language.JAPANESE: (("トランザクション", "クエリ"),),
    Language.CHINESE: (("事务", "查询"),),
}
"""What texts with a rate say in place of transactions if all throughputs count queries."""
_counts_queries: ContextVar[bool] = ContextVar("_counts_queries", default=False)


@contextmanager
def use_language(language: Language, *, queries: bool = False) -> Iterator[None]:
    """Translate texts within the block to `language`, and say queries a second if throughputs count `queries`."""
    counted = _counts_queries.set(queries)
    token = _current.set(language)
    try:
        yield
    finally:
        _current.reset(token)
        _counts_queries.reset(counted)


def current_language() -> Language:
    return _current.get()


def gettext(text: str, /, **values: object) -> str:
    """Translate the English `text` to the active language, and fill its `{placeholders}` with `values`."""
    found = translations(current_language()).gettext(text)
    if _TRANSACTIONS in text and _counts_queries.get():
        for transactions, queries in _QUERIES[current_language()]:
            found = found.replace(transactions, queries)
    return fill_template(found, values) if values else found


def ngettext(one: str, many: str, number: int, /, **values: object) -> str:
    """Return `one` or `many`, by the language's rule for `number`, which is the placeholder `count`."""
    return fill_template(translations(current_language()).ngettext(one, many, number), {"count": number, **values})


def gettext_noop(text: str) -> str:
    """Return `text` itself: marks one in a table of the code that goes through `gettext` later."""
    return text


def gettext_each(*texts: str) -> tuple[str, ...]:
    """Translate each of the English `texts` to the active language: headings of a table."""
    return tuple(gettext(text) for text in texts)


def translate(message: Message) -> str:
    """A message that another package made, in the language in use."""
    known = translations(current_language())
    values = {name: translate(value) if isinstance(value, Message) else value for name, value in message.items}
    if message.plural is None:
        return fill_template(known.gettext(message.template), values)
    return fill_template(known.ngettext(message.template, message.plural, message.number), values)


def enumeration(parts: Sequence[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return gettext("{first} and {last}", first=gettext(", ").join(parts[:-1]), last=parts[-1])


def sentence(text: str) -> str:
    """Return `text` with a capital at its beginning and a full stop."""
    return gettext("{sentence}.", sentence=capital(text))


def sentence_space() -> str:
    """Return the separator between two sentences."""
    return "" if current_language() in _WITHOUT_SPACES else " "


def capital(text: str) -> str:
    """Capitalise a sentence, unless it begins with a name: synchronous_commit, pg17, a path, an address."""
    first = text.partition(" ")[0].rstrip(".,:;")
    return text if _A_NAME.search(first) else text[:1].upper() + text[1:]


@cache
def translations(language: Language) -> NullTranslations:
    """Load the compiled catalogue of `language`. Raises UsageError if it was not compiled."""
    if language is Language.ENGLISH:
        return NullTranslations()
    # imported here: few commands translate
    from importlib.resources import files

    path = files("pgdyno.report").joinpath("languages", language.value, "LC_MESSAGES", "pgdyno.mo")
    try:
        with path.open("rb") as file:
            return GNUTranslations(file)
    except FileNotFoundError:
        raise UsageError(
            f"the report's message catalogues are not compiled: {path} does not exist", hint="make build"
        ) from None
