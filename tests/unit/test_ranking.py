"""Places of runs: no order is claimed that their intervals do not support, and what cannot be compared has a reason."""

import math
from datetime import timedelta

import numpy as np

from pgdyno.analyse.pairs import Metric
from pgdyno.publish.index_page import index_page
from pgdyno.publish.ranking import ranking
from pgdyno.publish.run_entry import Entry
from pgdyno.records import Fingerprint, ServerPrint
from tests.unit.archive_sample import MARKUP, fingerprint
from tests.unit.store_sample import STARTED


def fingerprint_of(shared_buffers: str = "16384", kernel: str = "6.1") -> Fingerprint:
    taken = fingerprint()
    server = ServerPrint(
        version="18.6", version_full="", settings_changed={"shared_buffers": shared_buffers}, data_checksums=True
    )
    host = taken.host.model_copy(update={"kernel": kernel})
    return taken.model_copy(update={"servers": {"pg": server}, "host": host})


def entry(name: str, *figures: float, **changes: object) -> Entry:
    taken = changes.setdefault("print", fingerprint_of())
    assert isinstance(taken, Fingerprint)
    settings = taken.servers["pg"].settings_changed
    logs = tuple(map(math.log, figures))
    return Entry(name=name, run=name, points="p", started_at=STARTED, settings=settings, logs=logs, **changes)  # type: ignore[arg-type]


def around(mean: float, spread: float = 0.002) -> list[float]:
    return [mean * (1 + spread * at) for at in (-2, -1, 0, 0, 1, 2)]


def places(*entries: Entry) -> dict[str, tuple[int, int]]:
    (group,) = ranking(entries).groups
    return {each.entry.name: (each.first, each.last) for each in group.ranked}


def test_runs_share_places_where_their_intervals_overlap_or_show_no_difference() -> None:
    runs = [entry("a", *around(1000)), entry("b", *around(1003)), entry("c", *around(900)), entry("d", *around(1100))]
    assert places(*runs) == {"d": (1, 1), "a": (2, 3), "b": (2, 3), "c": (4, 4)}
    # of latencies, the lowest is the best
    latencies = [each.model_copy(update={"metric": Metric.P99}) for each in runs]
    assert places(*latencies) == {"c": (1, 1), "a": (2, 3), "b": (2, 3), "d": (4, 4)}
    # differences below 1 % and few repeats give no order
    for other, shown in ((around(1008, 0), False), (around(1012, 0), True), (around(2000)[:5], False)):
        found = places(entry("a", *around(1000, 0)), entry("b", *other))
        assert found == ({"b": (1, 1), "a": (2, 2)} if shown else {"a": (1, 2), "b": (1, 2)})


def test_equal_runs_get_an_order_in_fewer_than_one_of_twenty_groups() -> None:
    random = np.random.default_rng(7)
    taken = fingerprint_of()
    wrong = 0
    for _ in range(600):
        figures = np.exp(random.normal(7, 0.1, (10, 6)))
        (group,) = ranking([entry(str(at), *each, print=taken) for at, each in enumerate(figures)]).groups
        wrong += group.has_order
    assert wrong <= 0.05 * 600


def test_the_server_is_what_is_ranked_and_other_differences_keep_runs_apart() -> None:
    runs = [
        entry("small", *around(900)),
        entry("large", *around(1000), print=fingerprint_of("131072")),
        entry("kernel", *around(1000), print=fingerprint_of(kernel="6.12")),
        entry("load", *around(1000)).model_copy(update={"points": "q"}),
        entry("void", *around(1000), alone="its audit says so"),
        entry("damaged", *around(1000), problem="it is not JSON"),
    ]
    found = ranking(runs)
    ((one, other),) = (group.ranked for group in found.groups)
    assert (one.entry.name, other.entry.name) == ("large", "small")
    assert found.groups[0].differing == ["shared_buffers"]
    assert {each.name: reason for each, reason in found.unranked} == {
        "kernel": "differs from small in kernel",
        "load": "no other run measured the same points with the same load",
        "void": "its audit says so",
        "damaged": "it is not JSON",
    }
    page = index_page(runs)
    assert "shared_buffers 131072" in page
    assert page.index(">large<") if ">large<" in page else "runs/large/" in page


def test_texts_are_cut_and_escaped_and_a_thousand_runs_take_less_than_a_megabyte() -> None:
    texts = {
        "answer": "PostgreSQL 18.6 reaches 71,300 transactions a second at 48 clients (95 %: 70,100 to 72,500, n = 12)",
        "question": f"quick: select-only on a fresh PostgreSQL 18, from 2 to 64 clients {MARKUP}",
        "machine": "AMD EPYC 9R14 96-Core Processor, 16 cores, 66.6 GB",
        "validity": "42 passed, 2 cautions: preflight, no-repeats",
    }
    runs = [
        entry(f"quick-{at:012x}", *around(1000 + at), **texts, versions=("18.6",), noise="A").model_copy(
            update={"started_at": STARTED + timedelta(hours=at)}
        )
        for at in range(1_000)
    ]
    page = index_page(runs)
    assert len(page.encode()) < 1_000_000
    assert page.count("<tr>") == 1_002
    assert MARKUP not in page
    long = index_page([entry("long", *around(1000), answer="x" * 10_000, question="y" * 10_000)])
    assert len(long.encode()) < 20_000
