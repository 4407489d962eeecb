"""The root file system of a new host, like Debian's images for EC2; it is built once, and stays in the tests' home."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from pgdyno.targets import Home, SilentProgress

PACKAGES = (
    "systemd-sysv udev dbus openssh-server sudo cloud-init netbase iproute2 procps ca-certificates unattended-upgrades"
)
"""The images' packages that matter to the set-up of a host."""
OPTIONS = (
    '--aptopt=Acquire::Languages "none"',
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=force-unsafe-io",
)
RELEASE = "bookworm"
SERVER = "postgresql-15 postgresql-client-15"
"""The release's packages that pgdg.py offers with another version as those of the PostgreSQL project."""
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR = "http://deb.debian.org"
CLOUD = """\
# who the host is stands in a file here, and its network was there before it
datasource_list: [NoCloud]
network: {config: disabled}
# the tree has no others
locale: C.UTF-8
"""


def sources(release: str) -> str:
    listed = ((f"{MIRROR}/debian", release), (f"{MIRROR}/debian", f"{release}-updates"))
    lines = [f"deb [signed-by={KEYRING}] {url} {suite} main" for url, suite in listed]
    return "\n".join([*lines, f"deb [signed-by={KEYRING}] {MIRROR}/debian-security {release}-security main", ""])


def image(home: Home) -> Path:
    """Returns the folder with the `tree` of a Debian, and with packages of a server."""
    recipe = "\n".join([PACKAGES, SERVER, *OPTIONS, CLOUD, sources(RELEASE)])
    name = f"{RELEASE}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    place = home.root / "hosts" / name
    place.parent.mkdir(exist_ok=True)
    with home.hold_lock(f"host-{name}", SilentProgress(), "a tree that another test makes"):
        if not place.exists():
            _make(place)
    return place


def _make(place: Path) -> None:
    partial = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    try:
        made, listed = partial / "tree", partial / "sources.list"
        listed.write_text(sources(RELEASE))
        command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES.replace(' ', ',')}", *OPTIONS]
        fetch = f'cd "$1" && chroot . sh -c "cd /tmp && apt-get -qq download {SERVER}" && mv tmp/*.deb "{partial}"'
        command.append(f"--customize-hook={fetch}")
        done = subprocess.run([*command, RELEASE, made, listed], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (made / "etc/cloud/cloud.cfg.d/95-here.cfg").write_text(CLOUD)
        partial.chmod(0o755)
        partial.rename(place)
    except BaseException:
        shutil.rmtree(partial)
        raise
