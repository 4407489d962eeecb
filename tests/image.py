"""Runs the steps of the Dockerfile without a daemon: `python -m tests.image`, as root (make image-check).

A Debian of mmdebstrap stands in for both base images, which are of that release. The build stage's `make wheels` is
what `make dist` ran: its wheel comes from dist/. All other instructions are carried out as they are written, by chroot.
"""

import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.hosts.tree import OPTIONS, RELEASE, sources

ROOT = Path(__file__).parents[1]
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


def stages(dockerfile: str) -> list[list[tuple[str, str]]]:
    """The instructions of each stage, which begins with FROM: their names and texts."""
    lines = re.sub(r"\\\n", " ", dockerfile).splitlines()
    found: list[list[tuple[str, str]]] = []
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        name, _, text = line.partition(" ")
        if name == "FROM":
            found.append([])
        found[-1].append((name, text.strip()))
    return found


@dataclass
class Container:
    """A tree, and what the instructions so far have set in it."""

    tree: Path
    user: str = "root"
    folder: str = "/"
    environment: tuple[str, ...] = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"PIP_CERT={CERTIFICATES}")

    def run(self, *command: str) -> str:
        """Runs a command in it, with a /proc of its own processes; returns what it wrote."""
        where = f"cd {shlex.quote(self.folder)} && exec {shlex.join(command)}"
        drop = "" if self.user == "root" else f"setpriv --reuid={self.user} --regid={self.user} --init-groups "
        home = "/root" if self.user == "root" else f"/home/{self.user}"
        inside = f"mount -t proc proc {self.tree}/proc && mount --bind /dev {self.tree}/dev && exec env -i HOME={home} "
        inside += (
            f"{shlex.join(self.environment)} {shutil.which('chroot')} {self.tree} {drop}/bin/sh -c {shlex.quote(where)}"
        )
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "sh", "-c", inside], text=True, stdout=subprocess.PIPE, check=True
        )
        return done.stdout

    def apply(self, name: str, text: str, build: Path) -> None:
        """Carries one instruction out. `build` is the tree of the build stage."""
        print(name, text, flush=True)
        if name == "RUN":
            print(self.run("/bin/sh", "-c", text), end="")
        elif name == "COPY":
            (source, target) = text.removeprefix("--from=build ").split()
            shutil.copytree(build / source[1:], self.tree / target[1:], symlinks=True)
        elif name == "ENV":
            self.environment = tuple(shlex.split(text))
        elif name == "USER":
            self.user = text
        elif name == "WORKDIR":
            self.folder = text
        elif name not in {"FROM", "ENTRYPOINT", "CMD"}:
            raise NotImplementedError(name)


def debian(tree: Path) -> None:
    listed = tree.parent / "sources.list"
    listed.write_text(sources(RELEASE))
    subprocess.run(
        ["mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates", *OPTIONS, RELEASE, tree, listed],
        check=True,
    )
    # a network may have names and certificates of its own
    shutil.copy("/etc/resolv.conf", tree / "etc/resolv.conf")
    shutil.copy(CERTIFICATES, tree / CERTIFICATES[1:])


def main() -> None:
    build, final = stages((ROOT / "Dockerfile").read_text())
    [wheel] = ROOT.glob(f"dist/pgdyno-*_{platform.machine()}.whl")
    with tempfile.TemporaryDirectory(prefix="pgdyno-image-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        debian(folder / "final")
        # not Python's copytree: it reads devices
        subprocess.run(["cp", "--archive", folder / "final", folder / "build"], check=True)
        builder = Container(folder / "build")
        for instruction, text in build:
            if instruction in {"COPY", "WORKDIR"} or "make wheels" in text:
                continue
            (folder / "build/src/dist").mkdir(parents=True, exist_ok=True)
            shutil.copy(wheel, folder / "build/src/dist")
            builder.apply(instruction, text, folder / "build")
        container = Container(folder / "final")
        for instruction, text in final:
            container.apply(instruction, text, folder / "build")
        if "root" in container.run("id"):
            sys.exit("error: the image's user is root")
        [entry] = [text for instruction, text in final if instruction == "ENTRYPOINT"]
        assert entry == '["pgdyno"]'
        print(container.run("pgdyno", "run", "quick", "--budget", "1m"))
        size = subprocess.run(["du", "-sm", folder / "final"], check=True, capture_output=True, text=True).stdout
        print(f"the image's files take {size.split()[0]} MB")


if __name__ == "__main__":
    main()
