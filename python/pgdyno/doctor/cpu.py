"""Processors: how many, how fast, and whether they are ours."""

from dataclasses import dataclass

from pgdyno.doctor.check import NOT_REPORTED, good, grade_value, note, unknown, warning
from pgdyno.doctor.needs import Needs
from pgdyno.doctor.system import System, count_of_list
from pgdyno.messages import Message
from pgdyno.records import Check

FEW_CORES = 4
"""With fewer cores, the generator takes a large share of a machine that it shares with the server."""
STEAL_NOTE, STEAL_WARNING = 0.005, 0.02
"""Shares of processor time."""
HARDWARE_DRIVERS = ("intel_pstate", "amd-pstate-epp")
"""With these drivers, the governor powersave lets the hardware choose a frequency by a preference."""


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """The first line of /proc/stat, in ticks since the boot."""

    busy: int
    idle: int
    steal: int

    @property
    def total(self) -> int:
        return self.busy + self.idle + self.steal


def cpu_times(system: System) -> CpuTimes | None:
    """Return the time of all processors together (proc(5): user nice system idle iowait irq softirq steal)."""
    parts = next((line.split()[1:] for line in system.lines("proc/stat") if line.startswith("cpu ")), [])
    if len(parts) < 8 or not all(part.isdigit() for part in parts):
        return None
    user, nice, system_time, idle, iowait, irq, softirq, steal = map(int, parts[:8])
    return CpuTimes(user + nice + system_time + irq + softirq, idle + iowait, steal)


def is_virtual(system: System) -> bool | None:
    """Whether this is a virtual machine; None if the kernel does not report it."""
    flags = system.fields("proc/cpuinfo").get("flags")
    if flags is not None:
        return "hypervisor" in flags.split()
    return True if system.text("sys/hypervisor/type") else None


def numa_nodes(system: System) -> int | None:
    return count_of_list(system.text("sys/devices/system/node/online"))


def threads_per_core(system: System) -> int | None:
    return count_of_list(system.text("sys/devices/system/cpu/cpu0/topology/thread_siblings_list"))


def cores(system: System, needs: Needs) -> Check:
    """`cpu.cores`: available processors, time limits, and who shares them."""
    name = "cpu.cores"
    count = system.cpus_allowed()
    if count is None:
        return unknown(name, Message("processors-unknown", "the kernel does not report the available processors"))
    found = Message("processors", "{count} processor", "{count} processors", count=count)
    threads, nodes, limit = threads_per_core(system), numa_nodes(system), system.cpu_limit()
    if threads and threads > 1:
        found = Message("processors-threads", "{processors}, {threads} to a core", processors=found, threads=threads)
    if nodes and nodes > 1:
        found = Message("processors-nodes", "{processors}, {nodes} NUMA nodes", processors=found, nodes=nodes)
    measured = {"cores": count}
    if limit is not None and limit < count:
        return warning(
            name,
            Message(
                "processors-limited",
                "{processors}, limited to {limit_cores:g} by the control group",
                processors=found,
                limit_cores=limit,
            ),
            Message(
                "quota-stops-threads",
                "a used-up quota stops all threads for the rest of each period, which increases tail latency",
            ),
            "give the group whole processors (cpuset) without a quota",
            {**measured, "limit_cores": limit},
        )
    if needs.on_this_host and count < FEW_CORES:
        return note(
            name,
            found,
            Message(
                "processors-shared",
                "server and generator share them: at the peak, the generator uses part of the machine",
            ),
            "run the generator on another machine, or compare only runs that share the machine in the same way",
            measured,
        )
    if nodes and nodes > 1:
        means = Message("memory-on-other-node", "a process's memory may be on another node, so that repeats differ")
        return note(name, found, means, "bind the server to a node with numactl, or interleave", measured)
    return good(name, found, measured)


def governor(system: System) -> Check:
    name = "cpu.governor"
    governors = sorted(set(system.texts("sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")))
    drivers = sorted(set(system.texts("sys/devices/system/cpu/cpu*/cpufreq/scaling_driver")))
    if not governors:
        hidden = Message("frequency-of-hypervisor", "frequency not visible: the hypervisor sets it")
        if not is_virtual(system):
            hidden = Message(
                "frequency-without-driver", "frequency not visible: the kernel has no cpufreq driver for them"
            )
        means = Message("frequency-may-differ", "repeats may differ by frequency: interleave compared arms")
        return unknown(name, hidden, means)
    found = Message(
        "governor",
        "{governors} (driver {drivers})" if drivers else "{governors} (driver unknown)",
        governors=", ".join(governors),
        drivers=", ".join(drivers),
    )
    if governors == ["performance"]:
        return good(name, found)
    means = Message(
        "processors-slow-down", "processors slow down when idle: trials with few clients measure their wake-up time"
    )
    change = "cpupower frequency-set -g performance"
    if governors == ["powersave"] and drivers and set(drivers) <= set(HARDWARE_DRIVERS):
        return note(name, found, means, change)
    return warning(name, found, means, change)


def turbo(system: System) -> Check:
    """`cpu.turbo`: whether frequencies above the nominal one are allowed."""
    name = "cpu.turbo"
    off, boost = system.number("sys/devices/system/cpu/intel_pstate/no_turbo"), None
    if off is None:
        boost = system.number("sys/devices/system/cpu/cpufreq/boost")
    if off is None and boost is None:
        return unknown(name, NOT_REPORTED)
    if off == 1 or boost == 0:
        return good(name, Message("turbo-off", "off"))
    return note(
        name,
        Message("turbo-on", "on"),
        Message(
            "frequency-falls",
            "the frequency falls with the number of busy cores and with heat: few clients seem faster than many",
        ),
        "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > /sys/devices/system/cpu/cpufreq/boost",
    )


def steal(system: System, before: CpuTimes | None, after: CpuTimes | None) -> Check:
    """`cpu.steal`: the share of time between two readings, while the generator ran."""
    name = "cpu.steal"
    if is_virtual(system) is False:
        return good(name, Message("not-virtual", "none: this is not a virtual machine"))
    if before is None or after is None or after.total <= before.total:
        return unknown(name, NOT_REPORTED)
    share = (after.steal - before.steal) / (after.total - before.total)
    return grade_value(
        name,
        share,
        [(STEAL_NOTE, note), (STEAL_WARNING, warning)],
        Message("steal", "{percent:.1f} % of the time while the generator ran", percent=100 * share),
        Message(
            "steal-in-trials",
            "other guests of the hypervisor take processor time during trials: repeats differ for reasons outside of "
            "the server",
        ),
        "use a dedicated host or a larger instance; repeat more often and interleave",
        {"steal_share": round(share, 5)},
    )
