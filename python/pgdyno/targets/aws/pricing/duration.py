"""How long a plan rents its servers, with loading and copying at the speed of their volumes."""

from pgdyno.plan.model import Plan
from pgdyno.plan.time_budget.budget import scales_of
from pgdyno.plan.time_budget.time_and_disk import (
    BYTES_A_SCALE,
    COPY_S_A_SCALE,
    LOAD_S_A_SCALE,
    data_bytes,
    loading_s,
    needed_s,
    overhead_s,
    trial_count,
    visits,
)
from pgdyno.plan.workload import trial_s
from pgdyno.targets.aws.databases.schema import RESTORE_S, STRIPED_FROM, DatabaseTarget, RdsTarget
from pgdyno.targets.aws.hosts.schema import Ec2Target
from pgdyno.targets.aws.schema import AwsTarget
from pgdyno.targets.aws.volumes import GP3_MBS
from pgdyno.units import parse_bytes

COMING_H = 0.5
"""An upper estimate of the hours that servers take to start or to be removed, all at once, or a snapshot of one."""


def copies_data(plan: Plan, spec: AwsTarget) -> bool:
    """Return whether a server of `spec` has a second copy of its data, and each trial replaces the first by it."""
    return plan.reset.method in ("template", "snapshot") and not spec.takes_snapshot


def restores_of(plan: Plan, spec: AwsTarget) -> int:
    """Return how often all servers of `spec` are restored during the trials."""
    if not isinstance(spec, DatabaseTarget) or spec.restore != "each-trial":
        return 0
    trials = trial_count(plan, plan.points()) // len(plan.target)
    # a server that is created from the plan's snapshot is not restored before its first trial
    return trials if spec.takes_snapshot else trials - spec.instances


def touched_bytes(plan: Plan, spec: AwsTarget) -> float:
    """Return the bytes that pgdyno reads once after all restores of servers of `spec` before trials."""
    if not isinstance(spec, DatabaseTarget) or spec.restore != "each-trial" or spec.first_touch != "read":
        return 0.0
    scales = [point.scale or plan.workload.size for point in visits(plan, plan.points())]
    return plan.trial.most_repeats * sum(data_bytes(plan, scale) for scale in scales)


def hours_of(plan: Plan) -> float | None:
    """Return for how many hours a run of `plan` rents its servers; None if its trials have no time limit."""
    trials_s = needed_s(plan, plan.points())
    if trials_s is None:
        return None
    rented = [spec for spec in plan.target.values() if isinstance(spec, AwsTarget)]
    restores = sum(restores_of(plan, spec) for spec in rented)
    snapshots = sum(spec.instances * len(scales_of(plan)) for spec in rented if spec.takes_snapshot)
    slower_s = sum(copying_s(plan, spec) for spec in rented)
    return (trials_s + slower_s + RESTORE_S * restores) / 3600 + COMING_H * (2 + snapshots)


def longest_trial_s(plan: Plan) -> float:
    """Return an upper estimate of the seconds that a trial takes with its preparation, which may load the data."""
    points = plan.points()
    longest_s = max(overhead_s(plan, point) for point in points)
    return loading_s(plan, points) + longest_s + (trial_s(plan) or 0.0)


def copying_s(plan: Plan, spec: AwsTarget) -> float:
    """Return the seconds that loading and copying data take in addition to `needed_s`, which assumes a local disk.

    A copy reads and writes every byte at the throughput of the volume, and the first touch of a restored server reads
    it. A server that is restored from its own snapshot makes no copies.
    """
    points = plan.points()
    scales = [point.scale or plan.workload.size for point in visits(plan, points)]
    slow_s = 2 * BYTES_A_SCALE / throughput(spec)
    bytes_ = {scale: data_bytes(plan, scale) for scale in set(scales)}

    def more_s(scale: int, assumed_s: float) -> float:
        return bytes_[scale] / BYTES_A_SCALE * max(0.0, slow_s - assumed_s)

    loaded_s = spec.instances * sum(more_s(scale, LOAD_S_A_SCALE) for scale in set(scales))
    loaded_s += touched_bytes(plan, spec) / throughput(spec)
    if copies_data(plan, spec):
        return loaded_s + plan.trial.most_repeats * sum(more_s(scale, COPY_S_A_SCALE) for scale in scales)
    if plan.reset.method == "reload" and not spec.takes_snapshot:
        return loaded_s + plan.trial.most_repeats * sum(more_s(scale, LOAD_S_A_SCALE) for scale in scales)
    return loaded_s


_GP2_MBS, _GP3_STRIPED_MBS, _PROVISIONED_MBS, _AURORA_MBS = 250, 500, 1000, 250
_IO_KB = 16
"""The size of one I/O that RDS's and EBS's limits of IOPS count at least."""


def throughput(spec: AwsTarget) -> float:
    """Return the bytes per second that the volume of the data provides; for Aurora, a cautious assumption."""
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
