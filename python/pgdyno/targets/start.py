"""A server's start at a port that nobody has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pgdyno.errors import TargetError
from pgdyno.targets.endpoint import free_port
from pgdyno.targets.log import log_size
from pgdyno.targets.postmaster import Deadlines, PortTakenError, Postmaster
from pgdyno.targets.signals import signals_deferred

PORT_ATTEMPTS = 5


def start_at_free_port(
    postmaster: Postmaster,
    configure: Callable[[int], None],
    launch: Callable[[], None],
    settings: Mapping[str, str],
    wanted_port: int | None,
) -> int:
    """Starts the server and waits until it is ready: at `wanted_port` if that is free. The port that it has.

    `configure` writes a port into its configuration, `launch` starts the process; `settings` are the plan's, which
    it may die of. Raises TargetError.
    """
    reason = ""
    for attempt in range(PORT_ATTEMPTS):
        port = wanted_port if wanted_port is not None and attempt == 0 else free_port()
        configure(port)
        offset = log_size(postmaster.log_path)
        launch()
        try:
            postmaster.wait_ready(offset, settings)
        except PortTakenError as taken:
            reason = str(taken)
            with signals_deferred():
                postmaster.stop(Deadlines())
            continue
        return port
    version = postmaster.installation.version
    raise TargetError(f"cannot start PostgreSQL {version}: {PORT_ATTEMPTS} ports were taken: {reason}")
