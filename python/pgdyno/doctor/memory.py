"""Checks memory: its size, the plan's needs, and the kernel's settings."""

from functools import reduce

from pgdyno.doctor.check import NOT_REPORTED, good, grade_value, note, stop, unknown, warning
from pgdyno.doctor.needs import MIB, Needs
from pgdyno.doctor.system import System
from pgdyno.host import describe_host
from pgdyno.messages import Message
from pgdyno.records import Check
from pgdyno.units import format_bytes

BACKEND_BYTES = 10 * MIB
"""A rough estimate of a backend's own memory, without work_mem."""
PAGE_BYTES, PAGE_ENTRY_BYTES = 4096, 8
"""A backend that has touched all of shared buffers has a page table entry for each page."""
TABLES_NOTE, TABLES_WARNING = 0.02, 0.10
"""Shares of memory for all page tables together."""
NONE_REPORTED = Message("none-reported", "the kernel has none, or does not report them")
SWAPPINESS = 10
"""Higher values make the kernel swap out processes to enlarge its page cache."""
THP = "sys/kernel/mm/transparent_hugepage"


def available_bytes(system: System) -> int | None:
    """Return the machine's memory, or the control group's limit."""
    total = system.memory_bytes("MemTotal")
    limit = system.memory_limit_bytes()
    return min(total, limit) if total is not None and limit is not None else total


def usable_bytes() -> int:
    """Return the memory that servers which pgdyno starts here can have, within the control group's limit."""
    return available_bytes(System()) or describe_host().memory_bytes


def size(system: System, needs: Needs) -> Check:
    """`memory.size`: the machine's memory, the control group's limit, shared buffers and backends."""
    name = "memory.size"
    total, limit, room = system.memory_bytes("MemTotal"), system.memory_limit_bytes(), available_bytes(system)
    if total is None or room is None:
        return unknown(name, NOT_REPORTED)
    found = Message("memory", "{total}", total=format_bytes(total))
    if limit is not None and limit < total:
        found = Message(
            "memory-limited",
            "{total}, limited to {limit} by the control group",
            total=format_bytes(total),
            limit=format_bytes(limit),
        )
    # unlike a cache, a cluster in memory cannot be evicted
    shared = sum(needs.shared_buffers) + sum(place.bytes for place in needs.places if place.in_memory)
    wanted = shared + needs.sessions * BACKEND_BYTES
    measured = {"memory_bytes": total, "available_bytes": room, "needed_bytes": wanted}
    if needs.servers:
        found = Message(
            "memory-needed",
            "{memory}; the plan's servers need about {needed}",
            memory=found,
            needed=format_bytes(wanted),
        )
    if shared > room:
        means = Message(
            "memory-exceeded", "shared buffers and clusters in memory exceed it: the servers fail to start, or swap"
        )
        change = "reduce shared_buffers or the scale, or measure one target at a time"
        return stop(name, found, means, change, measured)
    if wanted > 0.9 * room:
        means = Message(
            "page-cache-small",
            "shared buffers and backends leave almost nothing for the page cache; the kernel may kill a server",
        )
        change = "use fewer clients, smaller shared_buffers, or fewer targets at a time"
        return warning(name, found, means, change, measured)
    if limit is not None and limit < total:
        means = Message(
            "page-cache-limited",
            "the page cache counts towards the limit, too: a dataset that would fit may be read from disk",
        )
        return note(name, found, means, "raise memory.max of the group", measured)
    return good(name, found, measured)


def dataset(system: System, needs: Needs) -> Check:
    """`memory.dataset`: whether trials read from memory or from disk."""
    name = "memory.dataset"
    room = available_bytes(system)
    if not needs.datasets or room is None:
        if not needs.plan:
            return unknown(name, Message("no-plan", "no plan given"))
        return unknown(name, Message("dataset-size-unknown", "its size is unknown before loading"))
    places = list(dict.fromkeys(_place_of_dataset(each, needs, room) for each in needs.datasets))
    least, most = needs.datasets[0], needs.datasets[-1]
    found = Message(
        "dataset-size",
        "about {most}: {places}" if least == most else "about {least} to {most}: {places}",
        least=format_bytes(least),
        most=format_bytes(most),
        places=reduce(lambda one, other: Message("places", "{one} and {other}", one=one, other=other), places),
    )
    measured = {"least_bytes": least, "most_bytes": most}
    change = "choose scales well below or well above memory"
    if AS_LARGE in places:
        means = Message("depends-on-cache", "results depend on what is cached: small causes have large effects")
        return warning(name, found, means, change, measured)
    if len(places) > 1:
        means = Message(
            "scales-read-elsewhere",
            "scales differ by where data is read, not only by size: compare each scale with itself",
        )
        return note(name, found, means, change, measured)
    if places == [LARGER]:
        means = Message(
            "depends-on-disk", "reads wait for the disk: the results depend on the storage as much as on the server"
        )
        return note(name, found, means, "prewarm, and measure for longer than the cache needs to settle", measured)
    return good(name, found, measured)


IN_BUFFERS = Message("in-buffers", "in shared buffers")
IN_MEMORY = Message("in-memory", "in memory, beyond shared buffers")
AS_LARGE = Message("as-large-as-memory", "about as large as memory")
LARGER = Message("larger-than-memory", "larger than memory")


