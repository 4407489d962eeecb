"""Downloads: truncated, wrong, missing, or unreachable."""

from __future__ import annotations

import hashlib
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import pgdyno.targets.embedded.maven_repository
from pgdyno.errors import TargetError
from pgdyno.targets import Home, SilentProgress
from pgdyno.targets.cluster.installation import Installation, Release, classifier
from pgdyno.targets.embedded.kind import find_embedded
from pgdyno.targets.embedded.maven_repository import Mirror, read_pins
from tests.postgres.servers import embedded, opened
from tests.present import present

if TYPE_CHECKING:
    from tests.postgres.conftest import LocalMirror

Archive = Callable[..., bytes]


def fetch(home: Home, mirror: LocalMirror, version: str = "18") -> Installation:
    return find_embedded(embedded(version), home, SilentProgress(), mirror.environ)


def nothing_but_the_list(home: Home) -> bool:
    """Asserts that no server and no archive, not even a part of one, is left."""
    left = [path.name for path in home.downloads.glob("*") if not path.name.startswith("versions-")]
    return not left and not list(home.postgres.glob("*")) and not list(home.postgres.glob(".*"))


def dead_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


# ---- versions ----


def test_the_newest_of_a_major_is_fetched(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    for release in ("18.9.0", "18.10.0", "17.4.0"):
        mirror.publish(release, small_archive(release.removesuffix(".0")))
    found = fetch(fresh_home, mirror)
    assert (found.version, found.major) == ("18.10", 18)
    assert found.bin.parent.name == f"18.10.0-{classifier()}"
    assert sorted(path.name for path in found.bin.iterdir()) == ["initdb", "postgres"]
    assert list(fresh_home.downloads.glob("*.jar*")) == []


def test_a_missing_version_offers_the_nearest(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    mirror.publish("18.4.0", small_archive("18.4"))
    mirror.list_versions("17.1.0", "18.1.0", "18.3.0", "18.4.0", "18.6.0")
    with pytest.raises(TargetError) as caught:
        fetch(fresh_home, mirror, "18.5")
    assert caught.value.message == "cannot get PostgreSQL 18.5: there is no such version"
    assert caught.value.hint == "nearest: 18.3, 18.4, 18.6"
    # the list is kept, to distinguish a wrong version from a network failure
    with pytest.raises(TargetError, match=r"18\.5: there is no such version"):
        find_embedded(embedded("18.5"), fresh_home, SilentProgress(), {"PGDYNO_MAVEN_URL": dead_url()})


def test_the_real_mirror_offers_the_nearest(home: Home) -> None:
    with pytest.raises(TargetError) as caught, opened(home, embedded("18.999")):
        pass
    assert caught.value.message == "target t: cannot get PostgreSQL 18.999: there is no such version"
    assert re.fullmatch(r"nearest: 18\.\d+, 18\.\d+, 18\.\d+", caught.value.hint or "")


# ---- checksums ----


def test_a_wrong_file_is_fetched_once_more(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    path = mirror.publish("18.99.0", small_archive())
    mirror.answers[path] = [mirror.broken(body=small_archive("6.6")), mirror.good]
    assert fetch(fresh_home, mirror).version == "18.99"
    assert mirror.count(path) == 2


def test_a_file_that_stays_wrong_is_refused(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    path = mirror.publish("18.99.0", small_archive())
    expected = mirror.files[f"{path}.sha512"].decode()
    mirror.files[path] = b"something else"
    with pytest.raises(TargetError) as caught:
        fetch(fresh_home, mirror)
    assert re.search(
        rf"sha512 is wrong: expected {expected} \(the server's checksum file\), got [0-9a-f]{{128}}$",
        caught.value.message,
    )
    assert mirror.count(path) == 2
    assert nothing_but_the_list(fresh_home)


@pytest.mark.parametrize("kinds", [("sha256", "sha1"), ("sha1",)])
def test_the_strongest_checksum_there_is_counts(
    fresh_home: Home, mirror: LocalMirror, small_archive: Archive, kinds: tuple[str, ...]
) -> None:
    path = mirror.publish("18.99.0", small_archive(), kinds)
    for kind in kinds[1:]:
        mirror.files[f"{path}.{kind}"] = b"0" * 40
    assert fetch(fresh_home, mirror).version == "18.99"
    mirror.files[f"{path}.{kinds[0]}"] = b"0" * (64 if kinds[0] == "sha256" else 40)
    fresh_home.postgres.joinpath(f"18.99.0-{classifier()}").rename(fresh_home.postgres / "elsewhere")
    with pytest.raises(TargetError, match=f"{kinds[0]} is wrong: expected 0000"):
        fetch(fresh_home, mirror)


def test_without_a_checksum_nothing_is_used(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    path = mirror.publish("18.99.0", small_archive(), ())
    with pytest.raises(TargetError, match="has no checksum of it"):
        fetch(fresh_home, mirror)
    assert mirror.count(path) == 0


def test_a_checksum_that_is_a_page_is_refused(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    path = mirror.publish("18.99.0", small_archive())
    mirror.files[f"{path}.sha512"] = b"<html>please log in</html>"
    with pytest.raises(TargetError, match=r"sha512: not a checksum"):
        fetch(fresh_home, mirror)


# ---- digests that pgdyno knows ----


def pin(monkeypatch: pytest.MonkeyPatch, release: str, digits: str) -> None:
    name = f"embedded-postgres-binaries-{classifier()}-{release}.jar"
    monkeypatch.setattr(pgdyno.targets.embedded.maven_repository, "read_pins", lambda: {name: digits})


def test_an_archive_changed_together_with_its_checksums_is_refused(
    fresh_home: Home, mirror: LocalMirror, small_archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = small_archive()
    pin(monkeypatch, "18.99.0", hashlib.sha256(true).hexdigest())
    path = mirror.publish("18.99.0", small_archive())
    with pytest.raises(TargetError, match=r"sha256 is wrong: expected [0-9a-f]{64} \(pgdyno's own list\), got"):
        fetch(fresh_home, mirror)
    assert nothing_but_the_list(fresh_home)
    mirror.files[path] = true
    assert fetch(fresh_home, mirror).notes == []
    assert mirror.count(f"{path}.sha512") == 0


def test_an_archive_without_a_pin_is_noted(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    mirror.publish("18.99.0", small_archive())
    [note] = fetch(fresh_home, mirror).notes
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


def test_the_installed_release_is_what_its_pin_says(real_archive: bytes, installed_release: Release) -> None:
    pinned = read_pins().get(Mirror("", classifier()).archive_name(installed_release))
    assert pinned in (None, hashlib.sha256(real_archive).hexdigest())


def test_no_redirect_to_plain_http_is_followed(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    path = mirror.publish("18.99.0", small_archive())
    mirror.answers[path] = [mirror.broken(status=302, location="http://mirror.example/x.jar")]
    with pytest.raises(TargetError, match=r"redirects to http://mirror\.example/x\.jar, which is not an https address"):
        fetch(fresh_home, mirror)
    assert mirror.count(path) == 1


# ---- cuts ----


@pytest.mark.usefixtures("impatient")
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
    ],
    ids=["cut", "no ranges", "changed", "too long"],
)
def test_a_cut_download_is_completed(
    fresh_home: Home,
    mirror: LocalMirror,
    small_archive: Archive,
    failures: list[dict[str, Any]],
    ranges: bool,
    asked: list[str | None],
) -> None:
    path = mirror.publish("18.99.0", small_archive())
    mirror.ranges = ranges
    mirror.answers[path] = [*(mirror.broken(**each) for each in failures), mirror.good]
    assert fetch(fresh_home, mirror).version == "18.99"
    assert [each for requested, each in mirror.requests if requested == path] == asked


@pytest.mark.usefixtures("impatient")
def test_many_cuts_end_well_if_each_gains(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    archive = small_archive()
    path = mirror.publish("18.99.0", archive)
    mirror.answers[path] = [mirror.broken(cut_at=len(archive) // 20)]
    assert fetch(fresh_home, mirror).version == "18.99"
    assert mirror.count(path) >= 20


@pytest.mark.usefixtures("impatient")
def test_a_mirror_that_always_cuts_is_named(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    archive = small_archive()
    path = mirror.publish("18.99.0", archive)
    mirror.ranges = False
    mirror.answers[path] = [mirror.broken(cut_at=len(archive) // 2)]
    with pytest.raises(TargetError) as caught:
        fetch(fresh_home, mirror)
    assert f"cannot fetch {mirror.url}{path}: the connection ended after" in caught.value.message
    assert "PGDYNO_MAVEN_URL" in (caught.value.hint or "")
    assert not list(fresh_home.postgres.glob("*"))


@pytest.mark.usefixtures("impatient")
def test_the_next_run_completes_a_download(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    archive = small_archive()
    path = mirror.publish("18.99.0", archive)
    mirror.answers[path] = [mirror.broken(cut_at=1000), mirror.broken(status=503)]
    with pytest.raises(TargetError, match="status 503"):
        fetch(fresh_home, mirror)
    mirror.answers[path] = [mirror.good]
    assert fetch(fresh_home, mirror).version == "18.99"
    assert mirror.requests[-1] == (path, "bytes=1000-")


@pytest.mark.usefixtures("impatient")
def test_a_server_in_trouble_is_asked_again(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    path = mirror.publish("18.99.0", small_archive())
    mirror.answers[path] = [mirror.broken(status=503), mirror.broken(status=429), mirror.good]
    mirror.answers[f"{path}.sha512"] = [mirror.broken(status=502), mirror.good]
    assert fetch(fresh_home, mirror).version == "18.99"


def test_a_refusal_is_told_at_once(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    path = mirror.publish("18.99.0", small_archive())
    mirror.answers[path] = [mirror.broken(status=403)]
    with pytest.raises(TargetError, match="the server answers with status 403"):
        fetch(fresh_home, mirror)
    assert mirror.count(path) == 1


def test_a_real_server_comes_through_a_cut(
    fresh_home: Home,
    mirror: LocalMirror,
    real_archive: bytes,
    installed_release: Release,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = mirror.publish(str(installed_release), real_archive)
    mirror.answers[path] = [mirror.broken(cut_at=len(real_archive) // 2), mirror.good]
    monkeypatch.setenv("PGDYNO_MAVEN_URL", mirror.url)
    counts: list[tuple[int, int | None]] = []

    class Counting(SilentProgress):
        def bytes(self, done: int, total: int | None) -> None:
            counts.append((done, total))

    with opened(fresh_home, embedded(installed_release.postgres), progress=Counting()) as server:
        assert server.facts().version == installed_release.postgres
        assert server.notes == []
    assert mirror.count(path) == 2
    assert counts[-1] == (len(real_archive), len(real_archive))
    assert [done for done, _ in counts] == sorted(done for done, _ in counts)


# ---- no network ----


def test_offline_an_exact_version_asks_nobody(
    warm_home: Home, mirror: LocalMirror, installed_release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDYNO_MAVEN_URL", mirror.url)
    with opened(warm_home, embedded(installed_release.postgres)) as server:
        assert server.facts().version == installed_release.postgres
        assert server.notes == []
    assert mirror.requests == []


@pytest.mark.usefixtures("impatient")
def test_offline_a_major_is_the_newest_cached(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    for release in ("18.2.0", "18.3.0"):
        mirror.publish(release, small_archive(release.removesuffix(".0")))
    fetch(fresh_home, mirror, "18.2")
    fetch(fresh_home, mirror, "18.3")
    offline = {"PGDYNO_MAVEN_URL": dead_url()}
    found = find_embedded(embedded("18"), fresh_home, SilentProgress(), offline)
    assert found.version == "18.3"
    assert len(found.notes) == 1
    assert str(found.notes[0]).startswith("PostgreSQL 18.3 is the newest 18 in the cache; pgdyno could not check for")
    assert "connection refused" in str(found.notes[0])
    assert find_embedded(embedded("18.2"), fresh_home, SilentProgress(), offline).notes == []


@pytest.mark.usefixtures("impatient")
def test_offline_without_a_cache_is_told(fresh_home: Home) -> None:
    url = dead_url()
    with pytest.raises(TargetError) as caught:
        find_embedded(embedded("18"), fresh_home, SilentProgress(), {"PGDYNO_MAVEN_URL": url})
    assert caught.value.message.startswith(f"cannot fetch {url}/io/zonky/test/postgres/")
    assert caught.value.message.endswith("connection refused")
    assert "proxy" in (caught.value.hint or "")


def test_no_page_replaces_the_cached_list(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    mirror.publish("18.99.0", small_archive())
    fetch(fresh_home, mirror)
    cached = fresh_home.downloads / f"versions-{classifier()}.xml"
    before = cached.read_bytes()
    listed = next(name for name in mirror.files if name.endswith("maven-metadata.xml"))
    mirror.files[listed] = b"<html><body>please log in</body></html>"
    assert "not a list of versions" in str(fetch(fresh_home, mirror).notes[0])
    assert cached.read_bytes() == before


def test_a_password_in_the_address_stays_hidden(fresh_home: Home, mirror: LocalMirror, small_archive: Archive) -> None:
    mirror.publish("18.99.0", small_archive())
    url = mirror.url.replace("http://", "http://me:secret@")
    assert find_embedded(embedded("18"), fresh_home, SilentProgress(), {"PGDYNO_MAVEN_URL": url}).version == "18.99"
    mirror.list_versions("17.1.0")
    mirror.answers[next(name for name in mirror.files if name.endswith(".xml"))] = [mirror.broken(status=401)]
    with pytest.raises(TargetError) as caught:
        find_embedded(embedded("16"), fresh_home, SilentProgress(), {"PGDYNO_MAVEN_URL": url})
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("url", ["ftp://x", "http://mirror.example/maven2", "http://127.0.0.1.example", "file:///x"])
def test_an_address_that_is_none(fresh_home: Home, url: str) -> None:
    with pytest.raises(TargetError, match=f"cannot use PGDYNO_MAVEN_URL {re.escape(url)}: not an https address"):
        find_embedded(embedded("18"), fresh_home, SilentProgress(), {"PGDYNO_MAVEN_URL": url})


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
    fresh_home: Home, mirror: LocalMirror, small_archive: Archive, child_environment: dict[str, str]
) -> None:
    path = mirror.publish("18.99.0", small_archive())
    go = threading.Event()
    mirror.answers[path] = [mirror.broken(hold=go)]
    environment = {**child_environment, **mirror.environ}

    def start() -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", FETCHER, str(fresh_home.path)]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment)

    with start() as first:
        mirror.wait_for(path)
        with start() as second:
            while (line := present(second.stdout).readline()) and not line.startswith("waiting"):
                pass
            go.set()
            assert line == "waiting for another pgdyno, which downloads PostgreSQL 18.99\n"
            assert present(second.stdout).read() == "found 18.99\n"
            assert present(first.stdout).read().endswith("found 18.99\n")
    assert (first.returncode, second.returncode) == (0, 0)
    assert mirror.count(path) == 1
