"""Counts the stacks that `perf script` prints, in the folded form of flame graphs: `postgres;main;ExecScan` and a
number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO

LONGEST_LINE = 65_536
"""Bytes; of a longer line, which only a hostile symbol has, the rest is skipped."""
LONGEST_NAME = 120
MOST_FRAMES = 127
"""perf's own limit."""
MOST_STACKS = 20_000
"""Different stacks, so that memory stays bounded; the others are counted as OTHER."""
OTHER = "[other stacks]"
UNKNOWN = "[unknown]"
KERNEL = "_[k]"
"""Ends the name of a function of the kernel, as in other tools."""


@dataclass(slots=True)
class FoldedStacks:
    """Samples by stack."""

    samples: Counter[str] = field(default_factory=Counter)
    event: str = ""
    """What perf counted, in its words."""
    unresolved: int = 0
    """Samples in a function without a symbol."""


def fold(lines: Iterable[str]) -> FoldedStacks:
    """Counts the samples in the output of `perf script -F comm,event,ip,sym,dso`.

    A sample is a line `comm event:`, then a line per frame, the innermost first.
    """
    found = FoldedStacks()
    process: str | None = None
    frames: list[tuple[str, bool]] = []

    def close() -> None:
        if process is None:
            return
        stack = ";".join(
            [_cleaned(process), *(name for name, _ in reversed(frames[:MOST_FRAMES] or [(UNKNOWN, False)]))]
        )
        known = stack in found.samples or len(found.samples) < MOST_STACKS
        found.samples[stack if known else OTHER] += 1
        found.unresolved += not (frames and frames[0][1])

    for line in lines:
        if line[:1] in ("\t", " "):
            frames.append(_frame(line))
        elif line:
            close()
            process, _, event = line.strip().removesuffix(":").rpartition(" ")
            found.event, frames = _cleaned(event), []
    close()
    return found


def lines_of(stream: IO[bytes]) -> Iterator[str]:
    """Yields the lines of `stream`, of very long ones the beginning."""
    while line := stream.readline(LONGEST_LINE):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST_LINE)
        yield line.decode("utf-8", "replace").rstrip("\n")


def _frame(line: str) -> tuple[str, bool]:
    """Returns the name of a frame `address symbol (file)`, and whether it has a symbol; otherwise its file's name."""
    address, _, rest = line.strip().partition(" ")
    name, _, file = rest.removesuffix(")").rpartition(" (")
    if name in ("", UNKNOWN):
        file = file.rpartition("/")[2].strip("[]()")
        return (UNKNOWN if file in ("", "unknown") else f"[{_cleaned(file)}]"), False
    # the upper half of the addresses is the kernel's
    is_kernel = len(address) == 16 and address.startswith("ffff")
    return _cleaned(name) + (KERNEL if is_kernel else ""), True


def _cleaned(name: str) -> str:
    """Returns a name without separators of frames and without control characters."""
    cut = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
    return "".join(each if each.isprintable() else "?" for each in cut.replace(";", ":"))