def _place_of_dataset(dataset_bytes: int, needs: Needs, room: int) -> Message:
    shared = sum(needs.shared_buffers)
    if needs.shared_buffers and dataset_bytes <= 0.9 * min(needs.shared_buffers):
        return IN_BUFFERS
    # the datasets of all servers share the memory beyond shared buffers and backends
    cache = max(room - shared - needs.sessions * BACKEND_BYTES, 1)
    share = dataset_bytes * max(needs.servers, 1) / cache
    if share <= 0.75:
        return IN_MEMORY
    return AS_LARGE if share <= 1.5 else LARGER


def swap(system: System) -> Check:
    """`memory.swap`: used swap, and the kernel's swappiness."""
    name = "memory.swap"
    total, free = system.memory_bytes("SwapTotal"), system.memory_bytes("SwapFree")
    if total is None or free is None:
        return unknown(name, NOT_REPORTED)
    if total == 0:
        return good(name, Message("no-swap", "none"), {"swap_bytes": 0})
    used, swappiness = total - free, system.number("proc/sys/vm/swappiness")
    found = Message(
        "swap",
        "{used} of {total} in use, swappiness {swappiness}",
        used=format_bytes(used),
        total=format_bytes(total),
        swappiness="unknown" if swappiness is None else swappiness,
    )
    measured = {"swap_bytes": total, "used_bytes": used}
    change = "sysctl vm.swappiness=1; swapoff -a and swapon -a once memory is free"
    if used > 0.01 * (system.memory_bytes("MemTotal") or 0):
        means = Message(
            "swap-in-use", "memory was short; pages that return from swap during a trial add to its latency"
        )
        return warning(name, found, means, change, measured)
    if swappiness is not None and swappiness > SWAPPINESS:
        means = Message("buffers-may-swap", "the kernel may swap out shared buffers while a load fills the page cache")
        return note(name, found, means, change, measured)
    return good(name, found, measured)


def huge_pages(system: System, needs: Needs) -> Check:
    """`memory.huge-pages`: whether shared buffers get huge pages, and the size of page tables without them."""
    name = "memory.huge-pages"
    page, free = system.memory_bytes("Hugepagesize"), system.memory_bytes("HugePages_Free")
    total, room = system.memory_bytes("HugePages_Total"), available_bytes(system)
    if page is None or free is None or total is None or not room:
        return unknown(name, NONE_REPORTED)
    reserved, surplus = (system.memory_bytes(f"HugePages_{kind}") or 0 for kind in ("Rsvd", "Surp"))
    # pages that the kernel may still add; those that it has added are among the total
    spare = max((system.number("proc/sys/vm/nr_overcommit_hugepages") or 0) - surplus, 0)
    free_bytes = (free - reserved + spare) * page
    shared = sum(needs.shared_buffers)
    # shared memory also contains locks, WAL buffers and process state
    wanted = int(1.1 * shared)
    found = Message(
        "huge-pages",
        "{count} page of {page}, {free} free",
        "{count} pages of {page}, {free} free",
        count=total,
        page=format_bytes(page),
        free=free - reserved,
    )
    pages = -(-wanted // page)
    # other programs keep theirs
    used = total - (free - reserved)
    change = f"sysctl vm.nr_hugepages={max(used + pages, 1)} before the servers start"
    if not shared:
        return good(name, found)
    found = Message("huge-pages-setting", "{pages}; setting {setting}", pages=found, setting=needs.huge_pages)
    if needs.huge_pages == "on" and free_bytes < wanted:
        means = Message(
            "huge-pages-lacking",
            "the servers need about {count} page and do not start without it",
            "the servers need about {count} pages and do not start without them",
            count=pages,
        )
        return stop(name, found, means, change)
    if needs.huge_pages != "off" and free_bytes >= wanted:
        return good(name, found)
    tables = max(needs.shared_buffers) // PAGE_BYTES * PAGE_ENTRY_BYTES * needs.clients
    means = Message(
        "page-tables",
        "page tables of {count} backend may take {size}",
        "page tables of {count} backends may take {size}",
        count=needs.clients,
        size=format_bytes(tables),
    )
    limits = [(TABLES_NOTE, note), (TABLES_WARNING, warning)]
    return grade_value(name, tables / room, limits, found, means, change, {"page_tables_bytes": tables})


def transparent(system: System) -> Check:
    """`memory.thp`: transparent huge pages, and whether the kernel stalls processes to create them."""
    name = "memory.thp"
    enabled, defrag = system.chosen_word(f"{THP}/enabled"), system.chosen_word(f"{THP}/defrag")
    if enabled is None:
        return unknown(name, NONE_REPORTED)
    found = Message("transparent-huge-pages", "{enabled}, defrag {defrag}", enabled=enabled, defrag=defrag or "unknown")
    if enabled != "always":
        return good(name, found)
    change = f"echo madvise > /{THP}/enabled"
    if defrag == "always":
        means = Message(
            "page-faults-wait", "a page fault may wait for memory compaction: stalls without a visible cause"
        )
        return warning(name, found, means, change)
    means = Message(
        "memory-compacted", "khugepaged compacts memory during trials; PostgreSQL's documentation discourages it"
    )
    return note(name, found, means, change)
