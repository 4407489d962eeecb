"""Facts about the machine on which pgdyno runs."""

import os
import platform
from pathlib import Path

from pgdyno.records import Host


def describe_host() -> Host:
    return Host(
        cpu_model=_own_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=platform.release(),
        os=_os_name(),
        architecture=platform.machine(),
    )


def boot_id() -> str:
    """Return the ID of this boot, or an empty string."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def cpu_model(cpuinfo: str) -> str:
    fields = dict(line.split(":", 1) for line in cpuinfo.splitlines() if ":" in line)
    named = {key.strip(): value.strip() for key, value in fields.items()}
    # arm64 has no model name, only numbers of implementer and part
    return (
        named.get("model name") or f"implementer {named.get('CPU implementer', '?')} part {named.get('CPU part', '?')}"
    )


def _own_cpu_model() -> str:
    try:
        return cpu_model(Path("/proc/cpuinfo").read_text())
    except OSError:
        return "unknown"


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.platform())
    except OSError:
        return platform.platform()
