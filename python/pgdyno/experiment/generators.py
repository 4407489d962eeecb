"""The generators of a run: starting them, repeating trials after a loss, and their numbers of threads.

The engine chooses its number of threads by the clients, the cores and the server's place. Later trials of a load use
the number of its first one, whatever their target and settings, so that compared arms have the same generator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgdyno.errors import EngineError
from pgdyno.messages import Message
from pgdyno.plan import LoadedPlan, Plan, PlannedTrial
from pgdyno.plan.hosts import generators
from pgdyno.probe.clock_offset import HERE, Ahead
from pgdyno.records import Failure, FailureId, Outcome, Point, Stage, TrialRecord
from pgdyno.remote.program_files import lua_files
from pgdyno.remote.remote_host import RemoteHost
from pgdyno.run.process import Running, running_engine
from pgdyno.run.run_trial import TrialResult
from pgdyno.units import quantity

if TYPE_CHECKING:
    from pgdyno.doctor.needs import Needs
    from pgdyno.generators.generator_lifecycle import Cluster
    from pgdyno.plan.hosts import SshSpec
    from pgdyno.programs import Engine
    from pgdyno.records import Check
    from pgdyno.targets.rented.rental import Rental


class KnownWorkers:
    """The numbers of engine threads of a run's first trials, by load."""

    def __init__(self, trials: Iterable[TrialRecord]) -> None:
        self._by_load: dict[str, int] = {}
        for trial in trials:
            self.learn(trial)

    def count_for(self, point: Point) -> int | None:
        """Return the number for the load of `point`; None before its first trial."""
        return self._by_load.get(_load(point))

    def learn(self, trial: TrialRecord) -> None:
        """Remember the number of `trial`, if it is the first of its load that finished.

        The engines of a cluster are ignored: each of them chooses a number of its own.
        """
        generator = trial.generator
        if trial.outcome is Outcome.FINISHED and generator is not None and not generator.hosts:
            self._by_load.setdefault(_load(trial.point), generator.workers)


def _load(point: Point) -> str:
    return point.model_copy(update={"settings": {}}).model_dump_json()


MAX_REPEATS = 2
"""How often pgdyno repeats a trial; if a generator is lost once more, the trial has failed."""


class GeneratorLostError(Exception):
    """A generator was lost during a trial, which must be repeated: its figures are those of a smaller load."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Generators:
    """Owns what the trials of a run learn about its generators: their threads, their clock, their losses."""

    def __init__(self, engine: Engine, cluster: Cluster | None, trials: Sequence[TrialRecord]) -> None:
        """`cluster` is None if one engine makes the load; `trials` are those that earlier attempts completed."""
        self.engine = engine
        self.cluster = cluster
        self._clock_ahead = HERE
        self._known_workers = KnownWorkers(trials)
        self._repeats: Counter[int] = Counter()

    @property
    def running(self) -> Running:
        return running_engine if self.cluster is None else self.cluster.run_engine

    @property
    def clock_ahead(self) -> Ahead:
        """By how much the clock of the host that makes the load was ahead before the current trial."""
        return self._clock_ahead

    def measure_clock(self, host: SshSpec) -> Ahead:
        """Measure the clock of `host`, which makes the load. Raises TargetError."""
        # asyncssh takes a while to load
        from pgdyno.probe.over_ssh import measure_ahead

        self._clock_ahead = measure_ahead(host)
        return self._clock_ahead

    def workers_for(self, point: Point) -> int | None:
        """Return the number of engine threads of an earlier trial of the same load; None if there was none."""
        return self._known_workers.count_for(point)

    def learn(self, record: TrialRecord) -> None:
        """Remember the number of engine threads of a trial."""
        self._known_workers.learn(record)

    def run(self, trial: PlannedTrial, load: Callable[[], TrialResult]) -> TrialResult:
        """Return the result of `load`, which is a failed trial if the generators of a cluster are not available.

        Raises GeneratorLostError if the trial must be repeated, and without a cluster EngineError.
        """
        if self.cluster is None:
            return load()
        try:
            result = load()
        except EngineError as error:
            failure = Failure(stage=Stage.RUN, id=FailureId.NO_GENERATORS, message=error.message, hint=error.hint)
            return TrialResult(Outcome.FAILED, [], None, None, failure)
        is_lost = bool(result.events) and result.events[-1].get("lost_generator") is not None
        if is_lost and result.failure is not None and self._repeats[trial.number] < MAX_REPEATS:
            self._repeats[trial.number] += 1
            raise GeneratorLostError(result.failure.message)
        return result


@contextmanager
def open_cluster(
    plan: Plan, engine: Engine, rental: Rental | None, say: Callable[[str], None]
) -> Iterator[Cluster | None]:
    """Start the plan's generators, or connect to rented ones; None if one engine makes the load. Raises EngineError."""
    rented, places = rental.load_hosts() if rental is not None else [], generators(plan.generators)
    # the engine itself runs on a single rented host
    hosts = rented if len(rented) > 1 else [RemoteHost(each) for each in places.ssh]
    if not hosts and not places.local:
        yield None
        return
    from pgdyno.generators.generator_lifecycle import open_cluster

    say(f"starting {quantity(places.local + len(hosts), 'generator')}")
    with open_cluster(engine, places.local, hosts, say, are_rented=bool(rented)) as cluster:
        yield cluster


def check_generators(loaded: LoadedPlan) -> None:
    """Raise EngineError for a script that cannot be copied with all that it loads, before anything is rented.

    Raises UsageError for generators of an earlier release.
    """
    plan = loaded.plan
    generators(plan.generators)
    if plan.workload.lua_script is not None and (plan.generators or plan.generator is not None):
        lua_files(plan.workload.lua_script, loaded.folder)


def generator_checks(
    plan: Plan, engine: Engine, needs: Needs, servers: Mapping[str, Mapping[str, str]], say: Callable[[str], None]
) -> list[Check]:
    """Start the plan's generators, and return the checks that each of them makes, as before a run.

    Empty if the plan names none. `servers` are the environments of servers over the network, by target. An error of a
    generator becomes a check.
    """
    if not plan.generators:
        return []
    from pgdyno.doctor.check import stop
    from pgdyno.generators.ceiling import CEILING, look

    try:
        with open_cluster(plan, engine, None, say) as cluster:
            assert cluster is not None
            say("measuring the ceiling of every generator")
            return look(cluster, needs, servers)
    except EngineError as error:
        failed = Message("generators-failed", "{error}", error=error.message)
        means = Message("generators-needed", "the plan's generators cannot generate its load")
        return [stop(CEILING, failed, means, error.hint or "look at docs/guides/cluster.md")]
