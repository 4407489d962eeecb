"""A real sshd on a port of the loopback address with its own keys, which neither reads nor writes ~/.ssh."""

import getpass
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgdyno.plan.hosts import SshSpec
from tests.ports import reserved_port
from tests.waiting import PATIENCE_S

SSHD = "/usr/sbin/sshd"
"""sshd requires that it is started by its absolute path."""
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
"""Debian's libfaketime, which gives the programs of a session another clock."""


def keygen(file: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(file)], check=True)


@dataclass(frozen=True)
class Sshd:
    """A running sshd."""

    folder: Path
    address: str
    port: int
    process: subprocess.Popen[bytes]

    @property
    def config(self) -> Path:
        return self.folder / "config"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def spec(self, **changes: object) -> SshSpec:
        """How to log in."""
        given: dict[str, object] = {
            "host": self.address, "port": self.port, "config": str(self.config), "known_hosts": str(self.known_hosts),
            "folder": str(self.cache),
        }  # fmt: skip
        return SshSpec.model_validate(given | changes)

    def know(self, port: int) -> None:
        key = (self.folder / "host.pub").read_text()
        with self.known_hosts.open("a") as file:
            file.write(f"[{self.address}]:{port} {key}")


@contextmanager
def running_sshd(
    folder: Path, *, address: str = "127.0.0.1", lines: Sequence[str] = (), within: Sequence[str] = ()
) -> Iterator[Sshd]:
    """Runs an sshd that accepts the key of the client's configuration; `lines` are added to the sshd's own.

    `within` is a command prefix, such as `ip netns exec NAME`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("host", "user"):
        keygen(folder / name)
    (folder / "authorized").write_text((folder / "user.pub").read_text())
    me = getpass.getuser()
    (folder / "config").write_text(f"Host *\n  User {me}\n  IdentityFile {folder / 'user'}\n  IdentitiesOnly yes\n")
    (folder / "known_hosts").write_text("")
    with reserved_port() as port:
        process = start_sshd(folder, address, port, lines, within)
        sshd = Sshd(folder, address, port, process)
        sshd.know(port)
        try:
            yield sshd
        finally:
            process.terminate()
            process.wait()


SET_ENV = "SetEnv "


def start_sshd(
    folder: Path, address: str, port: int, lines: Sequence[str] = (), within: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """Starts an sshd with the key `host` of the folder, which accepts the keys in `authorized`."""
    if os.geteuid() == 0:
        # as its init script does
        Path("/run/sshd").mkdir(exist_ok=True)
    # at this level bash does not read the .bashrc of whoever runs the tests, which may start more than the command
    # does; of several such lines, sshd follows the first
    variables = ["SHLVL=1", *(line.removeprefix(SET_ENV) for line in lines if line.startswith(SET_ENV))]
    (folder / "sshd_config").write_text(
        "\n".join(
            [
                f"ListenAddress {f'[{address}]' if ':' in address else address}:{port}",
                f"HostKey {folder / 'host'}",
                f"AuthorizedKeysFile {folder / 'authorized'}",
                f"PidFile {folder / 'pid'}",
                "PasswordAuthentication no",
                "KbdInteractiveAuthentication no",
                "StrictModes no",
                "UsePAM no",
                f"SetEnv {' '.join(variables)}",
                *(line for line in lines if not line.startswith(SET_ENV)),
                "",
            ]
        )
    )
    with (folder / "sshd.log").open("wb") as log:
        process = subprocess.Popen([*within, SSHD, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log)
    deadline = time.monotonic() + PATIENCE_S
    while "Server listening" not in (said := (folder / "sshd.log").read_text()):
        assert process.poll() is None, said
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process
