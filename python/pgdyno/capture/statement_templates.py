"""The constants and comments in the text of a statement, and the text without them: its template.

A template keeps names and parameters; MARK stands for each constant and comment, and follows each quoted name and
parameter. Statements with the same template differ in their constants only, so Python looks at templates, of which a
log has few, and DuckDB at statements.
"""

import re
from dataclasses import dataclass

MARK = "\x04"
_NAMES = r'"(?:[^"]|"")*"|\$[0-9]+'
_TAG = r"(?:[A-Za-z_]|[^\x00-\x7f])(?:[A-Za-z_0-9]|[^\x00-\x7f])*"
DOLLARS = rf"\$(?:{_TAG})?\$"
"""Matches what begins a constant in dollar quotes; understood by Python and by RE2."""
_STRINGS = (
    r"\b[eE]'(?:[^'\\]|''|\\.)*'"
    r"|(?:\b(?:[uU]&|[bBxXnN]))?'(?:[^']|'')*'"
    rf"|\$\$.*?\$\$|\${_TAG}\$.*?\${_TAG}\$"
)
_COMMENTS = r"--[^\n]*|/\*.*?\*/"
_NUMBERS = (
    r"\b0(?:[xX][0-9A-Fa-f_]+|[oO][0-7_]+|[bB][01_]+)\b"
    r"|(?:\b[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\b"
)
LARGE_NUMBER = r"[0-9][0-9_]{9}|\b0[xXoObB][0-9A-Fa-f_]{8}"
"""Matches in each number without quotes that may have more than nine digits; understood by Python and by RE2."""
TOKENS = f"(?s){_NAMES}|{_STRINGS}|{_COMMENTS}|{_NUMBERS}"
"""Matches what MARK stands for, or follows; understood by Python and by RE2."""
SPLIT = f"(?s)({_NAMES})|{_STRINGS}|{_COMMENTS}|{_NUMBERS}"
r"""Replaced by `\1` and MARK, leaves the template."""
KEPT_COMMENT = (
    r"(?i)/\*, \.\.\. \*/|/\*\+\s*(?:(?:no)?(?:seq|tid|index|indexonly|bitmap)scan(?:regexp)?|disableindex|leading|rows"
    r"|(?:no)?(?:nestloop|hashjoin|mergejoin|memoize)|parallel|set)\s*\([\w\s().,#+*\"-]*\)\s*\*/"
)
"""Matches the comments that are no data: hints of pg_hint_plan, and what pg_stat_statements writes for further elements
of a list; understood by Python and by RE2.
"""

