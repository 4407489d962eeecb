"""Downloads: truncated, wrong, missing, or unreachable."""

import hashlib
import re
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets import Home, SilentProgress
from pgdyno.targets.cluster.installation import Installation, classifier
from pgdyno.targets.embedded.kind import find_embedded
from pgdyno.targets.embedded.maven_repository import read_pins
from tests.postgres.local_mirror import GOOD, NAME, Answer, LocalMirror, small_archive
from tests.postgres.servers import embedded
from tests.present import present


class Counting(SilentProgress):
    """Records the progress of downloads: bytes done and in all."""

    def __init__(self) -> None:
        self.counts: list[tuple[int, int | None]] = []

    def bytes(self, done: int, total: int | None) -> None:
        self.counts.append((done, total))


def fetch(home: Home, url: str, version: str = "18", progress: SilentProgress | None = None) -> Installation:
    return find_embedded(embedded(version), home, progress or SilentProgress(), {"PGDYNO_MAVEN_URL": url})


def failure(home: Home, url: str, version: str = "18") -> TargetError:
    with pytest.raises(TargetError) as caught:
        fetch(home, url, version)
    return caught.value


def nothing_but_the_list(home: Home) -> bool:
    """Tells that no server and no archive, not even a part of one, is left."""
    left = [path.name for path in home.downloads.glob("*") if not path.name.startswith("versions-")]
    return not left and not list(home.postgres.glob("*")) and not list(home.postgres.glob(".*"))


@pytest.fixture(scope="module")
def dead_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


# ---- versions ----


def test_the_newest_of_a_major_is_fetched(fresh_home: Home, mirror: LocalMirror) -> None:
    for release in ("18.9.0", "18.10.0", "17.4.0"):
        mirror.publish(release)
    found = fetch(fresh_home, mirror.url)
    assert (found.version, found.major) == ("18.10", 18)
    assert found.bin.parent.name == f"18.10.0-{classifier()}"
    assert sorted(path.name for path in found.bin.iterdir()) == ["initdb", "postgres"]
    assert list(fresh_home.downloads.glob("*.jar*")) == []
    # an exact version that is there asks nobody
    mirror.requests.clear()
    assert fetch(fresh_home, mirror.url, "18.10").notes == []
    assert mirror.requests == []


def test_a_missing_version_offers_the_nearest(fresh_home: Home, mirror: LocalMirror, dead_url: str) -> None:
    mirror.list_versions("17.1.0", "18.1.0", "18.3.0", "18.4.0", "18.6.0")
    # the list is kept, to distinguish a wrong version from a network failure
    for url in (mirror.url, dead_url):
        error = failure(fresh_home, url, "18.5")
        assert error.message == "cannot get PostgreSQL 18.5: there is no such version"
        assert error.hint == "nearest: 18.3, 18.4, 18.6"


# ---- checksums ----


def test_a_wrong_file_is_fetched_once_more(fresh_home: Home, mirror: LocalMirror) -> None:
    path = mirror.publish()
    mirror.answers[path] = [Answer(body=small_archive("6.6")), GOOD]
    assert fetch(fresh_home, mirror.url).version == "18.99"
    assert mirror.count(path) == 2


def test_a_file_that_stays_wrong_is_refused(fresh_home: Home, mirror: LocalMirror) -> None:
    path = mirror.publish()
    mirror.files[path] = b"something else"
    expected = mirror.files[f"{path}.sha512"].decode()
    said = rf"sha512 is wrong: expected {expected} \(the server's checksum file\), got [0-9a-f]{{128}}$"
    assert re.search(said, failure(fresh_home, mirror.url).message)
    assert mirror.count(path) == 2
    assert nothing_but_the_list(fresh_home)


@pytest.mark.parametrize(("kinds", "digits"), [("sha256 sha1", 64), ("sha1", 40)])
def test_the_strongest_checksum_there_is_counts(fresh_home: Home, mirror: LocalMirror, kinds: str, digits: int) -> None:
    path = mirror.publish(checksums=kinds)
    strongest, *others = kinds.split()
    mirror.files |= {f"{path}.{kind}": b"0" * 40 for kind in others}
    assert fetch(fresh_home, mirror.url).version == "18.99"
    mirror.files[f"{path}.{strongest}"] = b"0" * digits
    fresh_home.postgres.joinpath(f"18.99.0-{classifier()}").rename(fresh_home.postgres / "elsewhere")
    assert f"{strongest} is wrong: expected 0000" in failure(fresh_home, mirror.url).message


