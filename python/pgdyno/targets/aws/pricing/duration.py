"""How long a plan rents its servers, with loading and copying at the speed of their volumes."""

from __future__ import annotations

from pgdyno.plan.model import Plan
from pgdyno.plan.time_budget.time_and_disk import (
    BYTES_A_SCALE,
    COPY_S_A_SCALE,
    LOAD_S_A_SCALE,
    dataset_bytes,
    needed_s,
    trial_count,
    visits,
)
from pgdyno.targets.aws.checks import GP3_MBS, STRIPED_FROM
from pgdyno.targets.aws.schema import AwsTarget, DatabaseTarget, Ec2Target, RdsTarget
from pgdyno.units import parse_bytes

COMING_H = 0.5
"""An upper estimate of the hours that servers take to start, to be removed, or that one takes to be restored.

Servers start at the same time.
"""


def copies_of(plan: Plan) -> int:
    """Returns how many copies of the data `dataset_bytes` counts."""
    return 2 if plan.reset.method in ("template", "snapshot") else 1


def hours_of(plan: Plan) -> float | None:
    """Returns for how many hours a run of `plan` rents its servers; None if its trials have no time limit."""
    trials_s = needed_s(plan, plan.points())
    if trials_s is None:
        return None
    rented = [spec for spec in plan.target.values() if isinstance(spec, AwsTarget)]
    each = trial_count(plan, plan.points()) / len(plan.target)
    restored = [spec for spec in rented if isinstance(spec, DatabaseTarget) and spec.restore == "each-trial"]
    slower_s = sum(copying_s(plan, spec) for spec in rented)
    return (trials_s + slower_s) / 3600 + COMING_H * (2 + 2 * sum(each - spec.instances for spec in restored))


def copying_s(plan: Plan, spec: AwsTarget) -> float:
    """Returns the seconds that loading and copying data take in addition to `needed_s`, which assumes a local disk.

    A copy reads and writes every byte at the throughput of the volume.
    """
    usual = {"template": COPY_S_A_SCALE, "snapshot": COPY_S_A_SCALE, "reload": LOAD_S_A_SCALE}.get(plan.reset.method)
    points = plan.points()
    scales = [point.scale or plan.workload.size for point in visits(plan, points)]
    slow_s = 2 * BYTES_A_SCALE / throughput(spec)
    bytes_ = {scale: dataset_bytes(plan, scale) / copies_of(plan) for scale in set(scales)}

    def more_s(scale: int, assumed_s: float) -> float:
        return bytes_[scale] / BYTES_A_SCALE * max(0.0, slow_s - assumed_s)

    loaded_s = spec.instances * sum(more_s(scale, LOAD_S_A_SCALE) for scale in set(scales))
    if usual is None:
        return loaded_s
    return loaded_s + plan.trial.most_repeats * sum(more_s(scale, usual) for scale in scales)


_GP2_MBS, _GP3_STRIPED_MBS, _PROVISIONED_MBS, _AURORA_MBS = 250, 500, 1000, 250
_IO_KB = 16
"""The size of one I/O that RDS's and EBS's limits of IOPS count at least."""


def throughput(spec: AwsTarget) -> float:
    """Returns the bytes per second that the volume of the data provides; for Aurora, a cautious assumption."""
    if isinstance(spec, Ec2Target):
        volume = spec.data or spec.root
        return 1e6 * _mbs(volume.type, volume.iops, volume.throughput or GP3_MBS)
    if isinstance(spec, RdsTarget):
        striped = parse_bytes(spec.storage) >= STRIPED_FROM
        gp3 = spec.throughput or (_GP3_STRIPED_MBS if striped else GP3_MBS)
        return 1e6 * _mbs(spec.storage_type, spec.iops, gp3)
    return 1e6 * _AURORA_MBS


def _mbs(kind: str, iops: int | None, gp3: int) -> float:
    if kind == "gp3":
        return gp3
    if kind == "gp2":
        return _GP2_MBS
    return min(_PROVISIONED_MBS, (iops or 0) * _IO_KB * 1024 / 1e6) or _GP2_MBS
