"""`pgdyno serve` as a process: where it listens, and who learns its token."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from pgdyno.errors import ExitCode
from tests.present import present
from tests.run_program import BIN
from tests.waiting import wait_until

PATIENCE_S = 120


@contextmanager
def serving(
    folder: Path, listen: str, *, command: Sequence[str | Path] = (BIN / "pgdyno", "serve", "runs")
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Returns the process and its first output; later output is left in its pipe."""
    (folder / "runs").mkdir(exist_ok=True)
    with subprocess.Popen(
        [*command, f"--listen={listen}"], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            said = ""
            while "http://" not in said:
                line = present(process.stdout).readline()
                assert line, said
                said += line
            yield process, said
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == ExitCode.OK
    return rest


def address_in(said: str) -> str:
    return present(re.search(r"http://\S+", said))[0]


def test_by_default_only_this_machine_reaches_it(tmp_path: Path) -> None:
    with serving(tmp_path, ":0") as (process, said):
        url = address_in(said)
        assert urlsplit(url).hostname == "127.0.0.1"
        assert "#" not in url
        assert httpx2.get(url, timeout=PATIENCE_S).status_code == 200
        with pytest.raises(ConnectionRefusedError):
            # another loopback address stands for any other one of this machine
            socket.create_connection(("127.0.0.2", urlsplit(url).port or 0), timeout=PATIENCE_S)
        ended(process)


def test_the_token_is_said_once_and_logged_nowhere(tmp_path: Path) -> None:
    with serving(tmp_path, "0.0.0.0:0") as (process, said):
        address, _, token = address_in(said).partition("#")
        assert len(token) >= 32
        assert token not in Path(f"/proc/{process.pid}/cmdline").read_text()
        host = f"http://127.0.0.1:{urlsplit(address).port}"
        with httpx2.Client(base_url=host, headers={"origin": host}, timeout=PATIENCE_S) as client:
            assert client.get(f"/?token={token}").status_code == 303
            assert client.post("/enter", data={"token": f"{token}x"}).status_code == 401
            client.post("/enter", data={"token": token})
            assert client.get("/runs/none/index.html").status_code == 404
        assert (said + ended(process)).count(token) == 1


ENDLESS = """
import sys, threading
from pathlib import Path
from pgdyno.live.run_pages import RunPages

def wait(self, request):
    Path("asked").touch()
    threading.Event().wait()

RunPages.run = wait
sys.argv[0] = "pgdyno"
from pgdyno.__main__ import main
main()
"""


def test_it_ends_while_a_report_is_in_progress_and_prints_nothing(tmp_path: Path) -> None:
    command = (sys.executable, "-c", ENDLESS, "serve", "runs")
    with serving(tmp_path, ":0", command=command) as (process, said):
        port = urlsplit(address_in(said)).port or 0
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as asking:
            asking.sendall(f"GET /runs/x/index.html HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            wait_until((tmp_path / "asked").exists)
            assert ended(process) == ""
