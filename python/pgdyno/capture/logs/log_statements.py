"""Statements of a block of the log: their templates, and their values as the capture keeps them."""

from dataclasses import dataclass, field

import duckdb

from pgdyno.capture.anonymise import Anonymiser
from pgdyno.capture.left_out import FILE_BITS
from pgdyno.capture.logs.text_entries import Doubt
from pgdyno.capture.statement_templates import (
    DOLLARS,
    KEPT_COMMENT,
    LARGE_NUMBER,
    MARK,
    SPLIT,
    TOKENS,
    Template,
    judge_template,
)
from pgdyno.records.secret_values import CREDENTIAL_IN_CODE, CREDENTIAL_IN_STRING, CREDENTIAL_LIKELY
from pgdyno.store.duckdb_session import quote_text

_STATEMENTS = f"""
CREATE OR REPLACE TEMP TABLE statement AS
SELECT *, regexp_replace(sql, {quote_text(SPLIT)}, {quote_text(chr(92) + "1" + MARK)}, 'g') AS form,
    hash(form) AS template
FROM event
"""
_NEW = "SELECT template, any_value(form) FROM statement WHERE form IS NOT NULL GROUP BY template"
# the first dollar quote of a statement is recognised, but its end may be within it: then all of the text counts
_WITH_CREDENTIALS = f"""
    (regexp_matches(sql, {quote_text(CREDENTIAL_LIKELY)})
     AND (len(list_filter(regexp_extract_all(sql, {quote_text(TOKENS)}), lambda token:
              (regexp_matches(token, '''|^--|^/[*]') AND regexp_matches(token, {quote_text(CREDENTIAL_IN_STRING)}))
              OR (regexp_matches(token, '^\\$[^0-9]') AND regexp_matches(sql, {quote_text(CREDENTIAL_IN_CODE)})))) > 0
          OR (regexp_matches(form, {quote_text(DOLLARS)}) AND regexp_matches(sql, {quote_text(CREDENTIAL_IN_CODE)}))))
    OR has_credentials
"""
# blanks are part of what stands in quotes, and only of that
_MAY_BE_CUT = f"""
    coalesce(doubt = '{Doubt.CUT}' OR (doubt = '{Doubt.BLANKS}'
             AND len(list_filter(regexp_extract_all(sql, {quote_text(TOKENS)}), lambda token:
                     regexp_matches(token, '^[^-/]') AND contains(token, chr(10)))) > 0), false)
"""
# within a constant in quotes, dollars are text, as in most hashes of passwords
_DOLLARS = f"""
    (regexp_matches(sql, {quote_text(DOLLARS)})
     AND (regexp_matches(form, {quote_text(DOLLARS)})
          OR len(list_filter(regexp_extract_all(sql, {quote_text(TOKENS)}), lambda token:
                 regexp_matches(token, '^\\$[^0-9]'))) > 0))
"""
# without standard_conforming_strings, a constant that seems to end with a backslash goes on: its rest would be no
# constant, and the quotes are balanced if a comment or a name has another one
_GOES_ON = f"""
    contains(sql, '\\''')
    AND len(list_filter(regexp_extract_all(sql, {quote_text(TOKENS)}), lambda token:
            regexp_matches(token, '--|/[*]|"') AND contains(token, ''''))) > 0
    AND len(list_filter(regexp_extract_all(sql, {quote_text(TOKENS)}), lambda token:
            regexp_matches(token, '(?s)^''.+\\\\''$'))) > 0
"""
_TOKENS = f"""
CREATE OR REPLACE TEMP TABLE token AS
SELECT line, 'text' AS part, template, unnest(tokens) AS token, generate_subscripts(tokens, 1) AS number
FROM (
    SELECT line, template, regexp_extract_all(sql, {quote_text(TOKENS)}) AS tokens FROM statement
    WHERE contains(sql, '''') OR contains(sql, '--') OR contains(sql, '/*')
          OR regexp_matches(sql, {quote_text(LARGE_NUMBER)})
)
UNION ALL
SELECT line, 'parameters', template, unnest(parameters), generate_subscripts(parameters, 1) FROM statement
WHERE len(parameters) > 0
UNION ALL
SELECT line, 'answer', template, unnest(answer), generate_subscripts(answer, 1) FROM statement WHERE len(answer) > 0
"""
_NUMBER = "regexp_full_match(token, '''?-?[1-9]?[0-9]{0,8}(\\.[0-9]+)?''?')"
_VALUES = f"""
SELECT DISTINCT part <> 'text', token FROM token
WHERE token IS NOT NULL AND NOT {_NUMBER}
  AND (part <> 'text' OR regexp_matches(token, {quote_text(f"^(?:{LARGE_NUMBER})")})
       OR (contains(token, '''') AND NOT regexp_matches(token, '^("|--|/[*])')))
"""
# names and parameters are in the template already
_REPLACED = f"""
CREATE OR REPLACE TEMP TABLE replaced AS
SELECT line, part, list(CASE
    WHEN part <> 'text' THEN CASE WHEN is_kept THEN token ELSE coalesce(value, token) END
    WHEN token[1] = '"' OR regexp_full_match(token, '\\$[0-9]+') OR starts_with(token, '--') THEN ''
    WHEN starts_with(token, '/*') AND NOT regexp_full_match(token, {quote_text(KEPT_COMMENT)}) THEN ' '
    WHEN is_kept THEN token
    ELSE coalesce(value, token) END ORDER BY number) AS tokens
FROM token
LEFT JOIN (SELECT unnest($flags::BOOLEAN[]) AS is_parameter, unnest($tokens::VARCHAR[]) AS original,
                  unnest($values::VARCHAR[]) AS value) known
    ON known.is_parameter = (part <> 'text') AND original = token
LEFT JOIN (SELECT unnest($templates::UBIGINT[]) AS template, unnest($numbers::BIGINT[]) AS number,
                  unnest($parts::VARCHAR[]) AS part, true AS is_kept)
    USING (template, number, part)
GROUP BY line, part
"""
_JOINED = f"""
    array_to_string(list_transform(list_zip(string_split(form, {quote_text(MARK)}), texts.tokens),
                                   lambda pair: concat(pair[1], pair[2])), '')
"""
_STORE = f"""
CREATE OR REPLACE TEMP TABLE log_event AS
SELECT ({{file}}::BIGINT << {FILE_BITS}) + line AS place, hash(key) AS session, logged_us, key, pid, started,
       process_number, database, kind, us, name, CASE WHEN form IS NOT NULL THEN template END AS template,
       {{sql}} AS sql, {{parameters}} AS parameters, {{answer}} AS answer, answer_columns, {{copy}} AS copy, copy_bytes,
       sqlstate, lock_us, rows, is_own, {{reason}} AS reason,
       coalesce(strlen(sql), 0)
       + coalesce(list_sum(list_transform(list_concat(parameters, statement.answer, statement.copy),
                                          lambda each: 16 + strlen(each))), 0)::BIGINT AS bytes
FROM statement {{joins}}
"""
"""`place` is the order of the events of all files, and says file and line."""
_JOINS = """
LEFT JOIN (SELECT line, tokens FROM replaced WHERE part = 'text') texts USING (line)
LEFT JOIN (SELECT line, tokens FROM replaced WHERE part = 'parameters') given USING (line)
LEFT JOIN (SELECT line, tokens FROM replaced WHERE part = 'answer') answered USING (line)
"""


