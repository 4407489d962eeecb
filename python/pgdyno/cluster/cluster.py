"""The generators of a run: brought up before its first trial, looked after between trials, gone behind it."""

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

from pgdyno.cluster import ray_generators
from pgdyno.cluster.load import ClusterLoad, Generator, LostError
from pgdyno.cluster.local_nodes import free_port, last_words, own_address, running_node, said_of, wait_for_head
from pgdyno.cluster.merge import Event
from pgdyno.cluster.node_script import Node, address_of, refusal
from pgdyno.cluster.parts import Shared, shared_out
from pgdyno.cluster.ray_generators import NotStartedError, RayGenerator
from pgdyno.doctor.generator import Trips
from pgdyno.errors import EngineError
from pgdyno.plan.generators import Places
from pgdyno.programs import Engine

GATHER_S = 90.0
"""Until all generators are there, also those that have to be started anew."""
SILENT_S = 3.0
"""How long nothing is said of those that are waited for."""
MOST_STARTS = 4
ELSEWHERE = "192.0.2.1"
"""Of nobody (RFC 5737): the way to it is the way to others."""


class Standing(Generator, Protocol):
    """A generator for a whole run; each call raises LostError, and EngineError for what is wrong there."""

    def ceiling(self, protocol: str, clients: int, seconds: float) -> float:
        """Of its engine against a server that answers at once, transactions a second."""

    def trips(self, environment: Mapping[str, str], protocol: str) -> Trips:
        """From there to a server and back."""

    def end(self) -> None:
        """Ends what was started there."""

    def abandon(self) -> None:
        """Leaves one that does not answer."""


Known = Sequence[tuple[str, Callable[[], Standing]]]
"""The names of all generators that there are now, and how to reach each."""


class Cluster:
    """Generators that are up."""

    def __init__(
        self,
        count: int,
        known: Callable[[], Known],
        mend: Callable[[], None],
        notify: Callable[[str], None],
        *,
        by_first_clock: bool = False,
    ) -> None:
        """`count` of those that `known` tells make load; `mend` brings back those of ours that have ended.

        `notify` is told who is waited for. Times of a load are this machine's, or `by_first_clock` those of the first
        generator.
        """
        self._count = count
        self._known = known
        self._mend = mend
        self._notify = notify
        self._by_first_clock = by_first_clock
        self.generators: list[Standing] = []

    def gather(self) -> None:
        """An agent on every node that makes load, anew where it does not answer. Raises EngineError."""
        began, is_said = time.monotonic(), False
        while (why := self._gathered()) is not None:
            if time.monotonic() > began + GATHER_S:
                raise why
            if not is_said and time.monotonic() > began + SILENT_S:
                self._notify(f"{why.message}; waiting {GATHER_S:g} s for the others")
                is_said = True
            # a node that has just died is not yet known to be dead
            time.sleep(0.5)
        self._same_programs()

    def _gathered(self) -> EngineError | None:
        """Why not all generators are there; None when they are."""
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
                failures.append(EngineError(f"{name} does not come up: {lost}"))
            except EngineError as error:
                wrong.append(error)
        self.generators = [known[name] for name in sorted(known, key=lambda name: (len(name), name))]
        if wrong:
            # another try is of no use
            raise wrong[0]
        if len(known) >= self._count:
            return None
        return next(iter(failures), None) or EngineError(
            f"only {len(known)} of {self._count} generators are there",
            hint="look at the hosts that are missing; a load of fewer generators would be another one",
        )

    def _same_programs(self) -> None:
        versions = {(each.facts["pgdyno"], each.facts["pgdrive"]) for each in self.generators}
        if len(versions) > 1:
            said = ", ".join(f"{each.name} has pgdrive {each.facts['pgdrive']}" for each in self.generators)
            raise EngineError(f"the generators are not of one version: {said}", hint="install one release on all")

    @contextmanager
    def running(
        self,
        engine: Engine,
        options: Sequence[str],
        environment: Mapping[str, str],
        errors: IO[bytes],
        folder: Path | None = None,
    ) -> Iterator[tuple[ClusterLoad, Iterator[Event]]]:
        """In place of `run.process.running_engine`: all generators as one engine.

        There are no more of them than clients. Raises EngineError when they cannot be had.
        """
        del engine
        load = self._begun(shared_out(options, folder or Path()), environment, errors)
        try:
            yield load, load.events()
        except BaseException:
            load.send_signal(2)
            raise
        finally:
            load.close()

    def _begun(self, shared: Shared, environment: Mapping[str, str], errors: IO[bytes]) -> ClusterLoad:
        """All engines, started; none has a start instant yet. Raises EngineError."""
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
                    raise EngineError(f"the generators could not begin: {whose}{lost}") from lost
            else:
                return load


def _answers(generator: Standing) -> bool:
    try:
        generator.clock_us()
    except LostError:
        return False
    return True


@contextmanager
def opened(places: Places, notify: Callable[[str], None]) -> Iterator[Cluster]:
    """The generators at `places`; `notify` is told what is being done. Raises EngineError."""
    if places.ray is not None:
        with ray_generators.joined(places.ray, is_ours=False):
            found = len(ray_generators.nodes())
            if not found:
                hint = """start nodes with: ray start --address=... --resources='{"loadgen": 1}'"""
                raise EngineError(f"no node of {places.ray} makes load", hint=hint)
            with gathered(Cluster(found, _on_ray, lambda: None, notify)) as cluster:
                yield cluster
        return
    with own_nodes(places, notify) as nodes, gathered(Cluster(nodes.count, _on_ray, nodes.mend, notify)) as cluster:
        yield cluster


