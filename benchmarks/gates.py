"""Gates with a control on a busy machine: how often equal arms fail, and how often a loss of 5 % is found.

    python benchmarks/gates.py [--gates=20] [--rounds=15] [--runs=FOLDER]

Measures gates of equal arms, and of arms of which the second reads 5.8 % more rows (about 5 % of throughput), in turn,
on whatever else the machine does. More gates are drawn from the blocks of those with equal arms: runs of five
successive blocks, of whose three trials one is the candidate, at each place as often; to plant 5 %, its throughput is
divided by 1.05. With --gates=0 it only draws from the runs in FOLDER.
"""

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pgdyno.analyse.gate import GateVerdict, gate
from pgdyno.analyse.pairs import Arms, Metric, PointPairs, within
from pgdyno.messages import Message
from pgdyno.records import Outcome, Point
from pgdyno.store import RunData, find_run, list_runs, load_run

PLAN = """
name = "gate"
[target.pg18]
kind = "embedded"
version = "18"
[workload]
scripts = ["rows.sql"]
dataset = "none"
[sweep]
clients = 1
[sweep.session_settings]
"gate.rows" = ["5000", "{rows}"]
[trial]
duration = "500ms"
repeats = {rounds}
control = true
[reset]
checkpoint = false
[probe]
enabled = false
"""
SCRIPT = "SELECT sum(i) FROM generate_series(1, current_setting('gate.rows')::int) AS i;\n"
ROWS = {"equal": "5_000", "planted": "5290"}
LIMIT = 0.01
LOSS = 1.05
TOGETHER = 5
"""Blocks that are drawn together, because successive ones resemble each other."""
DRAWN = {"equal": 200, "planted": 100}
Block = tuple[float, float, float]
"""Throughput of its three trials, in their order."""


def measure(kind: str, rounds: int, runs: Path) -> None:
    """Run one gate into `runs`."""
    (runs / kind).mkdir(parents=True, exist_ok=True)
    plan = runs / f"{kind}.toml"
    plan.write_text(PLAN.format(rows=ROWS[kind], rounds=rounds))
    (runs / "rows.sql").write_text(SCRIPT)
    command = [sys.executable, "-m", "pgdyno", "run", str(plan), "--runs", str(runs / kind), "--no-preflight"]
    subprocess.run([*command, "--alongside", "--quiet"], check=True, stdout=subprocess.DEVNULL)


def measured(folder: Path) -> list[RunData]:
    """Return the complete runs in `folder`."""
    found = [load_run(find_run(each.name, folder)) for each in list_runs(folder)]
    return [each for each in found if each.manifest.outcome is Outcome.FINISHED]


def verdicts(folder: Path) -> Counter[GateVerdict]:
    """Return the verdicts of the gates in `folder`."""
    found: Counter[GateVerdict] = Counter()
    for run in measured(folder):
        (arms,) = within(run, "settings.gate.rows", Metric.TPS)
        found[gate(arms, LIMIT).verdict] += 1
    return found


def blocks_of(folder: Path) -> list[list[Block]]:
    """Return the blocks of each run in `folder`."""
    found = []
    for run in measured(folder):
        rates = [trial.summary.tps for trial in run.trials if trial.summary is not None]
        found.append([(rates[at], rates[at + 1], rates[at + 2]) for at in range(0, len(rates) - 2, 3)])
    return found


def drawn(runs: Sequence[Sequence[Block]], rounds: int, loss: float, chance: random.Random) -> Arms:
    """Return arms of `rounds` blocks, drawn from `runs`, whose candidate is slower by `loss`."""
    blocks: list[Block] = []
    while len(blocks) < rounds:
        of = chance.choice(runs)
        first = chance.randrange(len(of) - TOGETHER + 1)
        blocks += of[first : first + TOGETHER]
    base: dict[int, float] = {}
    other: dict[int, float] = {}
    first_trials: dict[int, float] = {}
    later_trials: dict[int, float] = {}
    places: list[int] = []
    for repeat, block in enumerate(blocks[:rounds]):
        places = places or chance.sample(range(3), 3)
        candidate = places.pop()
        earlier, later = (rate for place, rate in enumerate(block) if place != candidate)
        base[repeat], other[repeat] = (earlier * later) ** 0.5, block[candidate] / loss
        first_trials[repeat], later_trials[repeat] = earlier, later

    def arms(a: dict[int, float], b: dict[int, float]) -> Arms:
        return Arms("a", "b", Metric.TPS, True, (PointPairs(Message("point", "point"), Point(clients=1), a, b),))

    return replace(arms(base, other), control=arms(first_trials, later_trials))


def main() -> None:
    """Print the verdicts of the measured gates, and of those that are drawn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=20, help="gates of each kind that are measured")
    parser.add_argument("--rounds", type=int, default=15, help="blocks of a measured gate")
    parser.add_argument("--drawn", type=int, nargs="*", default=[15, 60, 1500], help="blocks of gates drawn")
    parser.add_argument("--runs", type=Path, default=Path("gates"), help="folder of the runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    for _ in range(given.gates):
        for kind in ROWS:
            measure(kind, given.rounds, given.runs)
    rows = [("measured", given.rounds, kind, verdicts(given.runs / kind)) for kind in ROWS]
    pool, chance = blocks_of(given.runs / "equal"), random.Random(given.seed)
    for rounds in given.drawn:
        for kind, loss in (("equal", 1.0), ("planted", LOSS)):
            found = Counter(gate(drawn(pool, rounds, loss, chance), LIMIT).verdict for _ in range(DRAWN[kind]))
            rows.append(("drawn", rounds, kind, found))
    names = (GateVerdict.OK, GateVerdict.INCONCLUSIVE, GateVerdict.REGRESSION, GateVerdict.UNDECIDABLE)
    print(f"| gates | blocks | arms | {' | '.join(names)} |\n|---|--:|---|--:|--:|--:|--:|")
    for source, rounds, kind, found in rows:
        print(f"| {source} | {rounds} | {kind} | {' | '.join(str(found[each]) for each in names)} |")
    if given.out is not None:
        figures = [{"gates": a, "blocks": b, "arms": c, **{each: d[each] for each in names}} for a, b, c, d in rows]
        given.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
