"""An address where Prometheus and its kin find a running experiment's figures."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from prometheus_client import start_http_server
from prometheus_client.registry import CollectorRegistry

from pgdyno.errors import EngineError, UsageError
from pgdyno.metrics.catalogue import read_catalogue
from pgdyno.metrics.meter import Meter
from pgdyno.records import Outcome
from pgdyno.report.live import LiveView, Planned

LOOPBACK = "127.0.0.1"
_HIGHEST_PORT = 65535


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:9187`, `[::1]:9187`, or a port alone, which is on loopback. Raises UsageError."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or LOOPBACK
    try:
        ipaddress.ip_address(host)
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number <= _HIGHEST_PORT:
        raise UsageError(
            f"--metrics wants an address and a port, not {text!r}",
            hint="127.0.0.1:9187, [::1]:9187, or 9187 alone; 0.0.0.0:9187 is open to everybody who reaches this host",
        )
    return host, number


@contextmanager
def metered(view: LiveView, address: str | None) -> Iterator[LiveView]:
    """`view`, whose run is served at `address` while the block lasts; as it is when that is None.

    Raises UsageError when nobody can listen there.
    """
    if address is None:
        yield view
        return
    host, port = parse_address(address)
    try:
        catalogue = read_catalogue()
    except EngineError:
        # no probe, no figures of it: the run itself says so
        catalogue = None
    meter = Meter(catalogue)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(meter)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise UsageError(f"cannot listen at {address}: {error.strerror}", hint="choose another port") from error
    try:
        told = MeteredView(view, meter)
        shown = f"[{host}]" if ":" in host else host
        view.note(f"metrics: http://{shown}:{server.server_port}/metrics")
        yield cast("LiveView", told)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class MeteredView:
    """A view that tells a meter what it hears, and hands everything on to another one."""

    def __init__(self, view: LiveView, meter: Meter) -> None:
        """Hands on to `view`."""
        self._view = view
        self._meter = meter
        self._folder: Path | None = None
        self._slugs: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else a view has
        """All that a meter need not know."""
        return getattr(self._view, name)

    def __enter__(self) -> Self:
        """The view's own begin is whoever made it's."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Likewise its end."""

    def run_began(self, folder: Path, trials: Sequence[Planned]) -> None:
        """The run has its folder."""
        self._folder = folder
        self._slugs = {each.number: each.slug for each in trials}
        self._meter.run_began(folder.name)
        self._view.run_began(folder, trials)

    def trial_started(
        self, number: int, total: int, label: str, seconds: float | None, later: int | None = None
    ) -> None:
        """A trial begins; the probe beside it writes into the folder where the trial is gathered."""
        slug = self._slugs.get(number) or self._found(number)
        lines = self._folder / f".{slug}.partial" / "probe.jsonl" if self._folder is not None and slug else None
        self._meter.trial_started(number, slug, lines)
        self._view.trial_started(number, total, label, seconds, later)

    def heard(self, event: Any) -> None:  # noqa: ANN401 - as the engine says it
        """The engine said this."""
        self._meter.heard(event)
        self._view.heard(event)

    def trial_ended(self, outcome: Outcome, tps: float | None, p99_ms: float | None) -> None:
        """The trial is over."""
        self._meter.trial_ended(outcome.value)
        self._view.trial_ended(outcome, tps, p99_ms)

    def _found(self, number: int) -> str:
        """The slug of a trial that was not known in the beginning, as those of a search are not."""
        found = self._folder.glob(f".{number:04d}-*.partial") if self._folder is not None else iter(())
        return next((path.name[1:].removesuffix(".partial") for path in found), "")
