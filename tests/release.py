"""Checks and uses the output of `make dist`: `python -m tests.release dist`, which `make dist-check` calls.

Machines after the folder must be there; without any, those count that `make dist` made. The wheel of this machine is
installed into an empty environment whose path has nothing else on it: no Rust, no compiler, no PostgreSQL, no shell.
There `pgdyno run quick --budget 1m` must come to its answer.
"""

import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pgdyno.records import Outcome
from pgdyno.store import list_runs, load_run

MACHINES = {"x86_64": 62, "aarch64": 183}
"""Machines that are released, and ELF's number of each."""
PROGRAMS = ("pgdrive", "pgprobe", "pgnull")
NOTICES = "THIRD-PARTY-NOTICES.txt"
PAGES = ("man/man1/pgdyno.1", "doc/pgdyno/pgdyno.md", "doc/pgdyno/messages.md", "doc/pgdyno/plan.schema.json")
_INTERPRETER = 3
"""ELF's number of the segment that names the dynamic loader."""


class ReleaseError(Exception):
    """The release is defective."""


def main(dist: Path, required: Sequence[str] = ()) -> None:
    version = check_source(dist)
    machines = required or made(dist)
    for machine in machines:
        number = MACHINES[machine]
        check_wheel(one(dist, f"pgdyno-{version}-py3-none-*musllinux*{machine}.whl"), machine, number)
        check_archive(one(dist, f"pgdrive-{version}-{machine}-linux.tar.gz"), version, number)
        print(f"{machine}: the wheel and the archive have static programs and their notices")
        run_version(dist, version, machine)
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=dist, check=True)
    print("SHA256SUMS: right")
    if platform.machine() not in machines:
        print(f"NOT INSTALLED: dist has no wheel for this machine, {platform.machine()}")
        return
    use(one(dist, f"pgdyno-*_{platform.machine()}.whl"))


def made(dist: Path) -> list[str]:
    """Returns the machines that a wheel or an archive is for. Raises ReleaseError if there are no such files."""
    names = " ".join(path.name for pattern in ("*.whl", "pgdrive-*.tar.gz") for path in dist.glob(pattern))
    found = [machine for machine in MACHINES if re.search(rf"[_-]{machine}(\.whl|-linux)", names)]
    if not found:
        raise ReleaseError(f"{dist} has no wheel and no archive: run make dist")
    for machine in MACHINES.keys() - found:
        print(f"{machine}: NOT MADE")
    return found


