"""The Maven repository of embedded servers: its list of versions, its archives and their digests.

An archive must have the digest that the package pins. An archive without a pinned digest must have the checksum that
the repository publishes. Such a checksum shows only that the archive arrived complete, because whoever can replace the
archive can replace its checksum too; a pinned digest shows that it is the archive that pgdyno's authors fetched.
"""

from __future__ import annotations

import hashlib
import os
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.targets.cluster.installation import Release, parse_release
from pgdyno.targets.embedded.fetch_and_unpack import discard, fetch_file
from pgdyno.targets.home import Progress, target_errors
from pgdyno.targets.http_requests import HINT, NotThereError, Patience, fetch_text, is_allowed, public_url

PINS = Path(__file__).with_name("pins.txt")
"""In the format of sha256sum; `make pins` adds lines."""


@cache
def read_pins() -> Mapping[str, str]:
    """Return pinned SHA-256 digests in hexadecimal by the archive's file name."""
    if not PINS.is_file():
        return {}
    lines = (line.split() for line in PINS.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {name: digits for digits, name in lines}


MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
GROUP = "io/zonky/test/postgres"

DEFAULT_PATIENCE = Patience()
LIST_PATIENCE = Patience(timeout_s=15, attempts=2)
"""Every start with a major version requests the list, even without a network."""

_CHECKSUMS = {"sha512": 128, "sha256": 64, "sha1": 40}
"""Kinds of checksum files, the strongest first, with their number of hexadecimal digits."""

# the list is flat and machine-generated: an XML parser would need protection against entity expansion
_VERSION = re.compile(r"<version>\s*([^<\s]+)\s*</version>")


@dataclass(frozen=True, slots=True)
class Checksum:
    """The expected checksum of a file."""

    kind: str
    digits: str


@dataclass(frozen=True, slots=True)
class Mirror:
    """A Maven repository and the kind of machine whose builds it provides."""

    base_url: str = field(repr=False)
    """The base URL, which may contain a password."""
    classifier: str
    patience: Patience = DEFAULT_PATIENCE
    list_patience: Patience = LIST_PATIENCE

    @classmethod
    def from_environment(cls, classifier: str, environ: Mapping[str, str] | None = None) -> Mirror:
        """Return Maven Central, or the repository in `PGDYNO_MAVEN_URL`. Raises TargetError for an invalid URL."""
        environ = os.environ if environ is None else environ
        base = environ.get("PGDYNO_MAVEN_URL") or MAVEN_CENTRAL
        if not is_allowed(base):
            raise TargetError(
                f"cannot use PGDYNO_MAVEN_URL {public_url(base)}: not an https address",
                hint=f"set it to a mirror of {MAVEN_CENTRAL}, or unset it; plain http is for this host only",
            )
        return cls(base.rstrip("/"), classifier)

    @property
    def artifact(self) -> str:
        """Return the archive's name without version."""
        return f"embedded-postgres-binaries-{self.classifier}"

    def archive_name(self, release: Release) -> str:
        return f"{self.artifact}-{release}.jar"

    def archive_url(self, release: Release) -> str:
        return f"{self.base_url}/{GROUP}/{self.artifact}/{release}/{self.archive_name(release)}"

    def fetch_list(self) -> str:
        """Download the unparsed list of versions for `parse_list`. Raises TargetError."""
        url = f"{self.base_url}/{GROUP}/{self.artifact}/maven-metadata.xml"
        text = fetch_text(url, self.list_patience)
        if parse_list(text) is None:
            raise TargetError(f"cannot read {public_url(url)}: not a list of versions", hint=HINT)
        return text

    def fetch_checksum(self, url: str) -> Checksum:
        """Download the strongest checksum that the repository publishes for `url`. Raises TargetError without one."""
        for kind, length in _CHECKSUMS.items():
            try:
                text = fetch_text(f"{url}.{kind}", self.patience, limit_bytes=4096)
            except NotThereError:
                continue
            # some repositories append the file's name
            digits = text.split()[0].lower() if text.split() else ""
            if re.fullmatch(rf"[0-9a-f]{{{length}}}", digits) is None:
                raise TargetError(f"cannot read {public_url(url)}.{kind}: not a checksum", hint=HINT)
            return Checksum(kind, digits)
        raise TargetError(f"cannot verify {public_url(url)}: the server has no checksum of it", hint=HINT)

    def fetch_archive(self, release: Release, path: Path, progress: Progress) -> Message | None:
        """Download a release's archive to `path` and verify it; return a note. Retries once after a wrong checksum.

        Raises NotThereError, TargetError.
        """
        url = self.archive_url(release)
        pinned = read_pins().get(self.archive_name(release))
        expected = self.fetch_checksum(url) if pinned is None else Checksum("sha256", pinned)
        got = ""
        for _ in range(2):
            fetch_file(url, path, self.patience, progress)
            got = file_digest(path, expected.kind)
            if got == expected.digits:
                return None if pinned else _note(release, expected, self.base_url)
            discard(path)
        source = "pgdyno's own list" if pinned else "the server's checksum file"
        raise TargetError(
            f"cannot use {public_url(url)}: its {expected.kind} is wrong: "
            f"expected {expected.digits} ({source}), got {got}",
            hint="the archive was changed on the server or in transit; try another mirror with PGDYNO_MAVEN_URL",
        )


def _note(release: Release, checked: Checksum, base_url: str) -> Message:
    return Message(
        "digest-of-mirror",
        "PostgreSQL {version} was checked only against the {kind} that {host} itself publishes: this pgdyno has no "
        "digest of release {release}",
        version=release.postgres,
        kind=checked.kind,
        host=str(urllib.parse.urlsplit(base_url).hostname),
        release=str(release),
    )


def parse_list(text: str) -> list[Release] | None:
    """Return the releases in a maven-metadata.xml; None if `text` is something else."""
    _, begun, text = text.partition("<metadata")
    versions, ended, rest = text.partition("<versions>")[2].partition("</versions>")
    if not begun or not ended or "</metadata>" not in rest:
        return None
    named = (parse_release(each) for each in _VERSION.findall(versions))
    return [release for release in named if release is not None]


def file_digest(path: Path, kind: str) -> str:
    """Return the checksum of a file in hexadecimal."""
    with target_errors(path, "cannot read"), path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()
