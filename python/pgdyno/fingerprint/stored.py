"""The fingerprint of a stored run, or what its manifest has of one."""

from __future__ import annotations

from pgdyno.records import Fingerprint, HostPrint, Manifest, ServerPrint
from pgdyno.registry import kinds_that_are


def print_of(manifest: Manifest) -> Fingerprint | None:
    """Return the fingerprint; for a run of an earlier version, from its manifest. None for an imported run."""
    if manifest.fingerprint is not None:
        return manifest.fingerprint
    if manifest.host is None or manifest.imported is not None:
        return None
    servers = {
        target.name: ServerPrint(
            version=target.facts.version,
            version_full=target.facts.version_full,
            settings_changed=target.facts.settings_changed,
            data_checksums=target.facts.data_checksums,
        )
        for target in manifest.targets
        if target.facts is not None
    }
    return Fingerprint(
        host=HostPrint(**manifest.host.model_dump()),
        pgdyno=manifest.pgdyno,
        pgdrive=manifest.pgdrive or "",
        generator="",
        seed=0,
        workload=manifest.plan.get("workload") or {},
        reset=manifest.plan.get("reset") or {},
        servers=servers,
    )


def unknown_of(manifest: Manifest) -> list[str]:
    """Return what matters to a comparison and is not recorded; empty for a run with a fingerprint."""
    if manifest.imported is not None:
        return ["hardware", "settings", "storage", "placement of the load"]
    found = [] if manifest.fingerprint is not None else ["storage", "tuning of the kernel", "limits of the machine"]
    elsewhere = [target.name for target in manifest.targets if target.kind in kinds_that_are("elsewhere")]
    return [*found, *([f"hardware and storage of {', '.join(elsewhere)}"] if elsewhere else [])]