@dataclass
class Templates:
    """The templates of a log, by DuckDB's hash of their text."""

    anonymised: bool
    known: dict[int, Template] = field(default_factory=dict)

    def learn(self, cursor: duckdb.DuckDBPyConnection) -> list[int]:
        """Judges the templates of the table `statement`; returns all of them."""
        found = cursor.execute(_NEW).fetchall()
        for template, form in found:
            if template not in self.known:
                self.known[template] = judge_template(form, anonymised=self.anonymised)
        return [template for template, _ in found]


def store_statements(
    cursor: duckdb.DuckDBPyConnection, number: int, templates: Templates, anonymiser: Anonymiser | None
) -> None:
    """Fill `log_event` from the table `event`, which is of file `number`; `anonymiser` is None to keep values."""
    cursor.execute(_STATEMENTS)
    found = templates.learn(cursor)
    parts = {"file": number, "sql": "sql", "parameters": "parameters", "answer": "answer", "copy": "copy", "joins": ""}
    reason = _reason(_DOLLARS, _GOES_ON) if anonymiser else _reason("false", "false")
    if anonymiser is not None:
        _replace(cursor, [(each, templates.known[each]) for each in found], anonymiser)
        parts |= {
            "sql": f"CASE WHEN texts.tokens IS NULL THEN sql ELSE {_JOINED} END",
            "parameters": "CASE WHEN given.tokens IS NULL THEN parameters ELSE given.tokens END",
            "answer": "CASE WHEN answered.tokens IS NULL THEN answer ELSE answered.tokens END",
            "copy": "NULL::VARCHAR[]",
            "joins": _JOINS,
        }
    cursor.execute(_STORE.format(**parts, reason=reason))
    for table in ("entry", "event", "statement", "token", "replaced"):
        cursor.execute(f"DROP TABLE IF EXISTS {table}")


def _reason(code: str, unclear: str) -> str:
    """Return SQL for the reason to leave a statement out.

    `code` is SQL that tells whether it has code, `unclear` whether its constants may be others.
    """
    return f"""
        CASE WHEN statement.reason IS NOT NULL THEN statement.reason
             WHEN sql IS NOT NULL AND {_MAY_BE_CUT} THEN 'not-whole' WHEN has_shortened THEN 'parameters-cut'
             WHEN {_WITH_CREDENTIALS} THEN 'credentials' WHEN {code} THEN 'code'
             WHEN {unclear} THEN 'not-anonymised'
             WHEN kind IN ('done', 'sent') AND len(parameters) = 0 AND regexp_matches(form, '\\$[0-9]+{MARK}')
                 THEN 'no-parameters' END
    """


def _replace(cursor: duckdb.DuckDBPyConnection, templates: list[tuple[int, Template]], anonymiser: Anonymiser) -> None:
    cursor.execute(_TOKENS)
    values = cursor.execute(_VALUES).fetchall()
    kept = [(hash_, number, "text") for hash_, template in templates for number in template.kept]
    kept += [(hash_, number, "parameters") for hash_, template in templates for number in template.kept_parameters]
    cursor.execute(
        _REPLACED,
        {
            "flags": [is_parameter for is_parameter, _ in values],
            "tokens": [token for _, token in values],
            "values": [_replacement(anonymiser, token, is_parameter) for is_parameter, token in values],
            "templates": [hash_ for hash_, _, _ in kept],
            "numbers": [number for _, number, _ in kept],
            "parts": [part for _, _, part in kept],
        },
    )


def _replacement(anonymiser: Anonymiser, token: str, is_parameter: bool) -> str:
    if is_parameter:
        return anonymiser.value(token)
    if token.startswith("$"):
        # dollar quotes are left out as a whole
        return token
    return anonymiser.literal(token) if "'" in token else anonymiser.number(token)
