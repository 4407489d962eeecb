"""Which variable stands for each constant of a script, and how it is drawn."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime

import numpy as np

from pgdyno.capture.parser import BLANKS
from pgdyno.synthesise.constants import Form, Value, literal
from pgdyno.synthesise.distributions import Drawn, Integers, Uniform
from pgdyno.synthesise.fit_values import ENOUGH, Fit, fit, tolerance
from pgdyno.synthesise.unchanged_columns import unchanged_column
from pgdyno.synthesise.values_and_pauses import Site, Texts

EQUAL = 0.995
"""The part of the transactions in which two constants must be equal to be one variable."""
NARROW = 0.1
"""A range whose width scatters less than this part of its start: the width is drawn, not the end."""
MOST_VARIANTS = 12
"""The most variants of a statement that differ in texts."""
COVERED = 0.95
"""The part of the statements that the variants must cover."""
MOST_DECIMALS = 6
MOST_NULL = 0.02
"""Below this part, NULL is left out."""
MOST_ELEMENTS = 30
"""The most elements of an array whose elements are drawn."""
RISING = 0.9
"""The correlation of keys with their order from which they are taken to be new ones; within a group, the part of the
keys that are larger than the one before.
"""
MOST_GROUPING, SMALLEST_GROUPS = 10, 10
"""The most columns that are tried as groups, and the fewest rows that their groups have on average."""
MOST_SESSIONS, LEAST_KEPT = 40, 10
"""The most sessions whose values are listed, and the fewest values of each that show that it keeps one."""
NEW_KEYS = 1_000_000_000
MOST_INT4 = 2**31 - 1
RESERVED = {"client_id", "default_seed", "random_seed", "scale"}
"""Variables that pgbench sets."""

# a text with leading zeros is another one without them
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d{0,11})\.\d+")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_BARE_UUID = re.compile(r"[0-9a-f]{32}", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d(:?\d\d)?)?")
_ARRAY = re.compile(r"\{-?\d{1,18}(?:,-?\d{1,18})*\}")
_STORES = re.compile(r"\s*(?:insert\b|update\b(?!.*\bwhere\b))", re.IGNORECASE | re.DOTALL)
"""Matches the text before a constant that a statement stores, and does not look for."""
_PATTERN = re.compile(r"(\D*?)([1-9]\d{0,17}|0)(\D*)")
# with letters, as numbers, times and addresses of other types have none; no array, range, JSON or XML
_PLAIN = re.compile(r"(?=.*[A-Za-z])[^\[{(<\\]{2,}", re.DOTALL)
_TYPED = re.compile(r"\b(date|time|timestamp|timestamptz|timetz|interval|time\s+zone)\s*$", re.IGNORECASE)
_COMPARED = re.compile(
    r'"?([A-Za-z_]\w*)"?\s*+(?:=|<>|!=|<=|>=|<|>|\+|-|\*|~~\*?|\b(?:i?like|in|any|between)\b)?\s*+\(?\s*+$',
    re.IGNORECASE,
)
_NOT_NAMES = {
    "and", "or", "not", "between", "in", "any", "like", "ilike", "values", "where", "select", "set", "on", "when",
}  # fmt: skip
_INSERTED = re.compile(r"\s*insert\s+into\s+[\w.\"]+\s*\(([^()]*)\)\s*values\s*\($", re.IGNORECASE)
_RETURNS = re.compile(
    r"\breturning\s+(?:\"?\w+\"?\.)?\"?([a-z_]\w*)\"?\s*(?:,.*)?$|^\s*select\s+(nextval)\s*\([^()]*\)\s*$",
    re.IGNORECASE | re.DOTALL,
)
_SEVERAL_ROWS = re.compile(r"\)\s*,\s*\(")
_INSERT = re.compile(rf"{BLANKS}insert\b", re.IGNORECASE)


@dataclass(frozen=True)
class Spelling:
    """How a variable stands in SQL."""

    before: str = ""
    after: str = ""
    """Text around a number, in the same constant."""
    expression: str | None = None
    """An expression of SQL with `{}` for the variable, in place of a constant."""

    def sql(self, name: str, form: Form, *, is_simple: bool) -> str:
        """Return the constant; `is_simple` tells whether pgdrive puts values into the text, or sends parameters."""
        if self.expression is not None:
            return self.expression.format(f":{name}")
        if form is Form.NUMBER:
            return f":{name}"
        if is_simple:
            inside = f"{self.before}:{name}{self.after}".replace("'", "''")
            return f"'{inside}'"
        if not self.before and not self.after:
            return f":{name}"
        parts = [literal(self.before, Form.TEXT), f":{name}", literal(self.after, Form.TEXT)]
        return "(" + " || ".join(part for part in parts if part != "''") + ")"


@dataclass(frozen=True)
class Variable:
    """A variable of the script that later constants may repeat."""

    name: str
    spelling: Spelling
    site: Site
    column: Texts
    numbers: Integers | None
    """The values as numbers, if all are."""


@dataclass(frozen=True)
class Choice:
    """A constant whose SQL differs between the variants of its statement."""

    keys: Sequence[Value]
    """What each captured statement chose."""
    sql: Mapping[Value, str]


@dataclass(frozen=True)
class Variant:
    """One of the texts of a statement."""

    sql: str
    count: int


@dataclass(frozen=True)
class SiteText:
    """What a script says for one statement."""

    lines: list[str]
    """Comments, each a single line, and `\\set` lines before it."""
    variants: list[Variant]
    """One, or several of which a transaction chooses one."""
    choice: str | None
    """The variable that chooses: a number from 1 to the sum of the counts."""


@dataclass
class Variables:
    """The variables of one script."""

    is_simple: bool
    """Whether values are put into the text, in the simple protocol."""
    began: datetime
    """The start of the capture."""
    sessions: Sequence[int] = ()
    """The captured session of each client; empty if clients stand for no sessions."""
    known: list[Variable] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """Names that no variable may have, or that one has."""
    returning: list[tuple[Site, str]] = field(default_factory=list)
    """Statements that return a new key, each with its column, of which no variable is made yet."""
    counters: dict[int, list[str]] = field(default_factory=dict)
    """The `\\set` lines before each loop, by its element."""
    gset: dict[tuple[int, int], str] = field(default_factory=dict)
    """The prefix of the variables that a statement returns, by the place of its site."""

    def free_name(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self.names or name in RESERVED or f"{name}_of" in self.names:
            name, number = f"{wanted}_{number}", number + 1
        self.names |= {name, f"{name}_of"}
        return name

    def text(self, site: Site, pieces: Sequence[str]) -> SiteText:
        """Return the text of `site`; `pieces` are the SQL around its constants."""
        text = self._text_of(site, pieces)
        column = _returned_column("$1".join(pieces))
        if column is not None and text.choice is None:
            self.returning.append((site, column))
        # the text of a value may be in a comment
        return replace(text, lines=[" ".join(line.split()) for line in text.lines])

    def _text_of(self, site: Site, pieces: Sequence[str]) -> SiteText:
        lines: list[str] = []
        constants = [self._constant(site, index, column, lines) for index, column in enumerate(site.columns)]
        choices = [each for each in constants if isinstance(each, Choice)]
        chosen, notes = _variants([each.keys for each in choices]) if choices else ([((), 1)], [])
        lines += [f"-- {note}" for note in notes]
        variants = []
        for keys, count in chosen:
            key = iter(keys)
            filled = (each.sql[next(key)] if isinstance(each, Choice) else each for each in constants)
            sql = "".join(piece + constant for piece, constant in zip(pieces, [*filled, ""], strict=True))
            variants.append(Variant(sql, count))
        if len(variants) == 1:
            return SiteText(lines, variants, None)
        name = self.free_name("variant")
        lines.append(f"-- {name}: which of {len(variants)} texts, as often as captured")
        lines.append(f"\\set {name} random(1, {sum(each.count for each in variants)})")
        return SiteText(lines, variants, name)

    def _constant(self, site: Site, index: int, column: Texts, lines: list[str]) -> str | Choice:
        form = site.forms[index]
        values = set(column)
        if len(values) == 1 and (form is not Form.PARAMETER or None in values or self.is_simple):
            return literal(column[0], form)
        unchanged = unchanged_column(site, index)
        if unchanged is not None:
            lines.append(f"-- {unchanged} stays as it is: updates of the same row stored the same value")
            return unchanged
        found: str | Choice | None = None
        if form is not Form.RAW and (form is not Form.TEXT or self.is_simple):
            wanted = _suggest_name(site, index)
            same = self._find_same(site, column) if len(values) > 1 else None
            read = _read_numbers(column)
            if same is not None:
                found = same.spelling.sql(same.name, form, is_simple=self.is_simple)
            elif read is not None:
                found = self._number(site, index, wanted, read, lines)
            elif form is not Form.NUMBER and None not in values and len(values) > MOST_VARIANTS:
                found = self._array(column, wanted, lines) or self._text(site, index, wanted, lines)
        if found is None:
            return Choice(list(column), {value: literal(value, form) for value in values})
        keys = [None if value is None else "" for value in column]
        if isinstance(found, Choice) or keys.count(None) <= MOST_NULL * len(keys):
            return found
        return Choice(keys, {None: literal(None, form), "": found})

    def _array(self, column: Texts, wanted: str, lines: list[str]) -> Choice | None:
        """Draws the elements of arrays of whole numbers; the length is chosen. None for others, and for long ones."""
        if not all(map(_ARRAY.fullmatch, column)):
            return None
        arrays = [value[1:-1].split(",") for value in column]
        lengths = [len(each) for each in arrays]
        if max(lengths) > MOST_ELEMENTS or len(set(lengths)) > MOST_VARIANTS:
            return None
        found = fit(_thin_numbers(np.array([element for each in arrays for element in each], dtype=np.int64)))
        names = [self.free_name(f"{wanted}_{place}") for place in range(1, max(lengths) + 1)]
        lines.append(f"-- {names[0]} to {names[-1]}: elements of arrays: {_describe_fit(found)}")
        lines += [line for name in names for line in found.distribution.lines(name)]
        # the type of a parameter is not in a log; an int is converted to larger types of numbers
        of = "int" if all(abs(int(element)) <= MOST_INT4 for each in arrays for element in each) else "bigint"
        head, tail = ("'{", "}'") if self.is_simple else ("ARRAY[", f"]::{of}[]")
        drawn = [f":{name}" for name in names]
        sql: dict[Value, str] = {str(each): f"{head}{','.join(drawn[:each])}{tail}" for each in lengths}
        return Choice(list(map(str, lengths)), sql)

    def _find_same(self, site: Site, column: Texts) -> Variable | None:
        for each in reversed(self.known):
            theirs = site.align_column(each.column, each.site)
            if theirs is not None and np.mean(theirs == column) >= EQUAL:
                return each
        return None

    def _number(self, site: Site, index: int, wanted: str, read: _Read, lines: list[str]) -> str:
        form, column = site.forms[index], site.columns[index]
        spelling = Spelling()
        returned = self._find_returned(site, column, read)
        if returned is not None:
            return returned.spelling.sql(returned.name, form, is_simple=self.is_simple)
        name = self.free_name(wanted)
        numbers = read.numbers if not read.has_null and read.scale == 1 else None
        self.known.append(Variable(name, spelling, site, column, numbers))
        kept = None if numbers is None else _keep_ids(site, numbers, self.sessions)
        of_site = (each for each in reversed(self.known[:-1]) if each.site is site)
        before = next((each for each in of_site if numbers is not None and _is_range(each, numbers)), None)
        if kept is not None:
            lines.append(f"-- {name}: each session kept one value, and so does each client")
            lines.append(f"\\set {name} {kept}")
        elif before is not None and numbers is not None and before.numbers is not None:
            width = fit(_thin_numbers(numbers - before.numbers))
            lines.append(f"-- {name}: {before.name} and a width: {_describe_fit(width)}")
            if isinstance(width.distribution, Drawn):
                lines.append(f"\\set {name} :{before.name} + {width.distribution.expression()}")
            else:
                extra = self.free_name(f"{name}_width")
                lines += [*width.distribution.lines(extra), f"\\set {name} :{before.name} + :{extra}"]
        elif (first := _counts_from(site, read)) is not None:
            lines += [f"-- {name}: counts the repeats, from {first:,} on", f"\\set {name} :{name} + 1"]
            self.counters.setdefault(site.element, []).append(f"\\set {name} {first - 1}")
        elif is_insert(site.template.pieces[0]) and (_are_new_keys(read) or _rise_in_groups(site, index, read)):
            low = int(read.numbers.max()) + 1
            high = MOST_INT4 if low < MOST_INT4 else low + NEW_KEYS
            lines.append(f"-- {name}: a new key each time, above the captured ones; two may be equal by chance")
            lines.append(f"\\set {name} {Uniform(low, high).expression()}")
        else:
            found = fit(_thin_numbers(read.numbers))
            lines.append(f"-- {name}: {_describe_fit(found, read.scale)}")
            lines += found.distribution.lines(name, read.scale)
        return spelling.sql(name, form, is_simple=self.is_simple)

    def _find_returned(self, site: Site, column: Texts, read: _Read) -> Variable | None:
        if not self.returning or read.has_null:
            return None
        by, key = self.returning[-1]
        if by.is_looped:
            if by.element != site.element:
                return None
            column_there, numbers = column, read.numbers
        else:
            # one for each transaction, also if a loop repeats it
            _, first, places = np.unique(site.transactions, return_index=True, return_inverse=True)
            column_there, numbers = column[first], read.numbers[first]
            if not np.array_equal(numbers[places], read.numbers):
                return None
        if not _are_new_keys(replace(read, numbers=numbers)):
            return None
        self.returning.pop()
        number = next(each for each in itertools.count(1) if f"new{each}_{key}" not in self.names)
        self.names.add(f"new{number}_{key}")
        self.gset[by.element, by.offset] = f"new{number}_"
        self.known.append(Variable(f"new{number}_{key}", Spelling(), by, column_there, numbers))
        return self.known[-1]

    def _text(self, site: Site, index: int, wanted: str, lines: list[str]) -> str | None:
        form, column = site.forms[index], site.columns[index]
        if _TYPED.search(site.template.pieces[index]):
            return None
        # a text that no row has would find none
        is_stored = _STORES.match("$1".join(site.template.pieces[: index + 1])) is not None
        model = (
            _instants(column, site.began_us, self.began)
            or _dates(column)
            or _uuids(column, self.is_simple)
            or _model_numbered(column, self.is_simple)
            or (_model_filled(column) if is_stored else None)
        )
        if model is None:
            return None
        note, spelling, found = model
        if found is None:
            lines.append(f"-- {wanted}: {note}")
            return spelling.expression
        name = self.free_name(wanted)
        lines += [f"-- {name}: {note}: {_describe_fit(found)}", *found.distribution.lines(name)]
        self.known.append(Variable(name, spelling, site, column, None))
        return spelling.sql(name, form, is_simple=self.is_simple)


def _returned_column(text: str) -> str | None:
    """Return the column of the one row that a statement returns as a new key; None if it does not."""
    match = _RETURNS.search(text)
    if match is None or _SEVERAL_ROWS.search(text) is not None:
        return None
    return (match[1] or match[2]).lower()


def is_insert(text: str) -> bool:
    """Tells whether `text` begins as INSERT does."""
    return _INSERT.match(text) is not None


# ---- numbers ----


@dataclass(frozen=True)
class _Read:
    numbers: Integers
    """Whole numbers: the values times `scale`, without NULL."""
    scale: int
    has_null: bool


def _read_numbers(column: Texts) -> _Read | None:
    """Return the numbers of `column`; None if a value is neither a number nor NULL."""
    present = [value for value in column if value is not None]
    if not present:
        return None
    has_null = len(present) < len(column)
    if all(map(_INTEGER.fullmatch, present)):
        return _Read(np.array(present, dtype=np.int64), 1, has_null)
    if not all(_INTEGER.fullmatch(value) or _DECIMAL.fullmatch(value) for value in present):
        return None
    scale = 10 ** min(MOST_DECIMALS, max(len(value.partition(".")[2].rstrip("0")) for value in present))
    return _Read(np.array([round(float(value) * scale) for value in present], dtype=np.int64), scale, has_null)


def _keep_ids(site: Site, numbers: Integers, sessions: Sequence[int]) -> str | None:
    """Return what gives each client the number that its captured session kept; None if sessions keep none."""
    count = len(sessions)
    if not 1 < count <= MOST_SESSIONS:
        return None
    kept: dict[int, int] = {}
    for session in sessions:
        values, counts = np.unique(numbers[site.sessions == session], return_counts=True)
        # a session that does not send the statement has the value of another one
        if len(values):
            if counts.sum() < LEAST_KEPT or counts.max() < EQUAL * counts.sum():
                return None
            kept[session] = int(values[counts.argmax()])
    if len(set(kept.values())) < 2:
        return None
    any_value = next(iter(kept.values()))
    *others, last = (kept.get(session, any_value) for session in sessions)
    whens = (f"when :client_id % {count} = {place} then {value}" for place, value in enumerate(others))
    return f"case {' '.join(whens)} else {last} end"


def _is_range(before: Variable, numbers: Integers) -> bool:
    """Tells whether `numbers` are the ends of ranges that begin with `before`."""
    if before.numbers is None or len(numbers) < ENOUGH or not np.ptp(before.numbers):
        return False
    width = numbers - before.numbers
    return bool(width.min() == width.max() or (width.min() >= 0 and width.std() < NARROW * before.numbers.std()))


def _are_new_keys(read: _Read) -> bool:
    """Tells whether every value is a new one, above most before it: statements are in the order of their start."""
    numbers = read.numbers
    if read.scale != 1 or len(numbers) < ENOUGH or len(np.unique(numbers)) < len(numbers):
        return False
    # they rise, though sessions overtake each other
    return float(np.corrcoef(numbers, np.arange(len(numbers)))[0, 1]) > RISING


def _counts_from(site: Site, read: _Read) -> int | None:
    """Return the first of numbers that count the repeats of a loop; None if they do not."""
    numbers = read.numbers
    if not site.is_looped or read.scale != 1 or read.has_null or len(numbers) < ENOUGH:
        return None
    _, starts, places = np.unique(site.transactions, return_index=True, return_inverse=True)
    repeat = np.arange(len(numbers)) - starts[places]
    first = int(numbers[0])
    return first if repeat.any() and np.mean(numbers == first + repeat) >= EQUAL else None


def _rise_in_groups(site: Site, index: int, read: _Read) -> bool:
    numbers = read.numbers
    if site.is_looped or read.scale != 1 or read.has_null:
        return False
    others = [column for place, column in enumerate(site.columns) if place != index]
    found = [np.unique(each.astype(str), return_inverse=True)[1] for each in others]
    few = [each for each in found if 0 < each.max() < len(numbers) / SMALLEST_GROUPS][:MOST_GROUPING]
    pairs = (one * len(numbers) + other for one, other in itertools.combinations(few, 2))
    for groups in itertools.chain(few, pairs):
        order = np.argsort(groups, kind="stable")
        steps = np.diff(numbers[order])[np.diff(groups[order]) == 0]
        if len(steps) >= max(ENOUGH, len(numbers) / 2) and np.mean(steps > 0) > RISING:
            return True
    return False


def _thin_numbers(numbers: Integers) -> Integers:
    """Return every k-th of many numbers."""
    most = 20_000
    return numbers[:: -(-len(numbers) // most)]


def _describe_fit(found: Fit, scale: int = 1) -> str:
    words = found.distribution.describe(scale)
    of = f"{found.count:,} values"
    if np.isnan(found.distance):
        return f"{words} (only {of}: too few to show more)"
    if not found.distance:
        return f"{words} (from {of})"
    fits = "" if found.distance <= tolerance(found.count) else "; the closest of all, but it does not fit"
    return f"{words} (from {of}, distance {found.distance:.3f}{fits})"


# ---- texts ----

_TextModel = tuple[str, Spelling, Fit | None]


def _instants(column: Texts, at_us: Integers, began: datetime) -> _TextModel | None:
    if not all(map(_INSTANT.fullmatch, column)):
        return None
    try:
        parsed = [datetime.fromisoformat(value) for value in column]
    except ValueError:
        return None
    zoned = parsed[0].tzinfo is not None
    whens = [each if each.tzinfo is not None else each.replace(tzinfo=UTC) for each in parsed]
    seconds = np.array([each.timestamp() for each in whens])
    offsets = seconds - (began.timestamp() + at_us / 1e6)
    now = "now()" if zoned else "(now() at time zone 'UTC')"
    if np.ptp(offsets) <= 60:
        away = round(float(np.median(offsets)))
        moved = f"({now} + interval '{away} s')" if away else now
        return f"moves with the time of the statement, {away:+,} s", Spelling(expression=moved), None
    kind = "timestamptz" if zoned else "timestamp"
    first = datetime.fromtimestamp(int(seconds.min()), UTC).replace(tzinfo=None)
    start = f"'{first.isoformat(sep=' ')}{'+00' if zoned else ''}'::{kind}"
    found = fit(_thin_numbers((seconds - int(seconds.min())).astype(np.int64)))
    return f"seconds after {first}", Spelling(expression=f"({start} + {{}}::float8 * interval '1 s')"), found


def _dates(column: Texts) -> _TextModel | None:
    if not all(map(_DATE.fullmatch, column)):
        return None
    try:
        days = np.array([date.fromisoformat(value).toordinal() for value in column], dtype=np.int64)
    except ValueError:
        return None
    first = date.fromordinal(int(days.min()))
    return (
        f"days after {first}",
        Spelling(expression=f"('{first}'::date + {{}}::int)"),
        fit(_thin_numbers(days - days.min())),
    )


def _uuids(column: Texts, is_simple: bool) -> _TextModel | None:
    note = f"{len(set(column)):,} UUIDs, of which only the frequencies are kept"
    if all(map(_BARE_UUID.fullmatch, column)):
        # perhaps a hash in a column of text: without a cast, it can be either
        return note, Spelling(before="0" * 20), _frequencies(column, 12)
    if not all(map(_UUID.fullmatch, column)):
        return None
    zeros = "00000000-0000-0000-0000-"
    spelling = Spelling(before=zeros) if is_simple else Spelling(expression=f"('{zeros}' || {{}})::uuid")
    return note, spelling, _frequencies(column, 12)


def _model_numbered(column: Texts, is_simple: bool) -> _TextModel | None:
    """A number between two texts: user17@example.org."""
    first = _PATTERN.fullmatch(column[0])
    if first is None:
        return None
    before, _, after = first.groups()
    matches = [_PATTERN.fullmatch(value) for value in column]
    numbers = [each[2] for each in matches if each is not None and (each[1], each[3]) == (before, after)]
    cannot_end = is_simple and (re.match(r"\w", after) is not None or before.endswith(":"))
    if len(numbers) < len(column) or cannot_end or _PLAIN.fullmatch(column[0]) is None:
        return None
    return (
        f"a number in {before}…{after}",
        Spelling(before, after),
        fit(_thin_numbers(np.array(numbers, dtype=np.int64))),
    )


def _model_filled(column: Texts) -> _TextModel | None:
    if not all(map(_PLAIN.fullmatch, column)):
        return None
    lengths = [len(value) for value in column]
    digits = len(str(len(set(column)))) + 2
    length = int(np.median(lengths))
    note = f"{len(set(column)):,} texts of {min(lengths):,} to {max(lengths):,} characters, of which the median length "
    return note + "and the frequencies are kept", Spelling(before="x" * (length - digits)), _frequencies(column, digits)


def _frequencies(column: Texts, digits: int) -> Fit:
    distinct, places = np.unique(column.astype(str), return_inverse=True)
    low = 10 ** (digits - 1)
    if len(distinct) == len(column):
        return Fit(Uniform(low, 10 * low - 1), 0.0, len(column))
    chosen = np.random.default_rng(len(distinct)).permutation(len(distinct))
    return fit(_thin_numbers(low + chosen[places].astype(np.int64)))


# ---- lists of texts ----


def _variants(columns: Sequence[Sequence[Value]]) -> tuple[list[tuple[tuple[Value, ...], int]], list[str]]:
    counted = Counter(zip(*columns, strict=True))
    count = len(columns[0])
    common = sorted(counted.items(), key=lambda each: (-each[1], str(each[0])))[:MOST_VARIANTS]
    covered = sum(times for _, times in common) / count
    if covered >= COVERED:
        rest = len(counted) - len(common)
        return common, [f"{rest:,} rarer variants of the texts are left out"] if rest else []
    ordered = sorted(counted, key=str)
    upto = np.cumsum([counted[each] for each in ordered])
    places = np.searchsorted(upto, (np.arange(MOST_VARIANTS) + 0.5) / MOST_VARIANTS * count)
    chosen = Counter(ordered[place] for place in places)
    note = f"{len(chosen)} of {len(ordered):,} combinations, evenly chosen: no distribution stands for them"
    return list(chosen.items()), [note]


def _suggest_name(site: Site, index: int) -> str:
    pieces = site.template.pieces
    inserted = _INSERTED.match(pieces[0])
    if inserted is not None:
        names = [name.strip(' "\n\t').lower() for name in inserted[1].split(",")]
        before = "".join(piece + "\0" for piece in pieces[: index + 1])[inserted.end() : -1]
        place = before.count(",")
        if place < len(names) and "(" not in before and re.fullmatch(r"[a-z_]\w*", names[place], re.ASCII):
            return names[place]
    between = index > 0 and re.fullmatch(r"\s*and\s*", pieces[index], re.IGNORECASE)
    match = _COMPARED.search(pieces[index - 1 if between else index])
    name = match[1].lower() if match else ""
    if not name.isascii() or name in _NOT_NAMES or not name:
        return "value"
    return f"{name}_to" if between else name
