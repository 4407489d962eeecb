"""The generators of a run: started before its first trial, checked between trials, ended after it."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Protocol

from pgdyno.doctor.generator import Trips
from pgdyno.errors import EngineError
from pgdyno.generators import ray_actors
from pgdyno.generators.agent import Shared, shared_out
from pgdyno.generators.distributed_load import ClusterLoad, Generator, LostError
from pgdyno.generators.merge_events import Event
from pgdyno.generators.ray_actors import NotStartedError, RayGenerator
from pgdyno.generators.ray_start import (
    Node,
    address_of,
    free_port,
    last_words,
    own_address,
    refusal,
    running_node,
    said_of,
    wait_for_head,
)
from pgdyno.generators.ray_tls import Authority, is_in_the_clear
from pgdyno.plan.hosts import Places
from pgdyno.programs import Engine

GATHER_S = 90.0
"""The time limit until all generators are up, including restarts."""
SILENT_S = 3.0
"""How long waiting for generators stays silent."""
MOST_STARTS = 4
ELSEWHERE = "192.0.2.1"
"""An unassigned address (RFC 5737), to find the interface that leads to other hosts."""


class Standing(Generator, Protocol):
    """A generator for a whole run; each call raises LostError, or EngineError for a failure on its host."""

    def ceiling(self, protocol: str, clients: int, seconds: float) -> float:
        """Return its engine's transactions per second against a null server."""

    def trips(self, environment: Mapping[str, str], protocol: str) -> Trips:
        """Measures round trips from its host to a server."""

    def end(self) -> None:
        """End its processes."""

    def abandon(self) -> None:
        """Abandons one that does not answer."""


Known = Sequence[tuple[str, Callable[[], Standing]]]
"""Returns the names of all current generators, and how to reach each."""


