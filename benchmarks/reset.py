"""What each way back to the dataset takes: every method of [reset] prepares some trials on one embedded server.

Figures are medians over the trials, without what is made once (load, template, snapshot), which is shown apart.
"""

import argparse
import statistics
from collections.abc import Iterator

from pgdyno.plan.model import Reset
from pgdyno.plan.targets import Environment
from pgdyno.prepare import Dataset, Preparer
from pgdyno.programs import find_engine
from pgdyno.records import PrepareStep
from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget

METHODS: dict[str, dict[str, object]] = {
    "none": {"method": "none"},
    "vacuum": {"method": "vacuum"},
    "template, wal_log": {"method": "template", "strategy": "wal_log"},
    "template, file_copy": {"method": "template", "strategy": "file_copy"},
    "template, file_copy, clone": {"method": "template", "strategy": "file_copy", "file_copy_method": "clone"},
    "snapshot": {"method": "snapshot"},
    "reload": {"method": "reload"},
}
CHECKS = ("verify", "read sums")


def trials(server: Server, reset: Reset, dataset: Dataset, repeats: int) -> Iterator[list[PrepareStep]]:
    """Steps of the first trial, which makes what is made once, and of the others."""
    preparer = Preparer(server, find_engine(), SilentProgress(), reset, {"tpcb-like"})
    for _ in range(repeats + 1):
        yield preparer.prepare(dataset).steps
        with server.connect() as connection:
            # some pages of every table are dirty, as behind a trial
            connection.execute("UPDATE pgbench_accounts SET abalance = abalance WHERE aid % 97 = 0")
            connection.execute("UPDATE pgbench_tellers SET tbalance = tbalance")


def seconds(steps: list[PrepareStep]) -> float:
    """All of them but checks, which cost the same with each method."""
    return sum(step.seconds for step in steps if step.name not in CHECKS)


def main() -> None:
    """Measures all, prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=METHODS, help="one method")
    parser.add_argument("--data", help="a folder on another file system")
    args = parser.parse_args()
    dataset = Dataset("pgbench", args.scale)
    settings = {"shared_buffers": "2GB", "max_wal_size": "4GB"}
    environment = Environment(data=args.data)
    spec = EmbeddedTarget(kind="embedded", version="18", settings=settings, environment=environment)
    print(f"{dataset}, {settings}, median of {args.repeats}, seconds")
    with open_target("reset", spec, home=Home.locate(), progress=SilentProgress()) as server:
        for name, keys in METHODS.items():
            if args.only not in (None, name):
                continue
            first, *others = trials(server, Reset.model_validate(keys), dataset, args.repeats)
            once = seconds(first) - seconds(others[0])
            each = statistics.median(seconds(steps) for steps in others)
            of_steps = ", ".join(
                f"{step.name} {statistics.median(steps[place].seconds for steps in others):.2f}"
                for place, step in enumerate(others[0])
            )
            print(f"{name:28} once {once:6.1f}  each {each:6.2f}  ({of_steps})", flush=True)


if __name__ == "__main__":
    main()
