"""Checks of memory, on artificial trees."""

from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.doctor import Needs, Place, memory
from pgdyno.records import Check
from tests.unit.doctor_sample import CGROUP_1, CGROUP_2, meminfo, tree

GIB = 1 << 30
SIXTEEN = 16 << 20
"""kB"""


def needs(
    shared: int = GIB, clients: int = 16, datasets: tuple[int, ...] = (), huge_pages: str = "try", servers: int = 1
) -> Needs:
    sizes = (shared,) * servers
    return Needs("p", clients, servers=servers, shared_buffers=sizes, datasets=datasets, huge_pages=huge_pages)


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        (needs(), "good"),
        (needs(15 * GIB), "warning"),
        (needs(clients=2000), "warning"),
        (needs(17 * GIB), "stop"),
        (needs(9 * GIB, servers=2), "stop"),
    ],
)
def test_size(tmp_path: Path, asked: Needs, verdict: str) -> None:
    check = memory.size(tree(tmp_path, meminfo(MemTotal=SIXTEEN)), asked)
    assert (check.verdict, check.measured["available_bytes"]) == (verdict, 16 * GIB)


def test_a_cluster_in_memory_takes_it(tmp_path: Path) -> None:
    system = tree(tmp_path, meminfo(MemTotal=SIXTEEN))
    for in_memory, verdict in ((True, "stop"), (False, "good")):
        place = Place(Path("/dev/shm"), ("data of a",), bytes=16 * GIB, in_memory=in_memory)
        assert memory.size(system, replace(needs(), places=(place,))).verdict == verdict


@pytest.mark.parametrize(
    "limit",
    [
        CGROUP_2 | {"sys/fs/cgroup/a/b/memory.max": "max", "sys/fs/cgroup/a/memory.max": str(4 * GIB)},
        CGROUP_1 | {"sys/fs/cgroup/memory/x/memory.limit_in_bytes": str(4 * GIB)},
    ],
)
def test_a_limit_of_the_control_group(tmp_path: Path, limit: dict[str, str]) -> None:
    system = tree(tmp_path, meminfo(MemTotal=SIXTEEN) | limit)
    assert [memory.size(system, each).verdict for each in (needs(), needs(5 * GIB))] == ["note", "stop"]
    # no limit of version 1 is a large number
    unlimited = {"sys/fs/cgroup/memory/x/memory.limit_in_bytes": str(2**63 - 4096)}
    assert tree(tmp_path, CGROUP_1 | unlimited).memory_limit_bytes() is None


@pytest.mark.parametrize(
    ("datasets", "verdict", "found"),
    [
        ((GIB // 2,), "good", "in shared buffers"),
        ((4 * GIB,), "good", "in memory, beyond shared buffers"),
        ((14 * GIB,), "warning", "about as large as memory"),
        ((40 * GIB,), "note", "larger than memory"),
        ((GIB // 2, 40 * GIB), "note", "in shared buffers and larger than memory"),
        ((), "unknown", "its size is unknown"),
    ],
)
def test_dataset(tmp_path: Path, datasets: tuple[int, ...], verdict: str, found: str) -> None:
    system = tree(tmp_path, meminfo(MemTotal=SIXTEEN))
    check = memory.dataset(system, needs(datasets=datasets))
    assert check.verdict == verdict
    assert found in check.found
    # those of several servers share memory
    for servers, shared in ((1, "good"), (2, "warning")):
        assert memory.dataset(system, needs(datasets=(6 * GIB,), servers=servers)).verdict == shared


@pytest.mark.parametrize(
    ("total", "free", "swappiness", "verdict"),
    [(0, 0, 60, "good"), (1000, 1000, 1, "good"), (1000, 1000, 60, "note"), (SIXTEEN, SIXTEEN // 2, 1, "warning")],
)
def test_swap(tmp_path: Path, total: int, free: int, swappiness: int, verdict: str) -> None:
    files = meminfo(MemTotal=SIXTEEN, SwapTotal=total, SwapFree=free)
    system = tree(tmp_path, files | {"proc/sys/vm/swappiness": f"{swappiness}\n"})
    assert memory.swap(system).verdict == verdict


@pytest.mark.parametrize(
    ("free", "asked", "verdict"),
    [
        (0, needs(GIB // 8), "good"),
        (0, needs(4 * GIB, clients=100), "note"),
        (0, needs(4 * GIB, clients=400), "warning"),
        (4000, needs(4 * GIB, clients=400), "good"),
        (4000, needs(4 * GIB, clients=400, huge_pages="off"), "warning"),
        (2000, needs(4 * GIB, huge_pages="on"), "stop"),
        (4000, needs(4 * GIB, huge_pages="on"), "good"),
    ],
)
def test_huge_pages(tmp_path: Path, free: int, asked: Needs, verdict: str) -> None:
    files = meminfo(MemTotal=SIXTEEN, HugePages_Total=free, HugePages_Free=free, HugePages_Rsvd=0, Hugepagesize=2048)
    check = memory.huge_pages(tree(tmp_path, files), asked)
    assert check.verdict == verdict
    assert verdict != "stop" or "vm.nr_hugepages=2253" in check.change


def test_huge_pages_are_not_taken_from_other_programs_nor_added_twice(tmp_path: Path) -> None:
    def asked(more: dict[str, str], **pages: int) -> Check:
        values = {"MemTotal": SIXTEEN, "Hugepagesize": 2048, **{f"HugePages_{name}": n for name, n in pages.items()}}
        return memory.huge_pages(tree(tmp_path, meminfo(**values) | more), needs(GIB // 8, huge_pages="on"))

    # 990 are in use or promised, and 1.1 times 128 MiB are 71
    assert asked({}, Total=1000, Free=50, Rsvd=40).change.startswith("sysctl vm.nr_hugepages=1061 ")
    # those that the kernel has added
    added = {"proc/sys/vm/nr_overcommit_hugepages": "100\n"}
    assert asked(added, Total=100, Free=0, Surp=100).verdict == "stop"


@pytest.mark.parametrize(
    ("enabled", "defrag", "verdict"),
    [
        ("always [madvise] never", "always [madvise] never", "good"),
        ("always madvise [never]", "[always] madvise", "good"),
        ("[always] madvise never", "always [madvise] never", "note"),
        ("[always] madvise never", "[always] madvise never", "warning"),
    ],
)
def test_transparent_huge_pages(tmp_path: Path, enabled: str, defrag: str, verdict: str) -> None:
    system = tree(tmp_path, {f"{memory.THP}/enabled": enabled, f"{memory.THP}/defrag": defrag})
    assert memory.transparent(system).verdict == verdict
