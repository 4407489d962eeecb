"""Reads the kernel's files below a root that tests can choose."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

UNLIMITED_BYTES = 1 << 60
"""Control groups of version 1 contain a number near 2^63 if there is no limit."""


@dataclass(frozen=True, slots=True)
class System:
    """/proc and /sys below `root`. Missing or unreadable files give None."""

    root: Path = Path("/")

    def text(self, path: str) -> str | None:
        """Return the stripped text of the file `path` (from the root, without the slash)."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        text = self.text(path)
        try:
            return None if text is None else int(text.split()[0])
        except (ValueError, IndexError):
            return None

    def lines(self, path: str) -> list[str]:
        """Return the lines of the file `path`; none if it cannot be read."""
        return (self.text(path) or "").splitlines()

    def texts(self, pattern: str) -> list[str]:
        """Return the texts of files that match `pattern`, sorted by name."""
        found = (self.text(str(path.relative_to(self.root))) for path in sorted(self.root.glob(pattern)))
        return [text for text in found if text is not None]

    def fields(self, path: str) -> dict[str, str]:
        """Return lines `name: value` of the file `path`; the first of a name counts."""
        found: dict[str, str] = {}
        for line in self.lines(path):
            name, colon, value = line.partition(":")
            if colon:
                found.setdefault(name.strip(), value.strip())
        return found

    def memory_bytes(self, name: str) -> int | None:
        """Return a line of /proc/meminfo, such as MemTotal; kB are converted to bytes."""
        parts = self.fields("proc/meminfo").get(name, "").split()
        if not parts or not parts[0].isdigit():
            return None
        return int(parts[0]) * (1024 if parts[1:] == ["kB"] else 1)

    def chosen_word(self, path: str) -> str | None:
        """Return the word in brackets of a file such as `always [madvise] never`, or its only word."""
        words = (self.text(path) or "").split()
        marked = [word.strip("[]") for word in words if word.startswith("[")]
        return marked[0] if marked else (words[0] if len(words) == 1 else None)

    def cpus_allowed(self) -> int | None:
        return count_of_list(self.fields("proc/self/status").get("Cpus_allowed_list"))

    def cpu_limit(self) -> float | None:
        """Return the control groups' limit in processors; None without a limit."""
        limits = [_cpu_max(text) for text in self._group_texts("cpu.max", None)]
        quotas = self._group_texts("cpu.cfs_quota_us", "cpu")
        periods = self._group_texts("cpu.cfs_period_us", "cpu")
        limits += [_cpu_max(f"{quota} {period}") for quota, period in zip(quotas, periods, strict=False)]
        return min((limit for limit in limits if limit is not None), default=None)

    def memory_limit_bytes(self) -> int | None:
        """Return the control groups' limit of memory; None without a limit."""
        texts = self._group_texts("memory.max", None) + self._group_texts("memory.limit_in_bytes", "memory")
        limits = [int(text) for text in texts if text.isdigit() and int(text) < UNLIMITED_BYTES]
        return min(limits, default=None)

    def tasks_limit(self) -> int | None:
        """Return the control groups' limit of processes and threads; None without a limit."""
        texts = self._group_texts("pids.max", None) + self._group_texts("pids.max", "pids")
        return min((int(text) for text in texts if text.isdigit()), default=None)

    def _group_texts(self, file: str, controller: str | None) -> list[str]:
        """Read `file` of the control group and its parents: of version 2, or of a `controller` of version 1."""
        own = PurePosixPath(self._group(controller))
        mount = f"sys/fs/cgroup/{controller}" if controller else self._unified_folder()
        # for a group outside of this container, the root of the mount stands in
        places = [str(place).strip("/") for place in (own, *own.parents)]
        found = [self.text("/".join(part for part in (mount, place, file) if part)) for place in places]
        return [text for text in found if text is not None]

    def _unified_folder(self) -> str:
        hybrid = "sys/fs/cgroup/unified"
        return hybrid if (self.root / hybrid).is_dir() else "sys/fs/cgroup"

    def _group(self, controller: str | None) -> str:
        for line in self.lines("proc/self/cgroup"):
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            # version 2 names no controller
            if (controller or "") in controllers.split(","):
                return path or "/"
        return "/"


def count_of_list(text: str | None) -> int | None:
    """Return how many numbers a kernel list such as `0-3,8` contains."""
    if not text:
        return None
    count = 0
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            return None
        count += int(last) - int(first) + 1 if dash else 1
    return count


def _cpu_max(text: str) -> float | None:
    parts = text.split()
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        return None  # "max 100000", and -1 of version 1
    return int(parts[0]) / int(parts[1]) if int(parts[1]) else None
