"""Take a fingerprint while its run is active: the machine first, then each server and each dataset."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

import psycopg

from pgdyno import __version__
from pgdyno.doctor import Needs, Place, System
from pgdyno.doctor.clock import FOLDER as CLOCK
from pgdyno.doctor.cpu import is_virtual, numa_nodes, threads_per_core
from pgdyno.doctor.memory import THP
from pgdyno.doctor.storage import describe_mount, mount_of
from pgdyno.errors import EngineError
from pgdyno.host import describe_host
from pgdyno.plan import LoadedPlan
from pgdyno.plan.own_data.psql_reader import SqlFileError
from pgdyno.plan.time_budget.time_and_disk import servers
from pgdyno.plan.workload import data_files, script_files
from pgdyno.prepare.dataset import Dataset, read_comment, read_stamp
from pgdyno.programs import Engine
from pgdyno.records import Fingerprint, Host, HostPrint, ServerFacts, ServerPrint
from pgdyno.records.capture import CAPTURE_FILE
from pgdyno.remote.program_files import loaded_lua
from pgdyno.targets import Server

BOOT = frozenset([
    "amd_iommu", "amd_pstate", "clocksource", "default_hugepagesz", "elevator", "gather_data_sampling",
    "hugepages", "hugepagesz", "idle", "init_on_alloc", "init_on_free", "intel_idle.max_cstate", "intel_iommu",
    "intel_pstate", "iommu", "isolcpus", "kpti", "l1tf", "maxcpus", "mds", "mem", "mitigations", "nohz",
    "nohz_full", "nopti", "nosmt", "nospectre_v1", "nospectre_v2", "numa", "numa_balancing",
    "nvme_core.default_ps_max_latency_us", "page_poison", "preempt", "processor.max_cstate", "pti", "rcu_nocbs",
    "retbleed", "skew_tick", "slub_debug", "spec_store_bypass_disable", "spectre_v2", "srso", "swiotlb",
    "threadirqs", "transparent_hugepage", "tsc", "tsx",
])  # fmt: skip
"""Kernel boot parameters that affect performance; others may be private."""

NUMBERS = {
    "dirty_background_bytes": "proc/sys/vm/dirty_background_bytes",
    "dirty_background_ratio": "proc/sys/vm/dirty_background_ratio",
    "dirty_bytes": "proc/sys/vm/dirty_bytes",
    "dirty_ratio": "proc/sys/vm/dirty_ratio",
    "huge_pages": "proc/sys/vm/nr_hugepages",
    "no_turbo": "sys/devices/system/cpu/intel_pstate/no_turbo",
    "boost": "sys/devices/system/cpu/cpufreq/boost",
    "numa_balancing": "proc/sys/kernel/numa_balancing",
    "overcommit_memory": "proc/sys/vm/overcommit_memory",
    "swappiness": "proc/sys/vm/swappiness",
    "zone_reclaim_mode": "proc/sys/vm/zone_reclaim_mode",
    "clock_source": f"{CLOCK}/current_clocksource",
}
"""Files with one word, by their name in a fingerprint."""
CHOICES = {"thp": f"{THP}/enabled", "thp_defrag": f"{THP}/defrag"}
"""Files that mark one of several words."""
GOVERNORS = "sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"


def host_print(host: Host, places: Sequence[Place], system: System | None = None) -> HostPrint:
    """Return `host` with the kernel's limits, tuning and the disks under `places`."""
    seen = system or System()
    return HostPrint(
        cpu_model=host.cpu_model,
        cores=host.cores,
        numa_nodes=numa_nodes(seen),
        threads_per_core=threads_per_core(seen),
        memory_bytes=host.memory_bytes,
        cpu_limit=seen.cpu_limit(),
        memory_limit_bytes=seen.memory_limit_bytes(),
        virtualisation=virtualisation(seen),
        architecture=host.architecture,
        kernel=host.kernel,
        os=host.os,
        boot=boot_parameters(seen),
        tuning=kernel_settings(seen),
        disks=disks(seen, places),
    )


