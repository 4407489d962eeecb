"""TPC-C's profiles, and what they do with an order that contains an unused item.

docs/design/tprocc.md has the sources for HammerDB's releases.
"""

from typing import Literal

Profile = Literal["hammerdb", "hammerdb-6.1.1", "hammerdb-6.1", "hammerdb-6.0", "spec"]
UnusedItem = Literal["commits", "rolls back"]

NEWEST_HAMMERDB: Profile = "hammerdb-6.1.1"
"""The profile that a plan means by `hammerdb`."""
UNNAMED_RELEASE: Profile = "hammerdb-6.1"
"""What `hammerdb` means in runs and databases from before releases had profiles: the server always rolled back."""


def unused_item(profile: str, variant: str) -> UnusedItem:
    """Return what the server does with a New-Order with an unused item: pgdrive's `Variant::commits_unused_item`."""
    if profile == "hammerdb-6.0":
        return "commits" if variant in ("functions", "procedures") else "rolls back"
    return "commits" if (profile, variant) == (NEWEST_HAMMERDB, "functions") else "rolls back"


def profile_of_release(version: str) -> Profile | None:
    """Return the profile of a release of HammerDB, such as `4.12`; None for an unknown one, and before 4.0."""
    try:
        release = tuple(map(int, version.split(".")))
    except ValueError:
        return None
    if release < (4,):
        return None
    if release < (6, 1):
        return "hammerdb-6.0"
    return "hammerdb-6.1" if release < (6, 1, 1) else NEWEST_HAMMERDB
