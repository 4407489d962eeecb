"""kind = "embedded": a published build, downloaded once and kept unpacked in the home."""

from collections.abc import Mapping
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.targets.cluster.installation import (
    Installation,
    Release,
    classifier,
    inspect_programs,
    newest_match,
    parse_asked,
    parse_release,
    resolve,
)
from pgdyno.targets.embedded.fetch_and_unpack import discard, unpack_archive
from pgdyno.targets.embedded.maven_repository import Mirror, parse_list
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.targets.home import Home, Progress, ensure_folder, write_whole
from pgdyno.targets.kind import OwnKind, TargetKind


def find_embedded(
    spec: EmbeddedTarget, home: Home, progress: Progress, environ: Mapping[str, str] | None = None
) -> Installation:
    """Return the build that `spec` asks for, downloaded if necessary. Raises TargetError.

    An exact version that is unpacked needs no network. For a major version, pgdyno asks the mirror for the newest one;
    without an answer it takes the newest unpacked one and adds a note.
    """
    machine = classifier()
    mirror = Mirror.from_environment(machine, environ)
    asked = parse_asked(spec.version)
    release = newest_match(asked, _list_unpacked(home, machine)) if len(asked) > 1 else None
    notes: list[Message] = []
    if release is None:
        release, notes = _choose(spec.version, asked, mirror, home, progress)
    folder = _folder(home, release, machine)
    if not folder.is_dir():
        notes += _fetch(release, folder, mirror, home, progress)
    remedy = f"remove {folder}; the next start fetches it again"
    version, major = inspect_programs(folder / "bin", home.account, None, remedy)
    return Installation(folder / "bin", version, major, f"embedded {release} {machine}", notes=notes)


def _choose(
    text: str, asked: tuple[int, ...], mirror: Mirror, home: Home, progress: Progress
) -> tuple[Release, list[Message]]:
    progress.step(f"looking up PostgreSQL {text}")
    cached = home.downloads / f"versions-{mirror.classifier}.xml"
    try:
        listed = mirror.fetch_list()
    except TargetError as error:
        unpacked = newest_match(asked, _list_unpacked(home, mirror.classifier))
        if unpacked is not None:
            note = Message(
                "newest-in-cache",
                "PostgreSQL {version} is the newest {asked} in the cache; pgdyno could not check for a newer one: "
                "{error}",
                version=unpacked.postgres,
                asked=text,
                error=error.message,
            )
            progress.step(str(note))
            return unpacked, [note]
        # an old list can still distinguish a wrong version from a network failure
        known = parse_list(cached.read_text(encoding="utf-8")) if cached.is_file() else None
        if known is not None:
            resolve(text, known)
        raise
    ensure_folder(home.downloads)
    write_whole(cached, listed.encode())
    return resolve(text, parse_list(listed) or []), []


def _fetch(release: Release, folder: Path, mirror: Mirror, home: Home, progress: Progress) -> list[Message]:
    name = f"PostgreSQL {release.postgres}"
    waiting = f"waiting for another pgdyno, which downloads {name}"
    with home.hold_lock(f"postgres-{folder.name}", progress, waiting):
        if folder.is_dir():
            return []
        ensure_folder(home.downloads)
        archive = home.downloads / mirror.archive_name(release)
        progress.step(f"fetching {name}")
        note = mirror.fetch_archive(release, archive, progress)
        progress.step(f"unpacking {name}")
        try:
            unpack_archive(archive, folder)
        finally:
            discard(archive)
    return [] if note is None else [note]


def _list_unpacked(home: Home, machine: str) -> list[Release]:
    if not home.postgres.is_dir():
        return []
    names = [entry.name for entry in home.postgres.iterdir() if entry.name.endswith(f"-{machine}")]
    found = [parse_release(name.removesuffix(f"-{machine}")) for name in names]
    return [release for release in found if release is not None]


def _folder(home: Home, release: Release, machine: str) -> Path:
    return home.postgres / f"{release}-{machine}"


KIND: TargetKind[EmbeddedTarget, Installation] = OwnKind(find_embedded)