def virtualisation(system: System) -> str | None:
    """Return `none`, the firmware's name of the virtual machine, or `unknown hypervisor`; None if unknown."""
    below = is_virtual(system)
    if not below:
        return None if below is None else "none"
    named = [system.text(f"sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")]
    kind = system.text("sys/hypervisor/type")
    return " ".join(name for name in named if name) or kind or "unknown hypervisor"


def boot_parameters(system: System) -> dict[str, str]:
    """Return the given parameters among `BOOT`, up to the `--` that precedes arguments of init."""
    found = {}
    for word in (system.text("proc/cmdline") or "").split():
        if word == "--":
            break
        name, _, value = word.partition("=")
        if name in BOOT:
            found[name] = value
    return found


def kernel_settings(system: System) -> dict[str, str]:
    """Return kernel settings that can be changed at run time."""
    found = {name: system.text(path) for name, path in NUMBERS.items()}
    found |= {name: system.chosen_word(path) for name, path in CHOICES.items()}
    found["governor"] = ",".join(sorted(set(system.texts(GOVERNORS)))) or None
    return {name: value for name, value in sorted(found.items()) if value is not None}


def disks(system: System, places: Sequence[Place]) -> dict[str, str]:
    """Return the disk under each of `places`, with its mount options."""
    found: dict[str, str] = {}
    for place in places:
        mount = mount_of(system, place.path)
        if mount is not None:
            text = f"{describe_mount(system, mount)} ({','.join(sorted(mount.options))})"
            found |= dict.fromkeys(place.roles, text)
    return found


HERE, ELSEWHERE = "the same machine", "another machine"
"""Origin of the load, relative to the servers."""


def take_fingerprint(loaded: LoadedPlan, engine: Engine, seed: int, needs: Needs) -> Fingerprint:
    """Return what is known before any server runs."""
    resolved = loaded.plan.as_resolved()
    files = _script_hashes(loaded)
    workload = resolved["workload"] | {"files": files}
    if modules := _module_hashes(loaded, files):
        workload["modules"] = modules
    # a capture is the same wherever it is; what a report compares with changes no load
    workload.pop("captured", None)
    if workload["connect"] == "once":
        # as in fingerprints from before there was another way
        del workload["connect"]
    if workload.pop("replay", None) is not None:
        workload["capture"] = _capture_hash(loaded)
    if "step" in resolved:
        workload["step"] = resolved["step"]
    if groups := loaded.plan.group:
        # a promise changes no load
        workload["group"] = {each.name: each.model_dump(mode="json", exclude={"name", "promise"}) for each in groups}
    return Fingerprint(
        host=host_print(describe_host(), needs.places),
        pgdyno=__version__,
        pgdrive=engine.version,
        generator=_generator(needs, servers(loaded.plan)),
        seed=seed,
        workload=workload,
        reset=resolved["reset"],
    )


def _generator(needs: Needs, servers: int) -> str:
    if needs.targets_here == servers:
        return HERE
    return f"{HERE}, or another" if needs.targets_here else ELSEWHERE


def with_server(taken: Fingerprint, name: str, server: Server, facts: ServerFacts) -> Fingerprint:
    """Return `taken` with the running server `name`, which reported `facts`. Raises TargetError."""
    known = taken.servers.get(name)
    printed = ServerPrint(
        version=facts.version,
        version_full=facts.version_full,
        configure=_configure(server),
        settings_changed=facts.settings_changed,
        data_checksums=facts.data_checksums,
        collation=facts.collation,
        identity=facts.identity,
        pooler=facts.pooler,
        built=facts.built,
        dataset_marks=known.dataset_marks if known else [],
        loaded_without_wal=known.loaded_without_wal if known else [],
        indexes=known.indexes if known else None,
    )
    return taken.model_copy(update={"servers": {**taken.servers, name: printed}})


MOST_TABLES = 200
"""The largest number of indexed tables whose indexes a fingerprint has."""
_INDEXES = """
    SELECT n.nspname || '.' || t.relname,
           string_agg(CASE WHEN i.indisunique THEN 'unique ' ELSE '' END || d.text, '; ' ORDER BY d.text)
    FROM (
            SELECT c.oid, c.relname, c.relnamespace FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.relhasindex AND c.relpersistence <> 't' AND n.nspname !~ '^pg_'
                AND n.nspname <> 'information_schema'
                AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisvalid)
                AND NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = c.oid)
            LIMIT %s
        ) t
        JOIN pg_namespace n ON n.oid = t.relnamespace
        JOIN pg_index i ON i.indrelid = t.oid AND i.indisvalid,
        LATERAL (SELECT substring(pg_get_indexdef(i.indexrelid) FROM ' USING (.*)') AS text) d
    GROUP BY 1 ORDER BY 1
"""
"""Partitions have the indexes of their parent. Where tables are too many, only some are read, before each trial."""


