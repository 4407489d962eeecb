"""Commands of a plan: a Ctrl-C at any moment ends them."""

import signal
import subprocess
from pathlib import Path

import pytest

from pgdyno.run.hook_command import Hook, run_hook


def test_ctrl_c_while_a_hook_starts_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **kwargs)  # type: ignore[call-overload]
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_hook(Hook("before_run", ["sleep", "600"], tmp_path, 600.0), {}, tmp_path / "log")
    (process,) = started
    ended = process.poll()
    process.kill()
    assert ended == -signal.SIGTERM
