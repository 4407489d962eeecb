"""Checks of memory, on artificial trees."""

from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.doctor import Needs, Place, memory
from pgdyno.doctor.system import System
from tests.unit.doctor_sample import CGROUP_1, CGROUP_2, meminfo, tree

GIB = 1 << 30
SIXTEEN = 16 << 20
"""kB"""


def needs(
    shared: int = GIB, clients: int = 16, datasets: tuple[int, ...] = (), huge_pages: str = "try", servers: int = 1
) -> Needs:
    return Needs(
        plan="p",
        clients=clients,
        servers=servers,
        shared_buffers=(shared,) * servers,
        datasets=datasets,
        huge_pages=huge_pages,
    )


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
    assert check.verdict == verdict
    assert check.measured["available_bytes"] == 16 * GIB


def test_a_cluster_in_memory_takes_it(tmp_path: Path) -> None:
    place = Place(Path("/dev/shm"), ("data of a",), bytes=16 * GIB, in_memory=True)
    system = tree(tmp_path, meminfo(MemTotal=SIXTEEN))
    assert memory.size(system, replace(needs(), places=(place,))).verdict == "stop"
    assert memory.size(system, replace(needs(), places=(replace(place, in_memory=False),))).verdict == "good"


@pytest.mark.parametrize(
    "limit",
    [
        CGROUP_2 | {"sys/fs/cgroup/a/b/memory.max": "max", "sys/fs/cgroup/a/memory.max": str(4 * GIB)},
        CGROUP_1 | {"sys/fs/cgroup/memory/x/memory.limit_in_bytes": str(4 * GIB)},
    ],
)
def test_a_limit_of_the_control_group(tmp_path: Path, limit: dict[str, str]) -> None:
    system = tree(tmp_path, meminfo(MemTotal=SIXTEEN) | limit)
    assert memory.size(system, needs()).verdict == "note"
    assert memory.size(system, needs(5 * GIB)).verdict == "stop"


def test_no_limit_of_version_1_is_a_large_number(tmp_path: Path) -> None:
    limit = {"sys/fs/cgroup/memory/x/memory.limit_in_bytes": str(2**63 - 4096)}
    assert tree(tmp_path, CGROUP_1 | limit).memory_limit_bytes() is None


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
    check = memory.dataset(tree(tmp_path, meminfo(MemTotal=SIXTEEN)), needs(datasets=datasets))
    assert check.verdict == verdict
    assert found in check.found


def test_datasets_of_several_servers_share_memory(tmp_path: Path) -> None:
    system = tree(tmp_path, meminfo(MemTotal=SIXTEEN))
    assert memory.dataset(system, needs(datasets=(6 * GIB,))).verdict == "good"
    assert memory.dataset(system, needs(datasets=(6 * GIB,), servers=2)).verdict == "warning"


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
    if verdict == "stop":
        assert "vm.nr_hugepages=2253" in check.change


def test_huge_pages_that_the_kernel_has_added_are_not_added_twice(tmp_path: Path) -> None:
    pages = meminfo(MemTotal=SIXTEEN, Hugepagesize=2048, HugePages_Total=100, HugePages_Free=0, HugePages_Surp=100)
    check = memory.huge_pages(
        tree(tmp_path, pages | {"proc/sys/vm/nr_overcommit_hugepages": "100\n"}), needs(GIB // 8, huge_pages="on")
    )
    assert check.verdict == "stop"


def test_huge_pages_of_other_programs_are_not_taken_from_them(tmp_path: Path) -> None:
    pages = meminfo(MemTotal=SIXTEEN, Hugepagesize=2048, HugePages_Total=1000, HugePages_Free=50, HugePages_Rsvd=40)
    check = memory.huge_pages(tree(tmp_path, pages), needs(GIB // 8, huge_pages="on"))
    # 990 are in use or promised, and 1.1 times 128 MiB are 71
    assert check.change.startswith("sysctl vm.nr_hugepages=1061 ")


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


def test_the_check_works_on_this_machine() -> None:
    assert memory.size(System(), Needs()).verdict != "unknown"
