"""An HTTP endpoint at which Prometheus scrapes a running experiment."""

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import start_http_server
from prometheus_client.registry import CollectorRegistry

from pgdyno.errors import EngineError, UsageError
from pgdyno.metrics.catalogue import read_catalogue
from pgdyno.metrics.meter import Meter
from pgdyno.report.run_events import EngineReported, Noted, RunBegan, RunEvent, TrialEnded, TrialStarted
from pgdyno.report.terminal.progress import LiveView

LOOPBACK = "127.0.0.1"
_HIGHEST_PORT = 65535


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `127.0.0.1:9187`, `[::1]:9187`, or a port alone (on loopback). Raises UsageError."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or LOOPBACK
    try:
        ipaddress.ip_address(host)
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number <= _HIGHEST_PORT:
        raise UsageError(
            f"--metrics needs an address and a port, not {text!r}",
            hint="127.0.0.1:9187, [::1]:9187, or only 9187; 0.0.0.0:9187 is open to everybody who reaches this host",
        )
    return host, number


@contextmanager
def open_endpoint(view: LiveView, address: str | None) -> Iterator[LiveView]:
    """Yield `view` with an endpoint at `address` while the block lasts; unchanged if that is None.

    Raises UsageError if the address is not available.
    """
    if address is None:
        yield view
        return
    host, port = parse_address(address)
    try:
        catalogue = read_catalogue()
    except EngineError:
        # without a probe, its figures are missing: the run itself reports that
        catalogue = None
    meter = Meter(catalogue)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(meter)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise UsageError(f"cannot listen at {address}: {error.strerror}", hint="choose another port") from error
    try:
        shown = f"[{host}]" if ":" in host else host
        view.event(Noted(f"metrics: http://{shown}:{server.server_port}/metrics"))
        yield MeteredView(view, meter)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class MeteredView(LiveView):
    """Updates a meter from events and passes each on to another view, which its maker enters and leaves."""

    def __init__(self, view: LiveView, meter: Meter) -> None:
        """Pass events on to `view`."""
        self._view = view
        self._meter = meter
        self._folder: Path | None = None
        self._slugs: dict[int, str] = {}

    def event(self, event: RunEvent) -> None:
        """Update the meter, then pass the event on."""
        match event:
            case RunBegan(folder, trials):
                self._folder = folder
                self._slugs = {each.number: each.slug for each in trials}
                self._meter.run_began(folder.name)
            case TrialStarted(number=number):
                # the trial's probe writes into the folder in which the trial is gathered
                slug = self._slugs.get(number) or self._find_slug(number)
                lines = self._folder / f".{slug}.partial" / "probe.jsonl" if self._folder is not None and slug else None
                self._meter.trial_started(number, slug, lines)
            case EngineReported(reported):
                self._meter.handle(reported)
            case TrialEnded(outcome=outcome):
                self._meter.trial_ended(outcome.value)
        self._view.event(event)

    def _find_slug(self, number: int) -> str:
        """Return the slug of a trial of a search, which `RunBegan` does not name; empty if there is none."""
        found = self._folder.glob(f".{number:04d}-*.partial") if self._folder is not None else iter(())
        return next((path.name[1:].removesuffix(".partial") for path in found), "")
