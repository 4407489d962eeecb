"""Generators as Ray actors."""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from typing import Any

from pgdyno.doctor.generator import Trips
from pgdyno.errors import EngineError
from pgdyno.generators import ray_start
from pgdyno.generators.agent import Agent, EngineOutput
from pgdyno.generators.distributed_load import SILENCE_S, LostError
from pgdyno.generators.ray_node import OWN_SETTINGS
from pgdyno.generators.ray_start import RESOURCE

CALL_S = 10.0
"""The time limit for calls that are not urgent."""
JOIN_S = 150.0
"""The time limit until all nodes have joined."""
ARRIVE_S = 90.0
"""The time limit until an agent has started on a node that has joined."""
THREADS = 4
"""Threads of an agent: a call of `listen` must not delay the call that stops the engine."""


class NotStartedError(EngineError):
    """Ray did not start, but a retry may succeed."""


@cache
def own_token() -> str:
    """Return the authentication token for clusters of this process."""
    return secrets.token_hex(32)


@contextmanager
def join_cluster(address: str, *, is_ours: bool, tls: Mapping[str, str] | None = None) -> Iterator[None]:
    """Join the cluster at the head's `address` as Ray's driver. Raises EngineError.

    A cluster that pgdyno started uses its own token and the variables `tls`, another one those of the environment.
    """
    with _set_own_environment(tls or {}) if is_ours else nullcontext(), _driver(address, is_ours=is_ours):
        yield


@contextmanager
def _set_own_environment(tls: Mapping[str, str]) -> Iterator[None]:
    ours = {**OWN_SETTINGS, "RAY_AUTH_TOKEN": own_token(), **tls}
    os.environ |= ours
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
        with suppress(EngineError):
            _read_environment_anew()


@contextmanager
def _driver(address: str, *, is_ours: bool) -> Iterator[None]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray = _ray()
    _read_environment_anew()
    if not is_ours:
        ray_start.look(address)
    with suppress(Exception):
        # otherwise messages of Ray's daemons about each other would appear in the output; no option disables them
        ray._private.worker.listen_error_messages = _nobody_listens
    with _our_signals():
        try:
            ray.init(address=address, logging_level="ERROR", log_to_driver=False)
        except Exception as error:
            with suppress(Exception):
                ray.shutdown()
            kind = NotStartedError if is_ours else EngineError
            raise kind(f"cannot join the Ray cluster at {address}: {first_words(error)}") from error
    try:
        yield
    finally:
        with suppress(Exception), _our_signals():
            ray.shutdown()


def _read_environment_anew() -> None:
    """Make Ray read the environment again: it reads it when it is imported, which may have been earlier."""
    native = _ray()._raylet
    # in Ray's own order, because a thread of the previous cluster may ask at the same time
    native.Config.initialize("")
    native.AuthenticationTokenLoader.instance().reset_cache()


def _nobody_listens(worker: object, threads_stopped: object) -> None:
    del worker, threads_stopped


def wait_for_nodes(count: int, is_over: Callable[[], EngineError | None]) -> None:
    """Wait until `count` nodes make load; `is_over` returns why waiting longer is useless. Raises EngineError."""
    deadline = time.monotonic() + JOIN_S
    while True:
        # without its head, Ray would wait for an answer to `nodes`
        why = is_over()
        if why is not None:
            raise why
        if len(nodes()) >= count:
            return
        if time.monotonic() > deadline:
            raise EngineError(
                f"{len(nodes())} of {count} generators joined the cluster within {JOIN_S:g} s",
                hint="check whether the hosts reach this one, and vice versa",
            )
        time.sleep(0.1)


def nodes() -> list[tuple[str, str]]:
    """Return name and ID of each live node that makes load, ordered by name. Raises EngineError."""
    try:
        found = _ray().nodes()
    except Exception as error:
        raise EngineError(
            f"the cluster of the generators does not answer: {first_words(error)}",
            hint="check its head and the network to it; then: pgdyno run --resume RUN --redo-failed",
        ) from error
    alive = [node for node in found if node["Alive"] and node["Resources"].get(RESOURCE)]
    return sorted((_name(node), node["NodeID"]) for node in alive)