def with_indexes(taken: Fingerprint, name: str, server: Server) -> Fingerprint:
    """Return `taken` with the indexes that the server `name` has now; unchanged if they are in it.

    Raises TargetError, psycopg.Error.
    """
    printed = taken.servers.get(name)
    if printed is None or printed.indexes is not None:
        return taken
    with server.connect() as connection:
        rows = connection.execute(_INDEXES, (MOST_TABLES + 1,)).fetchall()
    if len(rows) > MOST_TABLES:
        return taken
    indexed = printed.model_copy(update={"indexes": dict(rows)})
    return taken.model_copy(update={"servers": {**taken.servers, name: indexed}})


def with_mark(taken: Fingerprint, name: str, server: Server, dataset: Dataset | None) -> Fingerprint:
    """Return `taken` with the dataset stamp of the server `name`, unless `dataset` has one. Raises TargetError."""
    printed = taken.servers.get(name)
    if dataset is None or printed is None or dataset.title in printed.dataset_marks:
        return taken
    mark = read_stamp(read_comment(server))
    found = "unmarked" if mark is None else mark.dataset.title
    if found in printed.dataset_marks:
        return taken
    without = [found] if mark is not None and mark.wal_level == "minimal" else []
    marked = printed.model_copy(
        update={
            "dataset_marks": [*printed.dataset_marks, found],
            "loaded_without_wal": [*printed.loaded_without_wal, *without],
        }
    )
    return taken.model_copy(update={"servers": {**taken.servers, name: marked}})


def _configure(server: Server) -> str | None:
    """Return the arguments of configure, which only some roles may read (view pg_config, PostgreSQL 9.6)."""
    try:
        with server.connect() as connection:
            row = connection.execute("SELECT setting FROM pg_config WHERE name = 'CONFIGURE'").fetchone()
    except psycopg.Error:
        return None
    # each build of pgdyno has a folder of its own
    return re.sub(r"\s*'?-[-D]prefix=\S*/builds/[0-9a-f]{16}/installed'?", "", row[0]) if row else None


def _capture_hash(loaded: LoadedPlan) -> str:
    """Return the SHA-256 of the capture.json of a replay, which describes the statements next to it."""
    try:
        return hashlib.sha256(
            (loaded.folder / (loaded.plan.workload.capture or "") / CAPTURE_FILE).read_bytes()
        ).hexdigest()
    except OSError:
        # the run folder is about to copy it, and will report the error
        return ""


def _script_hashes(loaded: LoadedPlan) -> dict[str, str]:
    """Return the SHA-256 of each script that is a file, and of each file of the dataset."""
    found = {}
    for name in script_files(loaded.plan):
        try:
            found[name] = hashlib.sha256((loaded.folder / name).read_bytes()).hexdigest()
        except OSError:
            # the engine has just read it, and will report the error
            continue
    # the load will report an error
    with suppress(SqlFileError):
        found |= data_files(loaded.plan, loaded.folder)
    return found


def _module_hashes(loaded: LoadedPlan, files: Mapping[str, str]) -> dict[str, str]:
    """Return the SHA-256 of each file that the plan's Lua script loads by name, and of the script itself unless it is
    among `files`: a plan may name it without its ending, and sysbench may have installed it.

    Paths are relative to the script's folder, which differs between installations of sysbench.
    """
    name = loaded.plan.workload.lua_script
    if name is None:
        return {}
    try:
        found = loaded_lua(name, loaded.folder)
    except (EngineError, OSError):
        # the engine has just read it, and will report the error
        return {}
    base = next(iter(found)).parent
    return {
        str(file.relative_to(base) if file.is_relative_to(base) else file): hashlib.sha256(content).hexdigest()
        for file, content in found.items()
        if str(file) not in files
    }
