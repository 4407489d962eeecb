"""Updates the list of pinned digests of embedded servers: `make pins`.

For each machine architecture, it downloads the newest release of every major version that the list lacks, and computes
the SHA-256 of the file, which must equal the one that the repository publishes. It also pins releases named as
arguments ("17.4.0"). It never changes a digest in the list: if the repository now has another one, that is an error.
"""

import sys
import tempfile
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.targets.cluster.installation import OLDEST_MAJOR, parse_release
from pgdyno.targets.embedded.maven_repository import PINS, Mirror, file_digest, parse_list, read_pins
from pgdyno.targets.home import SilentProgress

MACHINES = ("linux-amd64", "linux-arm64v8")
HEAD = """\
# SHA-256 of the archives of embedded servers, computed from the archives themselves: "make pins" adds to the list.
"""


def main(wanted: list[str]) -> int:
    """Adds the missing digests; returns 1 if an archive could not be downloaded."""
    pins = dict(read_pins())
    failed = 0
    for machine in MACHINES:
        mirror = Mirror.from_environment(machine)
        releases = [each for each in parse_list(mirror.fetch_list()) or [] if each.major >= OLDEST_MAJOR]
        newest = {major: max(r for r in releases if r.major == major) for major in {r.major for r in releases}}
        named = {each for each in releases if str(each) in wanted or parse_release(str(each)) in newest.values()}
        for release in sorted(named):
            name = mirror.archive_name(release)
            if name in pins:
                continue
            try:
                with tempfile.TemporaryDirectory() as folder:
                    archive = Path(folder) / name
                    mirror.fetch_archive(release, archive, SilentProgress())
                    pins[name] = file_digest(archive, "sha256")
            except TargetError as error:
                failed += 1
                print(f"not pinned: {name}: {error.message}", file=sys.stderr)
                continue
            print(f"{pins[name]}  {name}", flush=True)
            PINS.write_text(HEAD + "".join(f"{pins[each]}  {each}\n" for each in sorted(pins)), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