def one(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise ReleaseError(f"{len(found)} files are called {folder / pattern}, not 1: run make dist")
    return found[0]


def check_source(dist: Path) -> str:
    """Asserts that the source distribution has what a build needs; returns its version."""
    source = one(dist, "pgdyno-*.tar.gz")
    stem = source.name.removesuffix(".tar.gz")
    needed = (
        "Cargo.lock", "tools/hatch_build.py", "tools/third_party.py", "tools/translations.py", "LICENSE",
        "crates/pgdrive/src/main.rs",
    )  # fmt: skip
    with tarfile.open(source) as archive:
        missing = {f"{stem}/{name}" for name in needed} - set(archive.getnames())
    if missing:
        raise ReleaseError(f"{source} has no {', '.join(sorted(missing))}")
    return stem.removeprefix("pgdyno-")


def check_wheel(wheel: Path, machine: str, number: int) -> None:
    """Asserts that the wheel has three static programs for its machine, the notices of their libraries, and pages."""
    if f"manylinux_2_17_{machine}" not in wheel.name:
        raise ReleaseError(f"{wheel.name} is no wheel for manylinux_2_17_{machine}")
    with zipfile.ZipFile(wheel) as archive:
        data = wheel.name.removesuffix(wheel.name[wheel.name.index("-py3") :]) + ".data"
        check_programs({name: archive.read(f"{data}/scripts/{name}") for name in PROGRAMS}, number)
        missing = {f"{data}/data/share/{page}" for page in PAGES} - set(archive.namelist())
        if missing:
            raise ReleaseError(f"{wheel.name} has no {', '.join(sorted(missing))}")
        check_notices(archive.read(f"pgdyno/{NOTICES}").decode())


def check_archive(path: Path, version: str, number: int) -> None:
    """Asserts the same of the programs' archive."""
    with tarfile.open(path) as archive:
        names = sorted(archive.getnames())
        expected = sorted(f"pgdrive-{version}/{name}" for name in (*PROGRAMS, NOTICES, "LICENSE"))
        if names != expected:
            raise ReleaseError(f"{path} has {names}, not {expected}")
        files = {name: archive.extractfile(f"pgdrive-{version}/{name}") for name in (*PROGRAMS, NOTICES)}
        content = {name: file.read() for name, file in files.items() if file is not None}
    check_programs({name: content[name] for name in PROGRAMS}, number)
    check_notices(content[NOTICES].decode())


def check_programs(programs: Mapping[str, bytes], number: int) -> None:
    for name, content in programs.items():
        if content[:6] != b"\x7fELF\x02\x01":
            raise ReleaseError(f"{name} is no program of 64 bits, little endian")
        (machine,) = struct.unpack_from("<H", content, 18)
        (offset,) = struct.unpack_from("<Q", content, 32)
        size, count = struct.unpack_from("<HH", content, 54)
        kinds = {struct.unpack_from("<I", content, offset + size * each)[0] for each in range(count)}
        if machine != number:
            raise ReleaseError(f"{name} is for ELF's machine {machine}, not {number}")
        if _INTERPRETER in kinds:
            raise ReleaseError(f"{name} needs a dynamic loader: it is not linked statically")


def check_notices(text: str) -> None:
    missing = [name for name in ("musl", "libunwind", "luajit-src", "ring") if f"\n{name} " not in text]
    if missing:
        raise ReleaseError(f"the notices do not name {', '.join(missing)}")


def run_version(dist: Path, version: str, machine: str) -> None:
    """Asserts that the archive's programs run: on this machine, or under qemu for another processor."""
    qemu = shutil.which(f"qemu-{machine}-static")
    is_here = machine == platform.machine()
    if not is_here and qemu is None:
        print(f"{machine}: NOT RUN: this machine is {platform.machine()} and has no qemu-{machine}-static")
        return
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(one(dist, f"pgdrive-{version}-{machine}-linux.tar.gz")) as archive:
            archive.extractall(folder, filter="data")
        for program in PROGRAMS:
            path = f"{folder}/pgdrive-{version}/{program}"
            command = [path, "--version"] if is_here or qemu is None else [qemu, path, "--version"]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            if version not in said:
                raise ReleaseError(f"{program} --version says {said!r}, not {version}")
    print(f"{machine}: pgdrive, pgprobe and pgnull start{'' if is_here else ' under qemu'}")


def use(wheel: Path) -> None:
    """Installs the wheel where nothing else is, and runs the quick plan there."""
    with tempfile.TemporaryDirectory(prefix="pgdyno-release-") as folder:
        empty = Path(folder)
        # the server of a run by root belongs to another user, who has to get here
        empty.chmod(0o755)
        subprocess.run([sys.executable, "-m", "venv", empty / "venv"], check=True)
        options = ["--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
        subprocess.run([str(empty / "venv/bin/pip"), "install", *options, str(wheel)], check=True)
        alone = {"PATH": str(empty / "venv/bin"), "HOME": folder, "PGDYNO_HOME": f"{folder}/home", "LANG": "C.UTF-8"}
        alone |= {
            name: os.environ[name] for name in ("SSL_CERT_FILE", "HTTPS_PROXY", "https_proxy") if name in os.environ
        }
        for tool in ("cargo", "rustc", "cc", "gcc", "clang", "make", "postgres", "psql", "sh"):
            if shutil.which(tool, path=alone["PATH"]):
                raise ReleaseError(f"the environment is not empty: it has {tool}")
        for command in (["run", "quick", "--budget", "1m"], ["show", "latest"]):
            print("$ pgdyno", *command, flush=True)
            subprocess.run([empty / "venv/bin/pgdyno", *command], cwd=empty, env=alone, check=True)
        [run] = list_runs(empty / "pgdyno-runs")
        trials = load_run(run.path).trials
        if not trials or any(trial.outcome is not Outcome.FINISHED for trial in trials):
            raise ReleaseError(f"{len(trials)} trials, not all of them finished")
        print(f"{wheel.name}: installed alone, {len(trials)} trials")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2:])
    except (ReleaseError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
