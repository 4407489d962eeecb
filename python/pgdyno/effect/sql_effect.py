"""The effect of SQL in pgbench's language, as far as its text shows it.

What a view, a trigger, an operator or a rule calls is on the server: pgdyno does not see it.
"""

from collections.abc import Sequence

from pgdyno.effect.functions import HARMLESS_FUNCTIONS, NO_FUNCTIONS, WRITING_FUNCTIONS
from pgdyno.effect.sql_tokens import Token, statements, tokens
from pgdyno.effect.workloads import Effect, total_effect

_QUERIES = frozenset(["select", "values", "table", "with"])
_CHANGES = {"insert": "into", "delete": "from", "merge": "into", "update": ""}
"""Commands that change rows, with the word after them."""
_OTHER_CHANGES = """
    alter analyse analyze checkpoint cluster comment create drop grant import notify reassign refresh reindex revoke
    security truncate vacuum
"""
_WRITING = frozenset([*_CHANGES, *_OTHER_CHANGES.split()])
_NO_CHANGES = """
    abort begin close commit deallocate discard end fetch listen move release reset rollback savepoint set show start
    unlisten
"""
_READING = frozenset(_NO_CHANGES.split())
_TWO_PHASE = (("prepare", "transaction"), ("commit", "prepared"), ("rollback", "prepared"))
_PROGRAMS = ("\\shell", "\\setshell")
_OFF = frozenset(["off", "false", "0"])
_CONTAINED = frozenset([*_QUERIES, *_CHANGES, "create", "execute", "refresh"])
"""First words of what EXPLAIN, PREPARE and DECLARE contain."""
_LOCKS = (["update"], ["share"], ["no", "key", "update"], ["key", "share"])
"""Words after FOR."""


def effect_of_sql(text: str) -> Effect:
    """Return the effect of a script or of one statement."""
    return total_effect(map(_effect, statements(text)))


def has_plan(statement: str) -> bool:
    """Tells whether `statement` is one that the planner sees, by its first word."""
    first = next((each for each in tokens(statement) if each.text != "("), None)
    return first is not None and first.kind == "word" and first.text in _QUERIES | _CHANGES.keys()


def _effect(statement: Sequence[Token]) -> Effect:
    start = next((at for at, each in enumerate(statement) if each.text != "("), None)
    if start is None:
        return Effect.READS
    first, words = statement[start], [each.text for each in statement]
    follows = words[start + 1] if start + 1 < len(words) else ""
    if first.kind == "meta":
        return Effect.UNKNOWN if first.text.startswith(_PROGRAMS) else Effect.READS
    if first.kind != "word":
        return Effect.UNKNOWN
    if first.text in _WRITING or (first.text, follows) in _TWO_PHASE:
        return Effect.WRITES
    if first.text in _READING:
        return Effect.READS
    if first.text in _QUERIES:
        return _effect_of_query(statement[start:])
    return _effect_of_others(statement[start:], words[start:])


def _effect_of_others(statement: Sequence[Token], words: Sequence[str]) -> Effect:
    command = words[0]
    if command in ("declare", "explain", "prepare"):
        found = (at for at, each in enumerate(statement) if each.kind == "word" and each.text in _CONTAINED)
        start = next(found, len(words))
        if command == "explain" and not _is_executed(words[1:start]):
            return Effect.READS
        return _effect_of_planned(statement[start:])
    if command == "copy":
        to = max((at for at, each in enumerate(words) if each == "to"), default=0)
        if to == 0:
            return Effect.WRITES
        query = statement[1:to] if words[1] == "(" else ()
        program = Effect.UNKNOWN if words[to + 1 : to + 2] == ["program"] else Effect.READS
        return total_effect([_effect_of_query(query), program])
    return Effect.UNKNOWN


def _is_executed(options: Sequence[str]) -> bool:
    values = dict(zip(options, [*options[1:], ""], strict=False))
    return any(name in values and values[name] not in _OFF for name in ("analyze", "analyse"))


def _effect_of_planned(statement: Sequence[Token]) -> Effect:
    first = statement[0].text if statement else "execute"
    if first in _QUERIES:
        return _effect_of_query(statement)
    return Effect.UNKNOWN if first == "execute" else Effect.WRITES


def _effect_of_query(query: Sequence[Token]) -> Effect:
    found = Effect.READS
    words = [each.text for each in query]
    for at, each in enumerate(query):
        before = words[at - 1] if at else "("
        after = words[at + 1] if at + 1 < len(words) else ""
        if each.kind == "word" and _writes(words, at, before, query[at + 1 : at + 2]):
            return Effect.WRITES
        if after != "(" or each.kind not in ("word", "name", "variable"):
            continue
        # AS x (…), FROM (…) AS x (…) and WITH x (…) name columns, and CAST(… AS x(…)) a type
        is_call = before not in ("as", ")", "with", "recursive") and each.text not in NO_FUNCTIONS
        schema = words[at - 2] if before == "." and at > 1 else "pg_catalog"
        if is_call and schema == "pg_catalog" and each.text in WRITING_FUNCTIONS:
            return Effect.WRITES
        if is_call and (schema != "pg_catalog" or each.text not in HARMLESS_FUNCTIONS):
            found = Effect.UNKNOWN
    return found


def _writes(words: Sequence[str], at: int, before: str, after: Sequence[Token]) -> bool:
    word = words[at]
    if word in _CHANGES:
        named = bool(after) and after[0].kind != "mark" and _CHANGES[word] in ("", after[0].text)
        return named and before in ("(", ")")
    return word == "into" or (word == "for" and any(words[at + 1 : at + 1 + len(each)] == each for each in _LOCKS))
