"""Azure's object storage on the loopback address: Microsoft's emulator, which npm installs once."""

import base64
import hashlib
import hmac
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from urllib.request import Request, urlopen

from pgdyno.targets import Home, SilentProgress
from tests.s3 import environment

VERSION = "3.37.0"
ACCOUNT, CONTAINER = "devstoreaccount1", "bench"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The emulator's published key."""


def _installed(home: Home) -> Path:
    folder = home.root / f"azurite-{VERSION}"
    program = folder / "node_modules/azurite/dist/src/blob/main.js"
    with home.hold_lock("azurite", SilentProgress(), "another test installs Azurite"):
        if not program.exists():
            folder.mkdir(exist_ok=True)
            command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
            subprocess.run([*command, "--prefix", folder, f"azurite@{VERSION}"], check=True, timeout=300)
    return program


@contextmanager
def azurite(home: Home, folder: Path) -> Iterator[None]:
    """Creates an empty container, which pgdyno finds by environment variables."""
    command = ["node", str(_installed(home)), "--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence"]
    with subprocess.Popen(
        [*command, "--silent", "--skipApiVersionCheck", "--disableTelemetry"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if "successfully listens" in line)
            url = f"{line.split()[-1]}/{ACCOUNT}"
            _create_container(url)
            variables = {"NAME": ACCOUNT, "KEY": KEY}
            named = {f"AZURE_STORAGE_ACCOUNT_{name}": value for name, value in variables.items()}
            with environment({**named, "AZURE_STORAGE_ENDPOINT": url}):
                yield
        finally:
            process.terminate()
            process.wait(60)


def _create_container(url: str) -> None:
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    text = f"PUT{12 * chr(10)}{lines}/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
    urlopen(Request(f"{url}/{CONTAINER}?restype=container", method="PUT", headers=headers)).close()