_TOKEN = re.compile(TOKENS)
_IS_NAME = re.compile(_NAMES)
_IS_KEPT_COMMENT = re.compile(KEPT_COMMENT)
_IS_VALUE = re.compile(rf"(?:[eEbBxXnN]|[uU]&)?'|\$[^0-9]|{LARGE_NUMBER}")
_GAP = rf"[\s{MARK}]"
"""Between two words: MARK may stand for a comment."""
_CREDENTIALS = re.compile(
    rf"\b(?:create|alter){_GAP}+(?:role|user|group|server|subscription|foreign{_GAP}+data{_GAP}+wrapper)\b"
    rf"|\bpassword\s*{MARK}",
    re.IGNORECASE,
)
_PARAMETER = re.compile(r"\$(\d{1,5})\Z")
_PARAMETERS = re.compile(rf"\$(\d{{1,5}}){MARK}")
# at the begin of a statement: from each further "copy" of a long one, another look to its end would take hours
_COPY = rf"(?:\A|;){_GAP}*+copy\b[^;]*\b"
_COPY_DATA = re.compile(rf"{_COPY}from{_GAP}+stdin\b", re.IGNORECASE)
_COPY_FILE = re.compile(rf"{_COPY}(?:from|to)\s+(?:program\s*)?{MARK}", re.IGNORECASE)
_CODE = re.compile(
    rf"\bcreate{_GAP}+(?:or{_GAP}+replace{_GAP}+)?(?:function|procedure)\b|\bdo\s+(?:language\s+\w+\s+)?{MARK}",
    re.IGNORECASE,
)
# after all constants and names, no `$` begins anything that PostgreSQL knows, and no number is left
_UNBALANCED = re.compile(r"""'|\$\$|/\*|\*/|\\|(?<!\w)\$|(?<![\w$])[0-9]\w{9}""")
_SETS = re.compile(
    # possessive: the name of the setting must not be looked for elsewhere
    rf"{_GAP}*+(?:set|show|reset){_GAP}++(?:(?:session|local){_GAP}++)?+"
    # a role and the name of an application may be a user's
    r"(?!(?:application_name|role|session_authorization|authorization)\b)"
    # settings of an application have a dot; so may have all names in quotes
    rf"[a-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*+(?!{_GAP}*+[.&\"])",
    re.IGNORECASE,
)
_BEFORE_KEPT = re.compile(
    # not the end of another operator, such as the distance <->
    r"(?:(?<![-+*/<>=~!@#%^&|`?])(?:->>?|#>>?)|\binterval|\bat\s+time\s+zone"
    r"|\b(?:date_trunc|date_part|nextval|currval|setval|set_config|current_setting|to_regclass|timezone)\s*\()\s*$",
    re.IGNORECASE,
)
_AFTER_KEPT = re.compile(r"\s*::\s*(?:pg_catalog\.)?(?:reg\w+|interval)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Template:
    """What is done with the statements of a template."""

    reason: str | None
    """Why they are left out."""
    kept: tuple[int, ...]
    """Places of the constants that an anonymised statement keeps, because they are no data; from 1."""
    kept_parameters: tuple[int, ...]
    """Numbers of the parameters that stand where a constant is no data."""
    parameters: int
    """The highest number of a parameter; 0 without parameters."""


def judge_template(template: str, *, anonymised: bool) -> Template:
    """Return what is done with the statements of `template`."""
    pieces = template.split(MARK)
    kept: set[int] = set()
    kept_parameters: set[int] = set()
    for place in range(1, len(pieces)):
        parameter = _PARAMETER.search(pieces[place - 1])
        before = pieces[place - 1][: parameter.start()] if parameter is not None else pieces[place - 1]
        if _BEFORE_KEPT.search(before) or _AFTER_KEPT.match(pieces[place]):
            kept.add(place)
            if parameter is not None:
                kept_parameters.add(int(parameter[1]))
    if _SETS.match(template):
        # what a client sends together with SET is another statement
        kept.update(range(1, template.partition(";")[0].count(MARK) + 1))
    numbers = [int(each) for each in _PARAMETERS.findall(template)]
    return Template(
        _reason(template, anonymised), tuple(sorted(kept)), tuple(sorted(kept_parameters)), max(numbers, default=0)
    )


def _reason(template: str, anonymised: bool) -> str | None:
    if _CREDENTIALS.search(template):
        return "credentials"
    if _COPY_DATA.search(template):
        return "copy-data"
    if _COPY_FILE.search(template):
        return "copy-file"
    if anonymised and _CODE.search(template):
        return "code"
    if anonymised and _is_unclear(template):
        return "not-anonymised"
    return None


def _is_unclear(template: str) -> bool:
    """Tells whether `template` may have text of constants."""
    return _UNBALANCED.search(_IS_NAME.sub("", template)) is not None


def is_unclear(sql: str) -> bool:
    """Tells whether the constants and comments of `sql` cannot be told from the rest."""
    return _is_unclear(re.sub(SPLIT, lambda match: (match[1] or "") + MARK, sql))


def has_values(sql: str) -> bool:
    """Tells whether `sql` has text in quotes, or a number of more than nine digits."""
    return any(map(_IS_VALUE.match, _TOKEN.findall(sql)))


def without_comments(sql: str) -> str:
    """Return `sql` without the comments that may have data."""
    return _TOKEN.sub(_without_comment, sql).strip()


def _without_comment(token: re.Match[str]) -> str:
    is_comment = token[0].startswith(("--", "/*"))
    return " " if is_comment and _IS_KEPT_COMMENT.fullmatch(token[0]) is None else token[0]