class Cluster:
    def __init__(
        self,
        count: int,
        known: Callable[[], Known],
        mend: Callable[[], None],
        notify: Callable[[str], None],
        *,
        by_first_clock: bool = False,
    ) -> None:
        """`count` generators of `known` make the load; `mend` restarts nodes that ended.

        `notify` receives progress. Times of a load are this machine's, or with `by_first_clock` those of the first
        generator.
        """
        self._count = count
        self._known = known
        self._mend = mend
        self._notify = notify
        self._by_first_clock = by_first_clock
        self.generators: list[Standing] = []

    def gather(self) -> None:
        """Start an agent on every node, also in place of one that does not answer. Raises EngineError."""
        began, is_said = time.monotonic(), False
        while (why := self._gather_generators()) is not None:
            if time.monotonic() > began + GATHER_S:
                raise why
            if not is_said and time.monotonic() > began + SILENT_S:
                self._notify(f"{why.message}; waiting {GATHER_S:g} s for the others")
                is_said = True
            # a node that has just ended may still be listed
            time.sleep(0.5)
        self._same_programs()

    def _gather_generators(self) -> EngineError | None:
        """Return why generators are missing, or None."""
        known: dict[str, Standing] = {}
        for generator in self.generators:
            if _answers(generator):
                known[generator.name] = generator
            else:
                generator.abandon()
        self.generators = list(known.values())
        self._mend()
        absent = [(name, reach) for name, reach in self._known() if name not in known]
        with ThreadPoolExecutor(max(1, len(absent))) as pool:
            coming = [(name, pool.submit(reach)) for name, reach in absent]
        failures, wrong = [], []
        for name, one in coming:
            try:
                known[name] = one.result()
            except LostError as lost:
                failures.append(EngineError(f"{name} does not start: {lost}"))
            except EngineError as error:
                wrong.append(error)
        self.generators = [known[name] for name in sorted(known, key=lambda name: (len(name), name))]
        if wrong:
            # retrying is pointless
            raise wrong[0]
        if len(known) >= self._count:
            return None
        return next(iter(failures), None) or EngineError(
            f"only {len(known)} of {self._count} generators are available",
            hint="check the missing hosts; with fewer generators, the load would be different",
        )

    def _same_programs(self) -> None:
        versions = {(each.facts["pgdyno"], each.facts["pgdrive"]) for each in self.generators}
        if len(versions) > 1:
            said = ", ".join(f"{each.name} has pgdrive {each.facts['pgdrive']}" for each in self.generators)
            raise EngineError(f"the generators have different versions: {said}", hint="install the same release on all")

    @contextmanager
    def running(
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
                load = ClusterLoad(
                    self.generators[: shared.clients], shared, errors, by_first_clock=self._by_first_clock
                )
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
def open_cluster(places: Places, notify: Callable[[str], None]) -> Iterator[Cluster]:
    """Yield the generators at `places`; `notify` receives progress. Raises EngineError."""
    if places.ray is not None:
        if is_in_the_clear(places.ray, os.environ):
            notify(f"Ray does not encrypt what goes to {places.ray}, the server's password included: see RAY_USE_TLS")
        with ray_actors.join_cluster(places.ray, is_ours=False):
            found = len(ray_actors.nodes())
            if not found:
                hint = """start nodes with: ray start --address=... --resources='{"loadgen": 1}'"""
                raise EngineError(f"no node of {places.ray} generates load", hint=hint)
            with gather_cluster(Cluster(found, _on_ray, lambda: None, notify)) as cluster:
                yield cluster
        return
    with (
        own_nodes(places, notify) as nodes,
        gather_cluster(Cluster(nodes.count, _on_ray, nodes.mend, notify)) as cluster,
    ):
        yield cluster


def _on_ray() -> Known:
    return [(name, partial(RayGenerator, name, node_id)) for name, node_id in ray_actors.nodes()]


@contextmanager
def own_nodes(places: Places, notify: Callable[[str], None], *, for_tasks: bool = False) -> Iterator[_OwnNodes]:
    """Yield nodes that have joined, with this process as driver, for tasks instead of loads. Raises EngineError."""
    for start in range(1, MOST_STARTS + 1):
        with ExitStack() as stack:
            # they end after this process has left the cluster
            nodes = _OwnNodes(places, stack.enter_context(ExitStack()), notify, for_tasks=for_tasks)
            what = f"{'node' if for_tasks else 'generator'}{'' if nodes.count == 1 else 's'}"
            notify(f"starting {nodes.count} {what}{', again' if start > 1 else ''}")
            try:
                nodes.start_head()
                stack.enter_context(ray_actors.join_cluster(nodes.address, is_ours=True, tls=nodes.tls))
                nodes.start_others()
            except EngineError as error:
                # on a busy machine, Ray may give up on its head
                if start == MOST_STARTS or not isinstance(error, NotStartedError):
                    raise
                continue
            yield nodes
            return


@contextmanager
def gather_cluster(cluster: Cluster) -> Iterator[Cluster]:
    """Yield `cluster` with its generators, and end them after the block. Raises EngineError."""
    try:
        cluster.gather()
        yield cluster
    finally:
        for generator in cluster.generators:
            generator.end()


def _tasks(node: Node) -> int | None:
    return None if node.host is not None else int(node.makes_load)


class _OwnNodes:
    def __init__(self, places: Places, stack: ExitStack, notify: Callable[[str], None], *, for_tasks: bool) -> None:
        self._stack, self._notify = stack, notify
        self.count = places.local + len(places.ssh)
        self.token = ray_actors.own_token()
        self._logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pgdyno-ray-log-")))
        ip = own_address(address_of(places.ssh[0]) if places.ssh else ELSEWHERE)
        # between nodes of this machine, nothing leaves it
        self._authority = Authority.new() if places.ssh else None
        self.tls = {} if self._authority is None else self._authority.environment(self._logs / "tls", ip)
        """Variables with which this process encrypts, as Ray's driver."""
        self.address = f"{ip}:{free_port(ip)}"
        self._nodes = [
            Node(f"generator-{number}", self.address, ip, number == 1, makes_load=True)
            for number in range(1, places.local + 1)
        ]
        if not self._nodes:
            self._nodes = [Node("driver", self.address, ip, is_head=True, makes_load=False)]
        self._nodes += [
            Node(f"generator-{number}", self.address, None, is_head=False, makes_load=True, host=host)
            for number, host in enumerate(places.ssh, start=places.local + 1)
        ]
        if for_tasks:
            # all local nodes share this machine's processors
            self._nodes = [replace(each, tasks=_tasks(each)) for each in self._nodes]
        self._head_is_there, self._always = threading.Event(), threading.Event()
        self._always.set()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._starts: Counter[str] = Counter()

    def start_head(self) -> None:
        """Start the head and, concurrently, the checks of all other hosts. Raises EngineError."""
        for node in self._nodes:
            if node.is_head or node.host is not None:
                self._start(node)
        host, _, port = self.address.rpartition(":")
        wait_for_head((host, int(port)), self._head_ended)

    def start_others(self) -> None:
        """Start all others, and wait until they have joined. Raises EngineError.

        Ray gives up on a start after 30 s, and a start takes 4 s of CPU: local nodes start a few at a time.
        """
        self._head_is_there.set()
        here = [node for node in self._nodes[1:] if node.host is None]
        at_once = max(1, len(os.sched_getaffinity(0)) // 2)
        for first in range(0, len(here), at_once):
            for node in here[first : first + at_once]:
                self._start(node)
            ray_actors.wait_for_nodes(self._making_load, self._restart_ended)
        ray_actors.wait_for_nodes(self._making_load, self._restart_ended)

    @property
    def _making_load(self) -> int:
        """Return how many of the started nodes make load."""
        return sum(node.makes_load and node.name in self._processes for node in self._nodes)

    def _start(self, node: Node) -> None:
        # a head that another node joins during its start may wait for itself until it gives up
        go = self._always if node.is_head else self._head_is_there
        running = running_node(node, self.token, self._log(node.name), go, self._authority)
        self._processes[node.name] = self._stack.enter_context(running)

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def _head_ended(self) -> EngineError | None:
        return self._refusal_error() or self._head_failed()

    def _head_failed(self) -> EngineError | None:
        if not self._is_headless:
            return None
        return NotStartedError(f"Ray's head did not start: {last_words(self._log(self._nodes[0].name))}")

    @property
    def _is_headless(self) -> bool:
        return self._processes[self._nodes[0].name].poll() is not None

    def _refusal_error(self) -> EngineError | None:
        for node in self._nodes:
            code = self._processes[node.name].poll() if node.name in self._processes else None
            log = self._log(node.name)
            if code is not None and (why := refusal(node, code, said_of(log))) is not None:
                return why
        return None

    def _restart_ended(self) -> EngineError | None:
        """Restarts nodes that ended before they had joined; returns why one cannot start."""
        if (why := self._refusal_error()) is not None:
            return why
        for node in self._nodes:
            if node.name not in self._processes or self._processes[node.name].poll() is None:
                continue
            self._starts[node.name] += 1
            # on a busy machine, Ray gives up on its own start after 30 s
            if node.is_head or self._starts[node.name] >= MOST_STARTS:
                return EngineError(f"Ray's node {node.name} did not start: {last_words(self._log(node.name))}")
            self._start(node)
        return None

    def mend(self) -> None:
        """Restarts nodes that have ended. Raises EngineError."""
        # without its head, Ray would wait for an answer to `nodes`
        if self._is_headless:
            raise EngineError(
                "the head of the generators' cluster has ended",
                hint="continue with new generators: pgdyno run --resume RUN --redo-failed",
            )
        there = {name for name, _ in ray_actors.nodes()}
        for node in self._nodes:
            if self._processes[node.name].poll() is None:
                continue
            # two nodes of the same name would conflict
            if node.name not in there:
                self._notify(f"restarting {node.name}")
                self._start(node)
