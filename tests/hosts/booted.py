"""Hosts that boot at the addresses of the simulated EC2: their own systemd and cloud-init process the real user data.

Each is a set of namespaces over a Debian tree, with loop devices as volumes, on a bridge of this machine. The
differences from EC2: the kernel is this machine's, the network exists before the boot, and nvme.c answers for NVMe
controllers. Only root can create these hosts.
"""

import base64
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.targets import Home
from tests.aws.ec2 import Machine
from tests.aws.host_interface import Hosts
from tests.hosts.metadata import ADDRESS as METADATA
from tests.hosts.mirror import Mirror, mirror
from tests.hosts.tree import image
from tests.present import present

HERE = Path(__file__).parent
GIB = 1 << 30
NETWORK = f"198.18.{os.getpid() % 250}"
"""The range that RFC 2544 reserves for benchmarks; every process of tests uses another network in it."""
_EBS, _LOCAL = "Amazon Elastic Block Store", "Amazon EC2 NVMe Instance Storage"
_BYTES, _VENDORS = 4096, 3072


def identity(model: str, serial: str, device: str) -> bytes:
    """Returns the identity data of Amazon's NVMe controller, whose vendor-specific part has the requested device
    name.
    """
    own = bytearray(_BYTES)
    own[0:2] = (0x1D0F).to_bytes(2, "little")
    own[4:24] = serial.encode().ljust(20)
    own[24:64] = model.encode().ljust(40)
    own[_VENDORS : _VENDORS + 32] = device.encode().ljust(32)
    return bytes(own)


@dataclass
class Booted:
    """One host that has booted."""

    folder: Path
    address: str
    process: subprocess.Popen[bytes]
    metadata: Path
    """The folder of files that its metadata service serves."""
    telling: subprocess.Popen[bytes] | None = None
    """The process of its metadata service."""

    def end(self) -> None:
        for process in (self.process, self.telling):
            if process is not None:
                process.kill()
                process.communicate()

    @property
    def changed(self) -> Path:
        return self.folder / "changed"

    @property
    def init(self) -> int:
        (child,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(child)

    def run(self, command: str, *, check: bool = True) -> str:
        enter = ["nsenter", "-t", str(self.init), "-a", "-r", "-w", "bash", "-c", command]
        done = subprocess.run(enter, capture_output=True, text=True, check=False, timeout=300)
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}\n{self.log()}"
        return (done.stdout + done.stderr).strip()

    def log(self) -> str:
        file = self.changed / "var/log/pgdyno-setup.log"
        return file.read_text() if file.exists() else ""

    def has_ended(self, within_s: float = 120) -> bool:
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True


