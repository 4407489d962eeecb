"""Samples a server every second, and combines the last seconds into frames."""

import os
import time
from collections import deque
from collections.abc import Generator

from pgdyno.watch.find_server import Place, WatchedServer
from pgdyno.watch.frame import Frame, frame_of
from pgdyno.watch.polling import Polling
from pgdyno.watch.probe_stream import ProbeStream, Samples

WAKE_S = 0.2
"""How often lines are read: a full pipe would delay the probe."""
LATE_S = 0.5
"""How long after a second's end its samples may arrive."""


def frames(
    found: WatchedServer, waits_hz: int | None, interval: int, notes: dict[str, None], *, queries: bool
) -> Generator[Frame]:
    """Yield a frame of the last `interval` seconds every second, from the first one that has rates.

    `notes` receives what is missing, each once. Raises EngineError if the probe is missing or ends.
    """
    if found.place is None:
        notes["the server's host is not visible: no CPU, disks and processes"] = None
    elif found.place.data_directory is None:
        notes["the server's data directory is unknown: its disk is not distinguished from others"] = None
    samples = Samples(deque([[]], maxlen=interval), notes)
    environment = found.address.environment(found.database)
    with Polling(found) as polling:
        while True:
            place, number = polling.place, 0
            with ProbeStream(found.probe_options(place, waits_hz), environment) as stream:
                # it has another place when the server has started anew
                while polling.place == place:
                    for line in (*stream.lines(), *polling.take_lines()):
                        samples.take(line)
                    before, number = number, int(stream.now_s - LATE_S)
                    if number > before:
                        if number > 1:
                            away = samples.away(stream.now_s)
                            figures = frame_of(samples, time.time(), polling.texts, away=away, queries=queries)
                            server = {"server": found.title, "server_version": samples.version}
                            yield {**figures, **server, "processors": _processors(place, samples)}
                        samples.recent.append([])
                        polling.wanted = frozenset(
                            row["labels"].get("query_id", "") for row in samples.rows("statements")
                        )
                    time.sleep(WAKE_S)


def _processors(place: Place | None, samples: Samples) -> float | None:
    """Return the cores that the server may use: of its affinity or cpuset, or fewer by its control group's quota."""
    if place is None:
        return None
    try:
        cores = float(len(os.sched_getaffinity(place.postmaster)))
    except OSError:
        # it has ended
        cores = float(os.cpu_count() or 1)
    limits: list[float] = [row["values"].get("cpu_limit", cores) for row in samples.rows("cgroup")]
    return min([cores, *limits])
