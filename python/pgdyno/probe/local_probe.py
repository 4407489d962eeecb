"""Runs pgprobe during a trial. Its failure does not end the trial."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from pgdyno.errors import EngineError
from pgdyno.plan.optional_sections import ProbeSpec
from pgdyno.programs import locate
from pgdyno.run.process import without_libpq

PROGRAM = "pgprobe"
ENVIRONMENT = "PGDYNO_PGPROBE"
STOP_S = 3.0
"""How long a probe may take to stop before it is killed."""
READY_S, LOOK_S = 15.0, 0.05
"""How long a trial waits for a remote probe to begin, and the polling interval."""


class LocalProbe:
    """A probe that runs during the block.

    It writes directly into a file, so that pgdyno does no work for it during the trial.
    """

    def __init__(
        self,
        spec: ProbeSpec,
        environment: Mapping[str, str],
        data_directory: Path | None,
        lines: Path,
        log: Path,
        through: Sequence[str] = (),
    ) -> None:
        """Writes to `lines`, and errors to `log`; `through` precedes the command if it runs remotely.

        `environment` are libpq's variables of the server; a server over the network has no `data_directory`.
        """
        self.options = _options(spec, data_directory)
        """pgprobe's options; None if nothing is sampled."""
        self._environment = environment
        self._lines, self._log, self._through = lines, log, through
        self._process: subprocess.Popen[bytes] | None = None
        self._broke_off = False
        self.problem: str | None = None
        """Why samples are missing; None if they are complete, or if none are wanted."""

    def __enter__(self) -> LocalProbe:
        """Starts it; waits for a remote one to sample or end. Raises nothing: see `problem`."""
        if self.options is None:
            return self
        try:
            program = locate(PROGRAM, ENVIRONMENT, "the probe")
            with ExitStack() as files:
                self._process = subprocess.Popen(
                    [*self._through, program, *self.options],
                    stdin=subprocess.PIPE,
                    stdout=files.enter_context(self._lines.open("wb")),
                    stderr=files.enter_context(self._log.open("wb")),
                    env=without_libpq(os.environ) | dict(self._environment),
                    # Ctrl-C is for pgdyno alone
                    start_new_session=True,
                )
        except EngineError as error:
            self.problem = error.message
        except OSError as error:
            self.problem = f"cannot start the probe: {error}"
        if self._through:
            self._wait()
        return self

    def _wait(self) -> None:
        """Waits for a remote probe, which must connect and may have to be copied first."""
        process, end = self._process, time.monotonic() + READY_S
        while process is not None and process.poll() is None and time.monotonic() < end:
            if self._lines.stat().st_size > 0:
                return
            time.sleep(LOOK_S)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is None:
            return
        self._broke_off = process.poll() is not None
        if not self._broke_off:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        assert process.stdin is not None
        process.stdin.close()
        if self._broke_off or process.returncode != 0:
            when = "before the trial's end" if self._broke_off else "when it was told to end"
            self.problem = f"the probe ended {when}, with exit code {process.returncode}{self._stderr_text()}"

    def _stderr_text(self) -> str:
        try:
            lines = self._log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return f": {lines[-1]}" if lines else ""


def _options(spec: ProbeSpec, data_directory: Path | None) -> list[str] | None:
    local = data_directory is not None
    host, server = spec.host and local, spec.server
    if not spec.enabled or not (host or server):
        return None
    options = ["--parent-lease", f"--waits-hz={spec.hz(local=local)}"]
    options += [f"--data={data_directory}", *spec.log_options()] if host else ["--no-host"]
    return [*options, f"--statements={spec.statements}"] if server else [*options, "--no-server"]
