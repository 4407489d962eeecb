"""The generators of a run: started before its first trial, checked between trials, ended after it."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from pgdyno.errors import EngineError
from pgdyno.generators.distributed_load import ClusterLoad
from pgdyno.generators.generator_protocol import LostError, Standing
from pgdyno.generators.local_generator import LocalGenerator
from pgdyno.generators.merge_events import Event
from pgdyno.generators.shared_load import Shared, shared_out
from pgdyno.programs import Engine
from pgdyno.remote.remote_host import RemoteHost

GATHER_S = 90.0
"""The time limit until a generator that was lost is back, or a rented one is up."""
SILENT_S = 3.0
"""How long waiting for generators stays silent."""
MOST_STARTS = 4

Known = Sequence[tuple[str, Callable[[], Standing]]]
"""The names of all generators, and how to reach each."""


class Cluster:
    def __init__(self, known: Known, notify: Callable[[str], None], *, are_rented: bool = False) -> None:
        """The generators of `known` make the load; `notify` receives progress.

        Times of a load are this machine's, or those of the first rented host, because other programs of the trial run
        there and use the same clock.
        """
        self._known = known
        self._notify = notify
        self._are_rented = are_rented
        self.generators: list[Standing] = []

    def gather(self) -> None:
        """Connect to every generator, also in place of one that does not answer. Raises EngineError."""
        began, is_said = time.monotonic(), False
        # a host that was never reached may be mistyped
        patience_s = GATHER_S if self.generators or self._are_rented else 0.0
        while (why := self._gather_generators()) is not None:
            if time.monotonic() > began + patience_s:
                raise why
            if not is_said and time.monotonic() > began + SILENT_S:
                self._notify(f"{why.message}; waiting {GATHER_S:g} s for it")
                is_said = True
            time.sleep(0.5)
        versions = {each.facts["pgdrive"] for each in self.generators}
        if len(versions) > 1:
            said = ", ".join(f"{each.name} has pgdrive {each.facts['pgdrive']}" for each in self.generators)
            raise EngineError(f"the generators have different versions: {said}", hint="build all engines anew")

    def _gather_generators(self) -> EngineError | None:
        """Return why a generator is missing, or None."""
        there: dict[str, Standing] = {}
        for generator in self.generators:
            if _answers(generator):
                there[generator.name] = generator
            else:
                generator.abandon()
        absent = [(name, reach) for name, reach in self._known if name not in there]
        with ThreadPoolExecutor(max(1, len(absent))) as pool:
            coming = [(name, pool.submit(reach)) for name, reach in absent]
        missing, wrong = [], []
        for name, one in coming:
            try:
                there[name] = one.result()
            except LostError as lost:
                missing.append(EngineError(f"{name} does not start: {lost}", hint=lost.hint))
            except EngineError as error:
                wrong.append(error)
        self.generators = [there[name] for name, _ in self._known if name in there]
        if wrong:
            # retrying is pointless
            raise wrong[0]
        return next(iter(missing), None)

    @contextmanager
    def run_engine(
        self,
        engine: Engine,
        options: Sequence[str],
        environment: Mapping[str, str],
        errors: IO[bytes],
        folder: Path | None = None,
    ) -> Iterator[tuple[ClusterLoad, Iterator[Event]]]:
        """Replace `run.process.running_engine`: all generators act as one engine.

        Uses no more generators than clients. Raises EngineError if they are not available.
        """
        del engine
        load = self._begin_load(shared_out(options, folder or Path()), environment, errors)
        try:
            yield load, load.events()
        except BaseException:
            load.send_signal(2)
            raise
        finally:
            load.close()

    def _begin_load(self, shared: Shared, environment: Mapping[str, str], errors: IO[bytes]) -> ClusterLoad:
        """Start all engines without a start time. Raises EngineError."""
        tries = 0
        while True:
            self.gather()
            try:
                load = ClusterLoad(self.generators[: shared.clients], shared, errors, by_first_clock=self._are_rented)
                load.begin(environment)
            except LostError as lost:
                # a host that was frozen may answer once more before it ends
                tries += 1
                if tries == MOST_STARTS:
                    whose = "" if lost.number is None else f"{self.generators[lost.number].name}: "
                    raise EngineError(f"the generators could not start: {whose}{lost}") from lost
            else:
                return load


def _answers(generator: Standing) -> bool:
    try:
        generator.clock_us()
    except LostError:
        return False
    return True


@contextmanager
def open_cluster(
    engine: Engine, local: int, hosts: Sequence[RemoteHost], notify: Callable[[str], None], *, are_rented: bool = False
) -> Iterator[Cluster]:
    """Yield `local` generators of this machine and one on each of `hosts`, and end them after the block.

    `notify` receives progress. Raises EngineError.
    """
    names = [f"generator-{number}" for number in range(1, local + len(hosts) + 1)]
    reach: list[Callable[[], Standing]] = [partial(LocalGenerator, name, engine) for name in names[:local]]
    if hosts:
        # asyncssh takes a while to load
        from pgdyno.generators.ssh_hosts import SshGenerator

        reach += [partial(SshGenerator, name, host, engine) for name, host in zip(names[local:], hosts, strict=True)]
    cluster = Cluster(list(zip(names, reach, strict=True)), notify, are_rented=are_rented)
    try:
        cluster.gather()
        yield cluster
    finally:
        for generator in cluster.generators:
            generator.end()
