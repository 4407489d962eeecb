"""The places of a transaction's statements, with the constants that sampled transactions have there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgdyno.synthesise.constants import ConstantReader, Constants, Form, Template
from pgdyno.synthesise.transactions import Element, Row, Sequence_, TransactionClass, repeats

Texts = NDArray[np.object_]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Site:
    """A statement of a class of transactions."""

    element: int
    """Number of the element in the sequence."""
    offset: int
    """Its place in the loop's body; 0 for a single statement."""
    is_looped: bool
    number: int
    """The class of the statement."""
    template: Template
    forms: tuple[Form, ...]
    columns: tuple[Texts, ...]
    """The values of each constant, in the order in which the statements began."""
    transactions: Numbers
    sessions: Numbers
    began_us: Numbers
    """When each statement began, after the start of the capture."""
    pause_us: float
    """The median pause before it, since the statement before; 0 for the first."""

    def align_column(self, column: Texts, of: Site) -> Texts | None:
        """Return the value that `column` of an earlier site has for each statement here; None if there is no one such.

        A site outside of loops has one value for each transaction; sites of the same loop go together.
        """
        if self.is_looped and of.is_looped:
            return column if self.element == of.element else None
        if of.is_looped:
            return None
        return column[self.transactions]


@dataclass(frozen=True)
class SampledClass:
    of: TransactionClass
    sites: list[Site]
    """In the order of the transaction; a loop's body once."""
    loop_counts: dict[int, Numbers]
    """How often each loop ran, by element."""
    sampled: int
    """Transactions whose constants are known."""


_Place = tuple[int, int]


@dataclass(frozen=True)
class _Read:
    place: _Place
    constants: Constants
    began_us: int
    pause_us: float


def read_sites(
    of: TransactionClass, transactions: Iterable[tuple[int, Sequence_, Sequence[Row]]], texts: Sequence[str]
) -> SampledClass | None:
    """Read the sites of a class; `texts` are the normalised texts of the statements' classes.

    Statements of a class may differ in more than constants, such as in the length of a list: at each site, those of the
    usual text count. Returns None if there are none.
    """
    readers = {number: ConstantReader(texts[number]) for sequence in of.sequences for number in sequence}
    found = ((session, _read(sequence, of.elements, rows, readers)) for session, sequence, rows in transactions)
    read = [(session, places) for session, places in found if places is not None]
    shapes: dict[_Place, Counter[tuple[Template, tuple[Form, ...]]]] = {}
    for _, places in read:
        for each in places:
            shapes.setdefault(each.place, Counter())[each.constants.template, each.constants.forms] += 1
    usual = {place: counted.most_common(1)[0][0] for place, counted in shapes.items()}
    gathered: dict[_Place, list[tuple[int, _Read]]] = {}
    loops: dict[int, list[int]] = {}
    sessions: list[int] = []
    for session, places in read:
        if any((each.constants.template, each.constants.forms) != usual[each.place] for each in places):
            continue
        for each in places:
            gathered.setdefault(each.place, []).append((len(sessions), each))
        times = Counter(each.place[0] for each in places if each.place[1] == 0)
        for element, shape in enumerate(of.elements):
            if shape.is_loop:
                loops.setdefault(element, []).append(times[element])
        sessions.append(session)
    if not sessions:
        return None
    counts = {element: np.array(each, dtype=np.int64) for element, each in loops.items()}
    sites = [_site(of, place, gathered[place], np.array(sessions, dtype=np.int64)) for place in sorted(gathered)]
    return SampledClass(of, sites, counts, len(sessions))


def _read(
    sequence: Sequence_, elements: Sequence[Element], rows: Sequence[Row], readers: dict[int, ConstantReader]
) -> list[_Read] | None:
    places = []
    ended_us: int | None = None
    at = 0
    for element, (each, count) in enumerate(zip(elements, repeats(sequence, elements), strict=True)):
        for offset, number in list(enumerate(each.body)) * count:
            row = rows[at]
            constants = readers[number].read(row.sql, row.parameters)
            if constants is None:
                return None
            pause_us = float(row.at_us - ended_us) if ended_us is not None else 0.0
            places.append(_Read((element, offset), constants, row.at_us, pause_us))
            ended_us = None if row.us is None else row.at_us + row.us
            at += 1
    return places


def _site(of: TransactionClass, place: _Place, statements: Sequence[tuple[int, _Read]], sessions: Numbers) -> Site:
    element, offset = place
    each = of.elements[element]
    first = statements[0][1].constants
    values = np.empty((len(statements), len(first.forms)), dtype=object)
    values[:] = [read.constants.values for _, read in statements]
    transactions = np.array([transaction for transaction, _ in statements], dtype=np.int64)
    return Site(
        element=element,
        offset=offset,
        is_looped=each.is_loop,
        number=each.body[offset],
        template=first.template,
        forms=first.forms,
        columns=tuple(values.T),
        transactions=transactions,
        sessions=sessions[transactions],
        began_us=np.array([read.began_us for _, read in statements], dtype=np.int64),
        pause_us=float(np.median([read.pause_us for _, read in statements])),
    )
