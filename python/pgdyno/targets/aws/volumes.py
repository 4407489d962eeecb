"""EBS volumes in a plan: their keys, and what EBS refuses of them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from pgdyno.errors import Problem
from pgdyno.plan.plan_document import Document
from pgdyno.plan.targets import PlanPath
from pgdyno.plan.values import Model, Positive, Size
from pgdyno.units import parse_bytes

GB = 1024**3
GP3_IOPS, GP3_MBS = 3_000, 125
"""IOPS and MB/s that the price of a gp3 volume includes."""


class Volume(Model):
    """An EBS volume, which is removed with its host."""

    size: Size
    type: Literal["gp3", "io1", "io2"] = "gp3"
    iops: Positive | None = None
    """None: 3,000 for gp3."""
    throughput: Positive | None = None
    """MB/s, of gp3; None: 125."""


class DataVolume(Volume):
    """A volume with its own file system."""

    file_system: Literal["ext4", "xfs"] = "ext4"
    mount_options: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_=:.-]+$")]] = Field(
        default_factory=lambda: ["noatime"]
    )


@dataclass(frozen=True, slots=True)
class Most:
    """The largest values that EBS accepts for a volume of one type."""

    size_gb: int
    iops: int
    iops_a_gb: int
    mb_s: float = 0
    mb_s_an_iops: float = 0


MOST = {
    "gp3": Most(65_536, 80_000, 500, 2_000, 0.25),
    "io1": Most(16_384, 64_000, 50),
    "io2": Most(65_536, 256_000, 1_000),
}
"""By type, as Amazon documents them for EBS since September 2025; io2 is Block Express on all current instances."""


def check_volume(where: PlanPath, volume: Volume, document: Document) -> Iterator[Problem]:
    if volume.type in ("io1", "io2") and volume.iops is None:
        yield document.problem((*where, "iops"), f"is missing: {volume.type} has the IOPS that you choose and pay for")
    if volume.throughput is not None and volume.type != "gp3":
        yield document.problem((*where, "throughput"), "is valid only with gp3", "remove it")
    if volume.iops is not None and volume.type == "gp3" and volume.iops < GP3_IOPS:
        yield document.problem((*where, "iops"), f"gp3 has at least {GP3_IOPS:,}", "remove it")
    if volume.throughput is not None and volume.throughput < GP3_MBS:
        yield document.problem((*where, "throughput"), f"gp3 has at least {GP3_MBS} MB/s", "remove it")
    for key, message, hint in _refused_by_ebs(volume):
        yield document.problem((*where, key), message, hint)


def _refused_by_ebs(volume: Volume) -> Iterator[tuple[str, str, str]]:
    """Yield what EBS would refuse of `volume`: the key, the reason and the remedy."""
    most, size_gb = MOST[volume.type], parse_bytes(volume.size) / GB
    if size_gb > most.size_gb:
        yield "size", f"{volume.type} has at most {most.size_gb // 1024} TiB", "use less"
    by_size = most.iops_a_gb * size_gb
    if volume.iops is not None and volume.iops > most.iops:
        yield "iops", f"{volume.type} has at most {most.iops:,} IOPS", f"use iops = {most.iops}"
    elif volume.iops is not None and volume.iops > max(by_size, GP3_IOPS if volume.type == "gp3" else 0):
        size = space_unit(volume.size)
        message = f"{volume.type} of {size} has at most {by_size:,.0f} IOPS: {most.iops_a_gb:,} for each GiB"
        yield "iops", message, f"use a size of {-(-volume.iops // most.iops_a_gb)}GB or more, or fewer IOPS"
    if volume.type != "gp3" or volume.throughput is None:
        return
    iops = volume.iops or GP3_IOPS
    if volume.throughput > most.mb_s:
        yield "throughput", f"gp3 has at most {most.mb_s:,.0f} MB/s", f"use throughput = {most.mb_s:.0f}"
    elif volume.throughput > most.mb_s_an_iops * iops:
        message = f"gp3 with {iops:,} IOPS has at most {most.mb_s_an_iops * iops:,.0f} MB/s"
        yield "throughput", message, f"use iops = {volume.throughput * 4} or more"


def space_unit(size: str) -> str:
    return re.sub(r"(?<=[0-9])(?=[A-Za-z])", " ", size)
