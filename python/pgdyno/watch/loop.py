"""The main loop: reads a server every second and updates the view."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack

from pgdyno.watch.find_server import Connection, Found, Place
from pgdyno.watch.frame import History, last
from pgdyno.watch.polling import Polling
from pgdyno.watch.probe_stream import ProbeStream, Second, Seconds
from pgdyno.watch.views import View

STOPPED_S = 10.0
"""An iteration takes a fifth of a second: after this long without one, pending lines are discarded."""


def watch(found: Found, connection: Connection, waits_hz: int | None, history: History, view: View) -> None:
    """Update `view` every second until it ends. Raises EngineError if the probe is missing or ends."""
    password = found.parameters.get("password")
    environment = {} if password is None else {"PGPASSWORD": str(password)}
    seconds, place, turned_s = Seconds(dict.fromkeys(_notes(found.place))), found.place, time.monotonic()
    with ExitStack() as probes, Polling(found, connection) as polling, view:
        stream = probes.enter_context(ProbeStream(found.probe_options(place, waits_hz), environment))
        history.texts = polling.texts
        while True:
            before_s, turned_s = turned_s, time.monotonic()
            # the server has started anew, or this process was suspended (Ctrl-Z, a sleeping laptop)
            if polling.place != place or turned_s - before_s > STOPPED_S:
                place = polling.place
                probes.close()
                seconds = Seconds(seconds.notes, seconds.version)
                stream = probes.enter_context(ProbeStream(found.probe_options(place, waits_hz), environment))
            for line in stream.lines():
                seconds.take(line)
            for second in seconds.finished(stream.now_s):
                second.samples["databases"], second.sessions = polling.take_increases(), polling.sessions
                server = {"server": found.title, "server_version": seconds.version}
                history.server = {**server, "processors": _processors(place, second)}
                history.add(second)
                view.second(history)
            polling.want(history.query_ids())
            view.notes(list(seconds.notes))
            if not view.wait():
                return


def _notes(place: Place | None) -> list[str]:
    if place is None:
        return ["the server's host is not visible: no CPU, disks and processes"]
    if place.data_directory is None:
        return ["the server's data directory is unknown: its disk is not distinguished from others"]
    return []


def _processors(place: Place | None, second: Second) -> float | None:
    """Return the cores that the server may use: of its affinity or cpuset, or fewer by its control group's quota."""
    if place is None:
        return None
    try:
        cores = float(len(os.sched_getaffinity(place.postmaster)))
    except OSError:
        # it has ended
        cores = float(os.cpu_count() or 1)
    limit = last(second.samples.get("cgroup", ()), "cpu_limit")
    return cores if limit is None else min(cores, limit)
