"""The network path from the load to the server: the zones of both, and the round-trip time."""

from __future__ import annotations

from pgdyno.records.base import Record


class WayRecord(Record):
    """Measured directly before a trial; for several rented generators, each has its own in `generator.hosts`."""

    round_trips: int
    """The number of statements that were sent, one after the other, over one connection."""
    generator: str | None = None
    """For several rented generators, the one farthest from the server, with its host."""
    least_us: float
    """The fastest of them, including the server's time for an empty answer."""
    median_us: float
    clock_ahead_us: int | None = None
    """How far the server's clock was ahead of the generator's, even if that is rented; negative: behind."""
    clock_uncertainty_us: int | None = None
    """Half of the fastest round trip in which it was read; with a rented generator, the sum for both clocks."""
    generator_zone: str | None = None
    """Availability zone of the machine that the load came from, of several the farthest; None: it was not
    rented, or its provider does not report it."""
    server_zone: str | None = None
    """None if the server was not rented for the run."""
    instance: str | None = None
    """The rented class, possibly one of `instead`."""
    cpu_model: str | None = None
    """As reported on the server itself; None if that is not accessible."""
