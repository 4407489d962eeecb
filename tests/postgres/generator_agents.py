"""Generators of this machine whose methods a test calls, for tests of the engine and of merging results."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pgdyno.generators.distributed_load import ClusterLoad
from pgdyno.generators.local_generator import LocalGenerator
from pgdyno.generators.merge_events import Event
from pgdyno.generators.shared_load import Share, shared_out
from pgdyno.programs import find_engine
from tests.ssh.sshd import FAKETIME


class Here(LocalGenerator):
    def __init__(self, name: str, ahead_us: int = 0) -> None:
        super().__init__(name, find_engine())
        self.ahead_us = ahead_us

    def clock_us(self) -> int:
        return super().clock_us() + self.ahead_us

    def begin(self, share: Share, environment: Mapping[str, str]) -> None:
        super().begin(share, {**environment, **another_clock(self.ahead_us)})


def another_clock(ahead_us: int) -> dict[str, str]:
    """Returns variables of a process whose wall clock is ahead; its monotonic clock, which cannot be set, stays."""
    if not ahead_us:
        return {}
    assert FAKETIME is not None, "make test-packages installs libfaketime"
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME": f"{ahead_us / 1e6:+.6f}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@contextmanager
def generators_here(count: int, aheads_us: Sequence[int] = ()) -> Iterator[list[Here]]:
    generators = [Here(f"here-{number + 1}", ahead) for number, ahead in enumerate(aheads_us or [0] * count)]
    try:
        yield generators
    finally:
        for generator in generators:
            generator.end()


def run_load(
    generators: Sequence[Here], options: Sequence[str], environment: Mapping[str, str], folder: Path
) -> list[Event]:
    with (folder / "engine.log").open("w+b") as errors:
        load = ClusterLoad(generators, shared_out(options, folder), errors)
        load.begin(environment)
        return list(load.events())