def _on_ray() -> Known:
    return [(name, partial(RayGenerator, name, node_id)) for name, node_id in ray_generators.nodes()]


@contextmanager
def own_nodes(places: Places, notify: Callable[[str], None], *, for_tasks: bool = False) -> Iterator[_OwnNodes]:
    """Nodes that have joined, and this process with them; for tasks in place of loads. Raises EngineError."""
    for start in range(1, MOST_STARTS + 1):
        with ExitStack() as stack:
            # they end behind our own leaving
            nodes = _OwnNodes(places, stack.enter_context(ExitStack()), notify, for_tasks=for_tasks)
            what = f"{'node' if for_tasks else 'generator'}{'' if nodes.count == 1 else 's'}"
            notify(f"starting {nodes.count} {what}{', again' if start > 1 else ''}")
            try:
                nodes.start_head()
                stack.enter_context(ray_generators.joined(nodes.address, is_ours=True))
                nodes.start_others()
            except EngineError as error:
                # on a busy machine Ray gives up on its head, too
                if start == MOST_STARTS or not isinstance(error, NotStartedError):
                    raise
                continue
            yield nodes
            return


@contextmanager
def gathered(cluster: Cluster) -> Iterator[Cluster]:
    """`cluster` with its generators, which are ended behind the block. Raises EngineError."""
    try:
        cluster.gather()
        yield cluster
    finally:
        for generator in cluster.generators:
            generator.end()


def _tasks(node: Node) -> int | None:
    return None if node.host is not None else int(node.makes_load)


class _OwnNodes:
    """Nodes that we start."""

    def __init__(self, places: Places, stack: ExitStack, notify: Callable[[str], None], *, for_tasks: bool) -> None:
        """All of them end with `stack`."""
        self._stack, self._notify = stack, notify
        self.count = places.local + len(places.ssh)
        self.token = ray_generators.own_token()
        self._logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pgdyno-ray-log-")))
        ip = own_address(address_of(places.ssh[0]) if places.ssh else ELSEWHERE)
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
            # all nodes of this machine share its processors
            self._nodes = [replace(each, tasks=_tasks(each)) for each in self._nodes]
        self._head_is_there, self._always = threading.Event(), threading.Event()
        self._always.set()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._starts: Counter[str] = Counter()

    def start_head(self) -> None:
        """The head, and with it the look at all other hosts. Raises EngineError."""
        for node in self._nodes:
            if node.is_head or node.host is not None:
                self._start(node)
        host, _, port = self.address.rpartition(":")
        wait_for_head((host, int(port)), self._head_ended)

    def start_others(self) -> None:
        """All others, until they have joined. Raises EngineError.

        Ray gives up on a start after 30 s, and takes 4 s of CPU for it: those of this machine come a few at a time.
        """
        self._head_is_there.set()
        here = [node for node in self._nodes[1:] if node.host is None]
        at_once = max(1, len(os.sched_getaffinity(0)) // 2)
        for first in range(0, len(here), at_once):
            for node in here[first : first + at_once]:
                self._start(node)
            ray_generators.wait_for_nodes(self._making_load, self._ended)
        ray_generators.wait_for_nodes(self._making_load, self._ended)

    @property
    def _making_load(self) -> int:
        """How many of those that were started make load."""
        return sum(node.makes_load and node.name in self._processes for node in self._nodes)

    def _start(self, node: Node) -> None:
        # a head into whose start another node comes may wait for itself until it gives up
        go = self._always if node.is_head else self._head_is_there
        running = running_node(node, self.token, self._log(node.name), go)
        self._processes[node.name] = self._stack.enter_context(running)

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def _head_ended(self) -> EngineError | None:
        return self._refused() or self._head_failed()

    def _head_failed(self) -> EngineError | None:
        head = self._nodes[0].name
        if self._processes[head].poll() is None:
            return None
        return NotStartedError(f"Ray's head did not start: {last_words(self._log(head))}")

    def _refused(self) -> EngineError | None:
        """Why one of those that have ended would end again."""
        for node in self._nodes:
            code = self._processes[node.name].poll() if node.name in self._processes else None
            log = self._log(node.name)
            if code is not None and (why := refusal(node, code, said_of(log))) is not None:
                return why
        return None

    def _ended(self) -> EngineError | None:
        """Starts nodes again that ended before they had joined; why one does not start at all."""
        if (why := self._refused()) is not None:
            return why
        for node in self._nodes:
            if node.name not in self._processes or self._processes[node.name].poll() is None:
                continue
            self._starts[node.name] += 1
            # on a busy machine Ray gives up on a start of its own after 30 s
            if node.is_head or self._starts[node.name] >= MOST_STARTS:
                return EngineError(f"Ray's node {node.name} did not start: {last_words(self._log(node.name))}")
            self._start(node)
        return None

    def mend(self) -> None:
        """Starts those anew that have ended. Raises EngineError."""
        there = {name for name, _ in ray_generators.nodes()}
        for node in self._nodes:
            process = self._processes[node.name]
            if process.poll() is None:
                continue
            if node.is_head:
                raise EngineError("the head of the generators' cluster has ended", hint="begin a new run")
            # two of one name would be one too many
            if node.name not in there:
                self._notify(f"starting {node.name} again")
                self._start(node)
