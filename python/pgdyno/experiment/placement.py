"""Where the load and the server of a trial stood, looked at just before it."""

from __future__ import annotations

from pgdyno.experiment.state import RunState
from pgdyno.plan import PlannedTrial
from pgdyno.records import WayRecord
from pgdyno.target import Server
from pgdyno.target.way import measure_way


def way_of(state: RunState, trial: PlannedTrial, server: Server) -> WayRecord:
    """From here to the `server` of `trial`. Raises TargetError."""
    way = measure_way(server)
    rental = state.ground.rental
    place = rental.journal.ready.get(trial.target) if rental is not None else None
    if place is None and server.machine is not None:
        return way
    # boto3's room takes a while to load, this part of it does not
    from pgdyno.target.aws.here import own_zone

    told = {} if place is None else {"server_zone": place["zone"], "instance": place["instance"]}
    return way.model_copy(update={"generator_zone": own_zone(), **told})
