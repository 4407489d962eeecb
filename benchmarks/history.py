"""Compares the change points of `pgdyno history` with those of Apache Otava on series whose changes are known.

    pip install apache-otava==0.8.0 && python benchmarks/history.py [FOLDER...]    # in an environment of its own

Prints tables in Markdown, for docs/concepts/history.md. The simulated series have properties that papers on public
performance data report: about 1 to 5 % of noise from run to run; outliers, where one run in fifty is up to 30 % off;
two kinds of hosts, 3 % apart, of which each run gets one; noise that resembles that of the run before. Sources: Daly et
al. 2020 (MongoDB), Fleming et al. 2023 (DataStax), Besbes et al. 2025 (Mozilla). With a clone of
github.com/alan-turing-institute/TCPD, the series that it contains are compared, too; they are not performance data, but
people have marked their changes. With the unpacked source distribution of apache-otava, TigerBeetle's throughput is
compared, which its tests contain with a description of its changes.
"""

from __future__ import annotations

import ast
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from otava.analysis import compute_change_points

from pgdyno.analyse.history import change_points

Array = NDArray[np.float64]
Row = Sequence[object]
NEAR = 2
"""Runs by which a change point may be off."""
TIGERBEETLE = Path("tests", "tigerbeetle_test.py")
SLOPE = 97
"""Where throughput begins to rise, by the description of that series."""
RUNS = 100
TIMES = 200
NOISE = 0.02


def by_pgdyno(figures: Sequence[float]) -> list[int]:
    return [each.at for each in change_points(figures) or ()]


def by_otava(figures: Sequence[float], least: float = 0.0) -> list[int]:
    """Returns Otava's change points at its defaults: windows of 50, p < 0.001; changes of at least `least`."""
    found, _ = compute_change_points(list(figures), window_len=50, max_pvalue=0.001, min_magnitude=least)
    return [int(each.index) for each in found]


TOOLS: dict[str, Callable[[Sequence[float]], list[int]]] = {
    "pgdyno": by_pgdyno,
    "Otava": by_otava,
    "Otava, 1 % and more": lambda figures: by_otava(figures, 0.01),
}


def normal(random: np.random.Generator, count: int) -> Array:
    return random.normal(0, NOISE, count)


def with_outliers(random: np.random.Generator, count: int) -> Array:
    lost = np.where(random.random(count) < 0.02, random.uniform(0.1, 0.3, count), 0.0)
    return normal(random, count) + np.log1p(-lost)


def two_hosts(random: np.random.Generator, count: int) -> Array:
    return random.normal(0, 0.01, count) + np.where(random.random(count) < 0.5, 0.03, 0.0)


def remembering(random: np.random.Generator, count: int, correlation: float = 0.5) -> Array:
    fresh = normal(random, count) * math.sqrt(1 - correlation**2)
    values = np.empty(count)
    values[0] = random.normal(0, NOISE)
    for at in range(1, count):
        values[at] = correlation * values[at - 1] + fresh[at]
    return values