def test_without_a_checksum_nothing_is_used(fresh_home: Home, mirror: LocalMirror) -> None:
    path = mirror.publish(checksums="")
    assert "has no checksum of it" in failure(fresh_home, mirror.url).message
    mirror.files[f"{path}.sha512"] = b"<html>please log in</html>"
    assert "sha512: not a checksum" in failure(fresh_home, mirror.url).message
    assert mirror.count(path) == 0


# ---- digests that pgdyno knows ----


def test_an_archive_changed_together_with_its_checksums_is_refused(
    fresh_home: Home, mirror: LocalMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = {f"{NAME}-18.99.0.jar": hashlib.sha256(small_archive()).hexdigest()}
    monkeypatch.setattr("pgdyno.targets.embedded.maven_repository.read_pins", lambda: pins)
    path = mirror.publish(archive=small_archive("6.6"))
    said = r"sha256 is wrong: expected [0-9a-f]{64} \(pgdyno's own list\), got"
    assert re.search(said, failure(fresh_home, mirror.url).message)
    assert nothing_but_the_list(fresh_home)
    mirror.files[path] = small_archive()
    assert fetch(fresh_home, mirror.url).notes == []
    assert mirror.count(f"{path}.sha512") == 0


def test_an_archive_without_a_pin_is_noted(fresh_home: Home, mirror: LocalMirror) -> None:
    mirror.publish()
    [note] = fetch(fresh_home, mirror.url).notes
    assert str(note) == (
        "PostgreSQL 18.99 was checked only against the sha512 that 127.0.0.1 itself publishes: this pgdyno has no "
        "digest of release 18.99.0"
    )


def test_the_newest_release_of_every_major_is_pinned() -> None:
    for machine in ("linux-amd64", "linux-arm64v8"):
        start = f"embedded-postgres-binaries-{machine}-"
        majors = {int(name.removeprefix(start).split(".")[0]) for name in read_pins() if name.startswith(start)}
        assert majors >= set(range(14, 19))
    assert all(re.fullmatch("[0-9a-f]{64}", digits) for digits in read_pins().values())


def test_no_redirect_to_plain_http_is_followed(fresh_home: Home, mirror: LocalMirror) -> None:
    path = mirror.publish()
    mirror.answers[path] = [Answer(location="http://mirror.example/x.jar")]
    said = "redirects to http://mirror.example/x.jar, which is not an https address"
    assert said in failure(fresh_home, mirror.url).message
    assert mirror.count(path) == 1


# ---- cuts ----


@pytest.mark.parametrize(
    ("failures", "ranges", "asked"),
    [
        ([{"cut_at": 1000}], True, [None, "bytes=1000-"]),
        # a server that cannot continue
        ([{"cut_at": 1000}], False, [None, "bytes=1000-"]),
        # the file has changed
        ([{"cut_at": 1000, "body": b"another file" * 1000}], True, [None, "bytes=1000-"]),
        # the part is longer than the file
        ([{"cut_at": 1000}, {"status": 416}], True, [None, "bytes=1000-", None]),
        # a server in trouble
        ([{"status": 503}, {"status": 429}], True, [None] * 3),
    ],
    ids=["cut", "no ranges", "changed", "too long", "trouble"],
)
def test_a_cut_download_is_completed(
    fresh_home: Home, mirror: LocalMirror, failures: list[dict[str, Any]], ranges: bool, asked: list[str | None]
) -> None:
    path = mirror.publish()
    mirror.ranges = ranges
    mirror.answers[path] = [*(Answer(**each) for each in failures), GOOD]
    mirror.answers[f"{path}.sha512"] = [Answer(status=502), GOOD]
    assert fetch(fresh_home, mirror.url).version == "18.99"
    assert [each for requested, each in mirror.requests if requested == path] == asked


def test_many_cuts_end_well_if_each_gains_and_badly_if_none_does(fresh_home: Home, mirror: LocalMirror) -> None:
    path = mirror.publish()
    mirror.answers[path] = [Answer(cut_at=len(small_archive()) // 2)]
    mirror.ranges = False
    error = failure(fresh_home, mirror.url)
    assert f"cannot fetch {mirror.url}{path}: the connection ended after" in error.message
    assert "PGDYNO_MAVEN_URL" in (error.hint or "")
    assert not list(fresh_home.postgres.glob("*"))
    mirror.answers[path] = [Answer(cut_at=len(small_archive()) // 20)]
    mirror.ranges = True
    mirror.requests.clear()
    progress = Counting()
    assert fetch(fresh_home, mirror.url, progress=progress).version == "18.99"
    assert mirror.count(path) >= 10
    assert progress.counts[-1] == (len(mirror.files[path]),) * 2
    assert progress.counts == sorted(progress.counts)


def test_the_next_run_completes_a_download(fresh_home: Home, mirror: LocalMirror) -> None:
    path = mirror.publish()
    mirror.answers[path] = [Answer(cut_at=1000), Answer(status=503)]
    assert "status 503" in failure(fresh_home, mirror.url).message
    mirror.answers[path] = [GOOD]
    assert fetch(fresh_home, mirror.url).version == "18.99"
    assert mirror.requests[-1] == (path, "bytes=1000-")


def test_a_refusal_is_told_at_once(fresh_home: Home, mirror: LocalMirror) -> None:
    path = mirror.publish()
    mirror.answers[path] = [Answer(status=403)]
    assert "the server answers with status 403" in failure(fresh_home, mirror.url).message
    assert mirror.count(path) == 1


# ---- no network ----


def test_offline_a_major_is_the_newest_cached(fresh_home: Home, mirror: LocalMirror, dead_url: str) -> None:
    error = failure(fresh_home, dead_url)
    assert error.message.startswith(f"cannot fetch {dead_url}/io/zonky/test/postgres/")
    assert error.message.endswith("connection refused")
    assert "proxy" in (error.hint or "")
    for version in ("18.2", "18.3"):
        mirror.publish(f"{version}.0")
        fetch(fresh_home, mirror.url, version)
    found = fetch(fresh_home, dead_url)
    assert found.version == "18.3"
    (note,) = map(str, found.notes)
    assert note.startswith("PostgreSQL 18.3 is the newest 18 in the cache; pgdyno could not check for")
    assert "connection refused" in note
    assert fetch(fresh_home, dead_url, "18.2").notes == []


def test_no_page_replaces_the_cached_list(fresh_home: Home, mirror: LocalMirror) -> None:
    mirror.publish()
    fetch(fresh_home, mirror.url)
    cached = fresh_home.downloads / f"versions-{classifier()}.xml"
    before = cached.read_bytes()
    mirror.files[mirror.index] = b"<html><body>please log in</body></html>"
    assert "not a list of versions" in str(fetch(fresh_home, mirror.url).notes[0])
    assert cached.read_bytes() == before


def test_a_password_in_the_address_stays_hidden(fresh_home: Home, mirror: LocalMirror) -> None:
    mirror.publish()
    url = mirror.url.replace("http://", "http://me:secret@")
    assert fetch(fresh_home, url).version == "18.99"
    mirror.answers[mirror.index] = [Answer(status=401)]
    error = failure(fresh_home, url, "16")
    assert "secret" not in f"{error.message} {error.hint}"


@pytest.mark.parametrize("url", ["ftp://x", "http://mirror.example/maven2", "http://127.0.0.1.example", "file:///x"])
def test_an_address_that_is_none(fresh_home: Home, url: str) -> None:
    assert f"cannot use PGDYNO_MAVEN_URL {url}: not an https address" in failure(fresh_home, url).message


# ---- two at once ----

FETCHER = """
import sys
from pathlib import Path
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.targets import Home, SilentProgress
from pgdyno.targets.embedded.kind import find_embedded

class Shown(SilentProgress):
    def step(self, text):
        print(text, flush=True)

home = Home.locate(Path(sys.argv[1]))
print("found", find_embedded(EmbeddedTarget(kind="embedded", version="18"), home, Shown()).version, flush=True)
"""


def test_two_processes_download_an_archive_once(
    fresh_home: Home, mirror: LocalMirror, child_environment: dict[str, str]
) -> None:
    path = mirror.publish()
    go = threading.Event()
    mirror.answers[path] = [Answer(hold=go)]
    argv = [sys.executable, "-c", FETCHER, str(fresh_home.path)]
    environment = {**child_environment, **mirror.environ}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as first:
        mirror.wait_for(path)
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as second:
            while (line := present(second.stdout).readline()) and not line.startswith("waiting"):
                pass
            go.set()
            assert line == "waiting for another pgdyno, which downloads PostgreSQL 18.99\n"
            assert present(second.stdout).read() == "found 18.99\n"
            assert present(first.stdout).read().endswith("found 18.99\n")
    assert (first.returncode, second.returncode) == (0, 0)
    assert mirror.count(path) == 1