@dataclass
class BootedHosts(Hosts):
    """The hosts of one account."""

    image: Path
    """The folder of `tests.hosts.tree`."""
    folder: Path
    mirror: Mirror
    bridge: str
    gateway: str = f"{NETWORK}.1"
    """This machine's address in the hosts' network."""
    known: dict[str, Booted] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    """Devices that are never attached."""
    prepare: dict[str, str | bytes] = field(default_factory=dict)
    """Additional files of the images, by path."""
    _loops: dict[str, list[str]] = field(default_factory=dict)

    def booted(self, machine: Machine) -> str:
        folder = self.folder / machine.id
        folder.mkdir()
        address = f"{NETWORK}.{machine.number + 10}"
        self._own(machine, folder)
        (folder / "devices").write_text("".join(self._volumes(machine, folder)))
        metadata = folder / "metadata"
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--uts", "--ipc"]
        command += ["bash", str(HERE / "boot.sh"), str(self.image / "tree"), str(folder), self._group(machine.id)]
        with (folder / "stderr").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log)
        host = Booted(folder, address, process, metadata)
        self.known[machine.id] = host
        self._connect(host, machine.number)
        self.tagged(machine)
        present(process.stdin).write(b"go\n")
        present(process.stdin).close()
        return address

    def console(self, machine: Machine) -> str:
        return (self.folder / machine.id / "console").read_text(errors="replace")

    def ended(self, machine: Machine) -> None:
        self._end(machine.id)

    def stop(self) -> None:
        for each in [*self.known]:
            self._end(each)

    def _end(self, id_: str) -> None:
        if id_ in self.known:
            self.known.pop(id_).end()
            _remove_group(self._group(id_))
        for loop in self._loops.pop(id_, []):
            execute("losetup", "-d", loop)

    def _group(self, id_: str) -> str:
        return f"{self.bridge}-{id_}"

    def tagged(self, machine: Machine) -> None:
        place = self.folder / machine.id / "metadata/meta-data/tags/instance"
        place.mkdir(parents=True, exist_ok=True)
        for name, value in machine.tags.items():
            (place / name).write_text(value)

    def _own(self, machine: Machine, folder: Path) -> None:
        """Writes the files in which this host differs from the tree."""
        seed = "var/lib/cloud/seed/nocloud"
        preload = '#!/bin/sh\nLD_PRELOAD=/usr/local/lib/nvme.so exec /usr/sbin/nvme "$@"\n'
        way = f'Acquire::http::Proxy "{self.mirror.url}";\nAcquire::https::Proxy "DIRECT";\n'
        files: dict[str, str | bytes] = {
            f"{seed}/user-data": base64.b64decode(machine.asked["UserData"]).decode(),
            f"{seed}/meta-data": f"instance-id: {machine.id}\nlocal-hostname: host\n",
            "etc/apt/apt.conf.d/00mirror": way,
            "usr/local/sbin/nvme": preload,
            **self.prepare,
        }
        for path, text in files.items():
            file = folder / "own" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode() if isinstance(text, str) else text)
        (folder / "own/usr/local/sbin/nvme").chmod(0o755)
        library = folder / "own/usr/local/lib/nvme.so"
        library.parent.mkdir(parents=True, exist_ok=True)
        execute("cc", "-shared", "-fPIC", "-O", "-Wall", "-Werror", "-o", str(library), str(HERE / "nvme.c"), "-ldl")
        (folder / "own/etc/ebs").mkdir(parents=True)

    def _volumes(self, machine: Machine, folder: Path) -> Iterator[str]:
        """Returns lines of boot.sh that attach the volumes, in another order than the request's."""
        asked = machine.asked["BlockDeviceMappings"]
        root, others = asked[0], [each for each in asked[1:] if each["DeviceName"] not in self.absent]
        # local storage of the instance stands before what was asked for, which comes the other way round
        disks = [(root["DeviceName"], root["Ebs"]["VolumeSize"], _EBS), ("ephemeral0:none", 1, _LOCAL)]
        disks += [(each["DeviceName"], each["Ebs"]["VolumeSize"], _EBS) for each in reversed(others)]
        loops = self._loops.setdefault(machine.id, [])
        for number, (name, size, model) in enumerate(disks):
            image = folder / f"volume{number}"
            with image.open("wb") as file:
                file.truncate(size * GIB)
            loops.append(execute("losetup", "--find", "--show", str(image)))
            device = Path(loops[-1]).stat().st_rdev
            place = f"{os.major(device)}:{os.minor(device)}"
            # of some it is told with /dev/, of some without
            told = name if number % 2 else name.removeprefix("/dev/")
            (folder / "own/etc/ebs" / place).write_bytes(identity(model, f"vol0{number:016x}", told))
            yield f"nvme{number}n1 {place.replace(':', ' ')}\n"

    def _connect(self, host: Booted, number: int) -> None:
        end, pid = f"{self.bridge}-{number}", str(host.process.pid)
        within = ("nsenter", "-t", pid, "-n")
        _wait_for_namespace(host.process)
        execute("ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", pid)
        execute("ip", "link", "set", end, "master", self.bridge, "up")
        for command in (
            f"addr add {host.address}/24 dev eth0",
            f"addr add {METADATA}/32 dev lo",
            "link set lo up",
            "link set eth0 up",
            f"route add default via {self.gateway}",
        ):
            execute(*within, "ip", *command.split())
        program = [*within, sys.executable, str(HERE / "metadata.py"), str(host.metadata)]
        host.telling = subprocess.Popen(program, stdout=subprocess.PIPE)
        assert present(host.telling.stdout).readline() == b"listening\n"


@contextmanager
def booted_hosts(home: Home, folder: Path) -> Iterator[BootedHosts]:
    """Yields an account without hosts, and removes all hosts after the block."""
    with ExitStack() as stack:
        bridge = f"pgd{os.getpid() % 100_000}"
        execute("ip", "link", "add", bridge, "type", "bridge")
        stack.callback(execute, "ip", "link", "delete", bridge)
        execute("ip", "addr", "add", f"{NETWORK}.1/24", "dev", bridge)
        execute("ip", "link", "set", bridge, "up")
        way = stack.enter_context(mirror(f"{NETWORK}.1", home.root / "hosts" / "packages"))
        hosts = BootedHosts(image(home), folder, way, bridge)
        stack.callback(hosts.stop)
        yield hosts


def _remove_group(name: str) -> None:
    """Removes the group and those of systemd's units below it; its last processes may still be ending."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    places = [Path(place) / name for _, place, kind, *_ in mounts if kind == "cgroup2"]
    deadline = time.monotonic() + 60
    for place in places:
        while place.exists():
            try:
                for each in sorted((each for each in place.rglob("*") if each.is_dir()), reverse=True):
                    each.rmdir()
                place.rmdir()
            except OSError:
                assert time.monotonic() < deadline, f"{place} is still in use"
                time.sleep(0.02)


def _wait_for_namespace(process: subprocess.Popen[bytes]) -> None:
    ours, deadline = Path("/proc/self/ns/net").readlink(), time.monotonic() + 60
    while Path(f"/proc/{process.pid}/ns/net").readlink() == ours:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def execute(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout.strip()