def bursts(random: np.random.Generator, count: int) -> Array:
    """Noise that doubles for a quarter of the runs, as on a host with a neighbour."""
    begin = int(random.integers(0, 3 * count // 4))
    values = normal(random, count)
    values[begin : begin + count // 4] *= 2
    return values


NOISES: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "normal, 2 %": normal,
    "with outliers": with_outliers,
    "two kinds of hosts": two_hosts,
    "correlated, 0.5": remembering,
    "bursts": bursts,
}


def score(found: Sequence[int], true: Sequence[int]) -> tuple[int, int]:
    """Returns how many of the true changes were found, each once, and how many found ones are none."""
    left = list(found)
    hits = 0
    for change in true:
        near = [each for each in left if abs(each - change) <= NEAR]
        if near:
            left.remove(min(near, key=lambda each: abs(each - change)))
            hits += 1
    return hits, len(left)


def false_alarms() -> Iterator[Row]:
    yield ("noise", *(f"{name}: series with an alarm" for name in TOOLS))
    for name, noise in NOISES.items():
        cells = []
        for tool in TOOLS.values():
            random = np.random.default_rng(1)
            alarmed = sum(bool(tool(list(1_000 * np.exp(noise(random, RUNS))))) for _ in range(TIMES))
            cells.append(f"{100 * alarmed / TIMES:.1f} %")
        yield (name, *cells)


def misses() -> Iterator[Row]:
    yield ("noise", "step", *(f"{name}: missed / false per series" for name in TOOLS))
    for name, noise in NOISES.items():
        for step in (0.02, 0.04, 0.08):
            cells = []
            for tool in TOOLS.values():
                random = np.random.default_rng(2)
                hits = false = 0
                for _ in range(TIMES):
                    at = sorted(int(each) for each in random.choice(np.arange(1, 10), 2, replace=False) * RUNS // 10)
                    logs = noise(random, RUNS)
                    for place in at:
                        logs[place:] += math.log1p(step) * random.choice((-1, 1))
                    found, others = score(tool(list(1_000 * np.exp(logs))), at)
                    hits, false = hits + found, false + others
                cells.append(f"{100 * (1 - hits / (2 * TIMES)):.0f} % / {false / TIMES:.2f}")
            yield (name, f"{100 * step:g} %", *cells)


def turing(clone: Path) -> Iterator[Row]:
    """Yields the series of the Turing Change Point Dataset with one variable and positive values.

    A change is one that most annotators marked within 5 % of the length of each other.
    """
    yield ("series", "values", "marked", *(f"{name}: found / missed / false" for name in TOOLS))
    marks = json.loads((clone / "annotations.json").read_text())
    sums = {name: np.zeros(3, dtype=int) for name in TOOLS}
    for path in sorted(clone.glob("datasets/*/*.json")):
        document = json.loads(path.read_text())
        if document["n_dim"] != 1 or path.stem not in marks:
            continue
        values = document["series"][0]["raw"]
        if any(not isinstance(each, (int, float)) or each <= 0 for each in values):
            continue
        true = agreed(list(marks[path.stem].values()), len(values))
        cells = []
        for name, tool in TOOLS.items():
            hits, others = scored_within(tool(values), true, len(values))
            sums[name] += (hits, len(true) - hits, others)
            cells.append(f"{hits} / {len(true) - hits} / {others}")
        yield (path.stem, len(values), len(true), *cells)
    yield ("all", "", "", *(" / ".join(str(each) for each in sums[name]) for name in TOOLS))


def tigerbeetle(source: Path) -> Iterator[Row]:
    """Yields what each tool finds in the throughput of 365 commits of TigerBeetle.

    Otava's test describes it: an outlier at 10, changes at 16 and 71, an upward slope from 97 on, and noise.
    """
    tree = ast.parse((source / TIGERBEETLE).read_text())
    lists = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return) and isinstance(node.value, ast.List)]
    values = ast.literal_eval(lists[0])
    yield ("tool", "changes before the slope", "on the slope")
    for name, tool in TOOLS.items():
        found = sorted(tool(values))
        before, later = (
            [each for each in found if each < SLOPE - NEAR],
            [each for each in found if each >= SLOPE - NEAR],
        )
        yield (name, ", ".join(map(str, before)), ", ".join(map(str, later)))


def agreed(marks: Sequence[Sequence[int]], count: int) -> list[int]:
    """Returns changes that more than half of the annotators marked, at the median of their places."""
    near = max(NEAR, round(0.05 * count))
    every = sorted(each for marked in marks for each in marked)
    found: list[int] = []
    while every:
        first = every[0]
        group = [each for each in every if each - first <= near]
        every = every[len(group) :]
        if sum(any(each in group for each in marked) for marked in marks) > len(marks) / 2:
            found.append(int(np.median(group)))
    return found


def scored_within(found: Sequence[int], true: Sequence[int], count: int) -> tuple[int, int]:
    near = max(NEAR, round(0.05 * count))
    left, hits = list(found), 0
    for change in true:
        close = [each for each in left if abs(each - change) <= near]
        hits += bool(close)
        left = [each for each in left if each not in close]
    return hits, len(left)


def table(rows: Iterator[Row]) -> str:
    head, *body = list(rows)
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [head, ["---"] * len(head), *body])


def main(folders: Sequence[str]) -> None:
    print(f"## False alarms\n\n{table(false_alarms())}\n", flush=True)
    print(f"## Misses\n\n{table(misses())}\n", flush=True)
    for folder in map(Path, folders):
        if (folder / TIGERBEETLE).exists():
            print(f"## TigerBeetle\n\n{table(tigerbeetle(folder))}\n")
        else:
            print(f"## Marked by people\n\n{table(turing(folder))}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
