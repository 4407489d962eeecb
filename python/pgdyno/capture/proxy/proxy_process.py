"""The proxy of a capture: `pgdrive --proxy`, started, watched and stopped."""

import json
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pgdyno.errors import EngineError, UsageError
from pgdyno.messages import Message
from pgdyno.programs import Engine
from pgdyno.units import format_size, quantity

START_S = 20.0
STOP_S = 40.0
"""pgdrive ends sessions that are idle after 10 s, and all after 20 s."""
RESERVE_BYTES = 64 << 20


class ProxyProcess:
    """Records the sessions that connect to `listen` and go on to the server of `dsn`."""

    def __init__(
        self, engine: Engine, listen: str, dsn: str, records: Path, most_bytes: int, options: Sequence[str] = ()
    ) -> None:
        self.records = records
        self.address = listen
        """Where it listens; the port is known when it has begun."""
        self._command = [*engine.command, f"--proxy={listen}", f"--record={records}", "--parent-lease", *options, dsn]
        self._most_bytes = most_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._state: dict[str, Any] = {}
        self._listening = threading.Event()
        self._is_stopping = False
        self._ended_because: str | None = None

    # ---- what a recording calls ----

    def begin(self) -> None:
        """Start it. Raises UsageError if it cannot listen, EngineError."""
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Ctrl-C is for pgdyno alone
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"cannot start the proxy: {error}") from error
        threading.Thread(target=self._read, args=(self._process,), name="proxy", daemon=True).start()
        end_s = time.monotonic() + START_S
        while not self._listening.wait(0.05):
            if self._process.poll() is not None:
                message, _, hint = self._stderr().partition("hint: ")
                raise UsageError(f"--proxy: {message.strip() or 'pgdrive ended'}", hint=hint.strip() or None)
            if time.monotonic() > end_s:
                raise EngineError("the proxy does not start")

    def step(self, *, last: bool) -> bool:
        """Look whether it may go on recording; with `last`, stop it and wait until sessions have ended."""
        assert self._process is not None
        if self._process.poll() is not None and not self._is_stopping:
            self._ended_because = f"the proxy ended: {self._stderr() or f'exit code {self._process.returncode}'}"
            return False
        if self._ended_because is None and (reason := self._reason_to_end()) is not None:
            self._ended_because = reason
            with suppress(OSError):
                assert self._process.stdin is not None
                self._process.stdin.write(b"end recording\n")
                self._process.stdin.flush()
        if last:
            self._is_stopping = True
            self._signal()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
            self.close()
        # the application goes on, whatever became of its records
        return not (last and self._ended_because)

    def reconnect(self) -> None:
        """Nothing: the proxy connects for its clients only."""

    def progress(self) -> str:
        """Return what was recorded, in a few words."""
        said = [
            f"{quantity(self._count('statements'), 'statement')} recorded",
            format_size(self._count("recorded_bytes")),
        ]
        if self._is_stopping:
            sessions = quantity(self._count("open"), "session")
            said.append(f"waiting for {sessions} to end: 10 s for idle ones, 20 s for others")
        elif self._ended_because is not None:
            said.append(f"recording ended ({self._ended_because})")
        return ", ".join(said)

    # ---- the end ----

    def hurry(self) -> None:
        """End sessions that are idle now, and others in 10 s, if it was told to stop."""
        if self._is_stopping:
            self._signal()

    def close(self) -> None:
        """End it at once, if it has not ended."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def notes(self) -> Iterator[Message]:
        """Yield what it could not record or relay."""
        if self._ended_because is not None:
            yield Message(
                "proxy-recording-ended",
                "the recording ended before the proxy: {reason}; sessions went on",
                reason=self._ended_because,
            )
        if count := self._count("refused"):
            yield Message(
                "proxy-channel-binding",
                "{count} client was refused, because its SCRAM is bound to the channel: set channel_binding=disable",
                "{count} clients were refused, because their SCRAM is bound to the channel: set"
                " channel_binding=disable",
                count=count,
            )
        if count := self._count("cut"):
            yield Message(
                "proxy-cut",
                "{count} session was ended within a transaction, after 20 s: the server rolled it back",
                "{count} sessions were ended within a transaction, after 20 s: the server rolled them back",
                count=count,
            )
        if reason := self._state.get("unreachable"):
            yield Message("proxy-unreachable", "the proxy could not reach the server: {reason}", reason=reason)

    def _reason_to_end(self) -> str | None:
        if failure := self._state.get("failure"):
            return f"cannot write {self.records}: {failure}"
        recorded = self._count("recorded_bytes")
        if recorded > self._most_bytes:
            return "it reached the limit of --max-size"
        # reading the records takes about their size again
        if shutil.disk_usage(self.records.parent).free < recorded + RESERVE_BYTES:
            return f"the disk of {self.records.parent} has no more room than the records need to be read"
        return None

    def _signal(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def _count(self, name: str) -> int:
        return int(self._state.get(name, 0))

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "listening":
                self.address = event["address"]
                self._listening.set()
            else:
                self._state = event

    def _stderr(self) -> str:
        assert self._process is not None
        assert self._process.stderr is not None
        text = self._process.stderr.read().decode(errors="replace").strip()
        return text.replace("pgdrive: error: ", "").replace("pgdrive: hint", "hint")
