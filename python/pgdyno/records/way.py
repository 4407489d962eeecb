"""From the load to the server: where both stood, and how far they were from each other."""

from __future__ import annotations

from pgdyno.records.base import Record


class WayRecord(Record):
    """As it was found just before a trial; of several rented generators each has its own in `generator.hosts`."""

    round_trips: int
    """How many statements were sent, one after the other, over one connection."""
    generator: str | None = None
    """Of several rented generators the farthest from the server, from where they were sent, and its host."""
    least_us: float
    """The quickest of them: there and back, and a server that only answers."""
    median_us: float
    clock_ahead_us: int | None = None
    """By how much the server's clock was ahead of the generator's, also where that is rented; negative: behind."""
    clock_uncertainty_us: int | None = None
    """Half of the quickest round trip in which it was asked for; with a rented generator, that of both clocks."""
    generator_zone: str | None = None
    """Availability zone of the machine that the load came from, of several the farthest; None: it is none of Amazon's,
    or does not tell."""
    server_zone: str | None = None
    """None: the server was not rented for the run."""
    instance: str | None = None
    """The class that was rented: of `instead`, perhaps."""
    cpu_model: str | None = None
    """As the server itself sees it; None where it lets nobody look."""
