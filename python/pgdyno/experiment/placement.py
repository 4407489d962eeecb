"""Where the load and the server of a trial stood, looked at just before it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.experiment.events import clients_environment
from pgdyno.experiment.state import RunState
from pgdyno.plan import PlannedTrial
from pgdyno.records import WayRecord
from pgdyno.run.process import running_engine
from pgdyno.target import Server
from pgdyno.target.aws.journal import GENERATOR
from pgdyno.target.way import TRIPS, measure_way

_OPTIONS = ("--events=-", "--parent-lease", "--no-vacuum", "--client=1", "--jobs=1", f"--transactions={TRIPS}")


def way_of(state: RunState, trial: PlannedTrial, server: Server) -> WayRecord:
    """From where the load comes from to the `server` of `trial`. Raises TargetError."""
    ready = state.ground.rental.journal.ready if state.ground.rental is not None else {}
    place, generator = ready.get(trial.target), ready.get(GENERATOR)
    way = measure_way(server)
    if place is not None:
        way = way.model_copy(update={"server_zone": place["zone"], "instance": place["instance"]})
    if generator is not None:
        trips, least_us, median_us = _from_generator(state, server)
        there = {
            "round_trips": trips,
            "least_us": least_us,
            "median_us": median_us,
            "generator_zone": generator["zone"],
        }
        return way.model_copy(update={**there, **_clock(state, way)})
    if place is None and server.machine is not None:
        return way
    # boto3's room takes a while to load, this part of it does not
    from pgdyno.target.aws.here import own_zone

    return way.model_copy(update={"generator_zone": own_zone()})


def _clock(state: RunState, way: WayRecord) -> dict[str, int | None]:
    """The server's clock against the generator's, whose seconds the trial has. Raises TargetError."""
    # SSH takes a while to load
    from pgdyno.probe.ahead import measure_ahead

    spec = state.ground.rental.generator_ssh() if state.ground.rental is not None else None
    assert spec is not None
    ahead = state.generator_ahead = measure_ahead(spec)
    if way.clock_ahead_us is None or way.clock_uncertainty_us is None:
        return {}
    return {
        "clock_ahead_us": round(way.clock_ahead_us - ahead.us),
        "clock_uncertainty_us": way.clock_uncertainty_us - int(-ahead.uncertainty_us // 1),
    }


def _from_generator(state: RunState, server: Server) -> tuple[int, float, float]:
    """Round trips by pgdrive on the rented generator: how many, the quickest and the median, in microseconds."""
    with tempfile.TemporaryDirectory(prefix="pgdyno-") as folder, tempfile.TemporaryFile() as errors:
        script = Path(folder) / "round-trip.sql"
        script.write_text("SELECT 1;\n", encoding="utf-8")
        options = [*_OPTIONS, "-f", str(script)]
        with running_engine(state.ground.engine, options, clients_environment(state, server), errors) as (_, events):
            end = next((each for each in events if each["event"] == "end"), None)
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip()
    latency = end.get("latency_ns") if end is not None else None
    if end is None or latency is None:
        raise TargetError(f"the generator cannot measure a round trip to the server: {said or 'it says nothing'}")
    return int(end["succeeded"]), round(latency["min"] / 1e3, 1), round(latency["p50"] / 1e3, 1)