def _name(node: Mapping[str, Any]) -> str:
    return str(node.get("NodeName") or node.get("NodeManagerHostname") or node["NodeManagerAddress"])


class RayGenerator:
    """An agent on a node; see `distributed_load.Generator`."""

    def __init__(self, name: str, node_id: str) -> None:
        """Start the agent on the node. Raises LostError, EngineError."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.name = name
        # a silent restart would make it another load
        actor = _ray().remote(num_cpus=0, resources={RESOURCE: 1}, max_restarts=0, max_task_retries=0)(Agent)
        place = NodeAffinitySchedulingStrategy(node_id, soft=False)
        try:
            self._actor = actor.options(max_concurrency=THREADS, scheduling_strategy=place).remote(is_process=True)
        except ConnectionError as error:
            # of a cluster that was joined through Ray's client
            raise LostError(first_words(error)) from error
        try:
            self.facts: Mapping[str, Any] = self._call(self._actor.look, timeout=ARRIVE_S)
        except LostError:
            self.abandon()
            raise

    def clock_us(self) -> int:
        return int(self._call(self._actor.clock_us, timeout=SILENCE_S))

    def begin(self, options: Sequence[str], environment: Mapping[str, str], files: Mapping[str, bytes]) -> None:
        self._call(self._actor.begin, list(options), dict(environment), dict(files))

    def start(self, epoch_us: int) -> None:
        self._call(self._actor.start, epoch_us, timeout=SILENCE_S)

    def listen(self, wait_s: float) -> EngineOutput:
        """Renews its lease, and returns its output."""
        output: EngineOutput = self._call(self._actor.listen, wait_s, timeout=SILENCE_S)
        return output

    def ray_cpu_us(self) -> Mapping[str, int]:
        """Return Ray's CPU time on its host since the engine's start."""
        taken: Mapping[str, int] = self._call(self._actor.ray_cpu_us, timeout=SILENCE_S)
        return taken

    def ceiling(self, protocol: str, clients: int, seconds: float) -> float:
        """Return its engine's ceiling in transactions per second."""
        return float(self._call(self._actor.ceiling, protocol, clients, seconds, timeout=CALL_S + seconds))

    def trips(self, environment: Mapping[str, str], protocol: str) -> Trips:
        """Measures round trips from its host to a server."""
        found: Trips = self._call(self._actor.trips, dict(environment), protocol)
        return found

    def interrupt(self) -> None:
        with suppress(Exception):
            self._actor.interrupt.remote()

    def end(self) -> None:
        with suppress(LostError):
            self._call(self._actor.end)
        self.abandon()

    def abandon(self) -> None:
        """Abandons an agent that does not answer: its node ends it as soon as the node is reachable again."""
        with suppress(Exception):
            _ray().kill(self._actor)

    def _call(self, method: Any, *given: object, timeout: float = CALL_S) -> Any:  # noqa: ANN401
        """Return the agent's answer. Raises LostError, and EngineError as the agent raised it."""
        from ray.exceptions import GetTimeoutError, RayError, RayTaskError

        try:
            return _ray().get(method.remote(*given), timeout=timeout)
        except GetTimeoutError as error:
            raise LostError(f"it did not answer within {timeout:g} s") from error
        except RayTaskError as error:
            cause = error.cause
            if isinstance(cause, EngineError):
                raise cause from error
            raise LostError(f"{type(cause).__name__}: {cause}") from error
        except (RayError, ConnectionError) as error:
            raise LostError(first_words(error)) from error


@contextmanager
def _our_signals() -> Iterator[None]:
    """Restores pgdyno's signal handlers, because Ray's would end this process in their own way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def first_words(error: Exception) -> str:
    """Return the first line of a long error of Ray; if that is a heading, with the last line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[-1]}"
    return lines[0] if lines else type(error).__name__


def _ray() -> Any:  # noqa: ANN401
    try:
        import ray
    except ImportError as error:
        raise EngineError(
            "several generators need Ray, which is not installed", hint='pip install "pgdyno[cluster]"'
        ) from error
    return ray
