"""Artificial trees of /proc and /sys."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from pgdyno.doctor import System

ONLY_WHERE_ASKED = frozenset({"storage.snapshot", "probe.ssh"})
"""Checks that apply only if the plan requests something."""
CGROUP_2 = {"proc/self/cgroup": "0::/a/b\n"}
CGROUP_1 = {"proc/self/cgroup": "3:cpu,cpuacct:/x\n2:memory:/x\n1:pids:/\n0::/\n"}


def tree(root: Path, files: Mapping[str, str]) -> System:
    """Writes `files` in place of what `root` had."""
    shutil.rmtree(root, ignore_errors=True)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return System(root)


def meminfo(**values: int) -> dict[str, str]:
    """Returns /proc/meminfo with these values: in kB, and numbers of huge pages."""
    counts = {f"HugePages_{kind}" for kind in ("Total", "Free", "Rsvd", "Surp")}
    lines = [f"{name}: {value:8}{'' if name in counts else ' kB'}" for name, value in values.items()]
    return {"proc/meminfo": "\n".join(lines) + "\n"}
