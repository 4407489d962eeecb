"""The machine on which pgdyno runs: facts about it, its mounted file systems, and the processors that pgdyno may use.

Before Python 3.14, methods of Path raise OSError for a name that is too long, and for one in a folder that may not be
read; expanduser raises RuntimeError for an unknown user. A wrong path is an everyday mistake: the functions for paths
raise nothing, and the caller says what is wrong.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pgdyno.records import Host


def describe_host() -> Host:
    """Describes this machine from /proc and uname."""
    return Host(
        cpu_model=_own_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=platform.release(),
        os=_os_name(),
        architecture=platform.machine(),
    )


def boot_id() -> str:
    """Returns the ID of this boot, or an empty string."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def cpu_model(cpuinfo: str) -> str:
    """Returns the processor's model from the text of /proc/cpuinfo."""
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


MOUNTINFO = Path("/proc/self/mountinfo")


def exists(path: str | os.PathLike[str]) -> bool:
    """Returns whether something is at `path`; False also if that cannot be determined."""
    return os.path.exists(path)  # noqa: PTH110 - raises nothing


def is_file(path: str | os.PathLike[str]) -> bool:
    """Returns whether a regular file is at `path`; False also if that cannot be determined."""
    return os.path.isfile(path)  # noqa: PTH113 - raises nothing


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Returns whether a folder is at `path`; False also if that cannot be determined."""
    return os.path.isdir(path)  # noqa: PTH112 - raises nothing


def expanded(path: str | os.PathLike[str]) -> Path:
    """Returns `path` with the home directory for its `~`; unchanged if there is no such user."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - raises nothing


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of /proc/self/mountinfo."""

    point: str
    kind: str
    device: str
    """A device, or the name of a ZFS dataset."""
    number: str
    """`major:minor`."""
    options: frozenset[str]
    """Options of the mount and of the file system."""


def parse_mounts(lines: Iterable[str]) -> list[Mount]:
    """Returns all mounts in mount order (proc(5))."""
    found = []
    for line in lines:
        before, dash, after = line.partition(" - ")
        left, right = before.split(), after.split(" ")
        if dash and len(left) >= 6 and len(right) >= 3:
            options = frozenset([*left[5].split(","), *right[2].split(",")])
            found.append(Mount(_unescaped(left[4]), right[0], _unescaped(right[1]), left[2], options))
    return found


def mount_above(mounts: Iterable[Mount], path: Path) -> Mount | None:
    """Returns the mount of the resolved `path`: the longest mount point above it, and the last of equals."""
    above = {str(path), *(str(parent) for parent in PurePosixPath(path).parents)}
    under = [mount for mount in mounts if mount.point in above]
    return max(enumerate(under), key=lambda pair: (len(pair[1].point), pair[0]))[1] if under else None


def mounted_at(path: Path) -> Mount | None:
    """Returns the mount of `path`, or of its nearest existing parent; None if it cannot be determined."""
    try:
        lines = MOUNTINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return mount_above(parse_mounts(lines), path.resolve())


def _unescaped(text: str) -> str:
    for code, character in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        text = text.replace(code, character)
    return text


Halves = tuple[tuple[int, ...], tuple[int, ...]]
_TOPOLOGY = "/sys/devices/system/cpu/cpu{number}/topology"


def own_halves() -> Halves:
    """Returns the halves of this process's processors. Raises ValueError with the reason if there are none."""
    return halves(os.sched_getaffinity(0), core_of)


def core_of(number: int) -> tuple[int, int]:
    """Returns package and core of a processor: two with the same ones are threads of one core."""
    folder = Path(_TOPOLOGY.format(number=number))
    try:
        return int((folder / "physical_package_id").read_text()), int((folder / "core_id").read_text())
    except (OSError, ValueError):
        return 0, number


def halves(numbers: Collection[int], core: Callable[[int], tuple[int, int]]) -> Halves:
    """Splits processors into two halves with equally many, by whole cores where that is possible.

    Raises ValueError with the reason.
    """
    cores: dict[tuple[int, int], list[int]] = {}
    for number in sorted(numbers):
        cores.setdefault(core(number), []).append(number)
    whole = [cores[each] for each in sorted(cores)]
    if len(whole) % 2 or len({len(each) for each in whole}) > 1:
        whole = [[number] for each in whole for number in each]
    if len(whole) % 2:
        only = "1 processor" if len(whole) == 1 else f"{len(whole)} processors"
        raise ValueError(f"{only} cannot be split into two equal halves")
    middle = len(whole) // 2
    first, second = (
        tuple(sorted(number for each in part for number in each)) for part in (whole[:middle], whole[middle:])
    )
    return first, second


def pin(pids: Iterable[int], processors: Collection[int]) -> None:
    """Restricts processes, with all their threads, to `processors`; those that have ended are left out.

    Processes that they start later inherit this. Raises PermissionError for another user's process.
    """
    for pid in pids:
        for thread in _threads(pid):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, processors)


def _threads(pid: int) -> list[int]:
    try:
        return [int(each.name) for each in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []


@contextmanager
def running_on(processors: Collection[int]) -> Iterator[None]:
    """Restricts the calling thread, and what it starts within the block, to `processors`."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
