"""The commit ledger compared with its table: a slow method and pgdyno's count every row and number once."""

from collections import Counter
from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.run.commit_ledger import Island, Page, compare, pages

FATES = st.sampled_from(["acknowledged", "unknown", "refused"])
CLIENTS = st.lists(st.lists(FATES, max_size=30), max_size=4)
ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(-2, 33)), max_size=120)


def ranges(numbers: list[int]) -> list[tuple[int, int]]:
    found = []
    for _, group in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        found.append((run[0], run[-1]))
    return found


def page(fates: list[str]) -> Page:
    of = {fate: [n for n, each in enumerate(fates, start=1) if each == fate] for fate in ("unknown", "refused")}
    return Page(len(fates), ranges(of["unknown"]), ranges(of["refused"]))


def islands(rows: list[tuple[int, int]]) -> list[Island]:
    counts = Counter(rows)
    found = []
    for client in sorted({client for client, _ in counts}):
        for first, last in ranges([seq for each, seq in counts if each == client]):
            total = sum(counts[client, seq] for seq in range(first, last + 1))
            found.append(Island(client, first, last, total))
    return found


@settings(max_examples=50)
@given(CLIENTS, ROWS)
def test_every_number_is_counted_as_by_hand(clients: list[list[str]], rows: list[tuple[int, int]]) -> None:
    heard = {(c, n): fate for c, fates in enumerate(clients) for n, fate in enumerate(fates, start=1)}
    there = set(rows)
    found = compare({c: page(fates) for c, fates in enumerate(clients)}, islands(rows))

    def count(fate: str, *, present: bool | None = None) -> int:
        return sum(1 for each, of in heard.items() if of == fate and (present is None or (each in there) == present))

    assert (found.acknowledged, found.missing) == (count("acknowledged"), count("acknowledged", present=False))
    assert (found.unknown, found.unknown_present) == (count("unknown"), count("unknown", present=True))
    assert (found.refused, found.refused_present) == (count("refused"), count("refused", present=True))
    assert (found.present, found.duplicates) == (len(there), len(rows) - len(there))
    assert found.strange == len(there - heard.keys())
    missing = {(each.client, seq) for each in found.missing_ranges for seq in range(each.first, each.last + 1)}
    assert missing == {each for each, of in heard.items() if of == "acknowledged" and each not in there}


def test_only_the_first_hundred_ranges_are_kept_and_all_are_counted() -> None:
    rows = [Island(0, seq, seq, 1) for seq in range(2, 401, 2)]
    found = compare({0: Page(400, (), ())}, rows)
    assert (found.missing, len(found.missing_ranges)) == (200, 100)


def test_an_engine_without_a_ledger_has_no_pages() -> None:
    assert pages([{"event": "end", "ledger": None}]) is None
    assert pages([{"event": "end"}]) is None
    # one that was killed: that a ledger was asked for is no ledger
    assert pages([{"event": "start", "ledger": True}]) is None
    assert pages([]) is None
    clients = [{"client": 2, "last": 9, "unknown": [[3, 4]], "refused": []}]
    assert pages([{"event": "end", "ledger": {"clients": clients}}]) == {2: Page(9, [(3, 4)], [])}
