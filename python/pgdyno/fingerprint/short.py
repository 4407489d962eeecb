"""A fingerprint in eight digits."""

from __future__ import annotations

import hashlib
import json

from pgdyno.records import Fingerprint


def fingerprint_of(taken: Fingerprint | None) -> str:
    """Return eight hexadecimal digits of what must be equal in any comparison: machine, storage, workload, reset.

    Versions and settings of the server are left out, because these are what runs compare.
    """
    if taken is None:
        return ""
    host = taken.host
    alike = {
        "cpu": (host.architecture, host.cpu_model, host.cores, host.threads_per_core, host.cpu_limit),
        # a kernel reserves a little memory, and each version another amount
        "memory": (round(host.memory_bytes / 2**30), host.memory_limit_bytes, host.virtualisation),
        "disks": sorted(set(host.disks.values())),
        "generator": taken.generator,
        "workload": taken.workload,
        "reset": taken.reset,
    }
    return hashlib.sha256(json.dumps(alike, sort_keys=True, default=str).encode()).hexdigest()[:8]
