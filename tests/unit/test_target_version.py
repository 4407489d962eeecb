"""Which published build a version in a plan means."""

import re

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets.cluster.installation import Release, classifier, newest_match, parse_release, resolve
from pgdyno.targets.embedded.maven_repository import parse_list

NAMES = "9.6.24 10.5.0 10.5.0-1 10.15.0-1 10.23.0 11.5.0 12.17.0 12.17.1 17.9.0 17.10.0 18.0.0 18.4.0 18.6.0"
KNOWN = [release for name in NAMES.split() if (release := parse_release(name)) is not None]


def test_the_release_that_a_version_means() -> None:
    meant = "18 18.6.0, 18.6 18.6.0, 18.6.0 18.6.0, 18.0 18.0.0, 17 17.10.0, 17.9 17.9.0, 12.17 12.17.1, "
    meant += "12.17.0 12.17.0, 10.5 10.5.0-1, 10.15.0 10.15.0-1, 10 10.23.0"
    assert ", ".join(f"{asked} {resolve(asked, KNOWN)}" for asked in re.findall(r"([\d.]+) ", meant)) == meant


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("18.5", "nearest: 18.0, 18.4, 18.6"),
        ("18.99", "nearest: 18.0, 18.4, 18.6"),
        ("12.17.5", "nearest: 12.17.0, 12.17.1"),
        ("12.1.5", "nearest: 12.17"),
        ("19", "nearest: 17, 18; there are 10 to 18"),
        ("14.2", "nearest: 12, 17; there are 10 to 18"),
        ("13", "nearest: 11, 12; there are 10 to 18"),
    ],
)
def test_the_nearest_are_offered(asked: str, hint: str) -> None:
    with pytest.raises(TargetError) as caught:
        resolve(asked, KNOWN)
    assert caught.value.message == f"cannot get PostgreSQL {asked}: there is no such version"
    assert caught.value.hint == hint


def test_versions_before_10_are_refused() -> None:
    for asked in ("9", "9.6", "9.6.24"):
        with pytest.raises(TargetError, match=f"cannot get PostgreSQL {asked}: older than 10"):
            resolve(asked, KNOWN)


def test_a_list_without_versions() -> None:
    with pytest.raises(TargetError) as caught:
        resolve("18", [])
    assert caught.value.hint == "the mirror has no versions for this processor architecture"


def test_releases_are_ordered_by_numbers() -> None:
    shuffled = sorted(KNOWN, key=str)
    assert shuffled != KNOWN
    assert sorted(shuffled) == KNOWN
    assert [str(release) for release in KNOWN] == NAMES.split()
    assert newest_match((16,), KNOWN) is None
    assert KNOWN[2].postgres == "10.5"
    for name in ("18", "18.6", "18.6.0-beta", "18.6.0.1", "", "x18.6.0"):
        assert parse_release(name) is None


def test_the_list_of_a_mirror() -> None:
    versions = "<version>18.6.0</version><version>odd</version><version> 17.1.0 </version>"
    text = f"<metadata><versioning><latest>1.1.1</latest><versions>{versions}</versions></versioning></metadata>"
    assert parse_list(text) == [Release(18, 6, 0), Release(17, 1, 0)]
    assert parse_list("<html><body/></html>") is None
    assert parse_list("nothing of the kind") is None
    odd = "".join(f"<version>{each}</version>" for each in (f"18.{'9' * 5_000}.0", "\u0663.1.0", "18.6.0"))
    assert parse_list(f"<metadata><versions>{odd}</versions></metadata>") == [Release(18, 6, 0)]
    # the time grows with the length: four nested searches over 4 MiB would take years
    assert parse_list("<metadata <versions></versions>" * 130_000) is None


def test_builds_of_a_machine() -> None:
    for machines, name in (("x86_64 AMD64", "linux-amd64"), ("aarch64 arm64", "linux-arm64v8")):
        assert {classifier("Linux", machine) for machine in machines.split()} == {name}
    for system, machine in (("Linux", "riscv64"), ("Darwin", "arm64")):
        with pytest.raises(TargetError, match=f"for {system} on {machine}") as caught:
            classifier(system, machine)
        assert 'kind = "local"' in str(caught.value.hint)
