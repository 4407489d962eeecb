"""The oldest, a middle and the newest PostgreSQL: prepared, reset, checked, examined.

Each is 10 to 15 MB and is fetched once, which takes a second or two.
"""

from __future__ import annotations

import pytest

from pgdyno.plan.known_settings import SINCE, UNTIL, why_unknown
from pgdyno.plan.model import Reset
from pgdyno.prepare import Dataset, Preparer
from pgdyno.run import find_engine
from pgdyno.targets import Home, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget

SMALL = Dataset("pgbench", 1)
QUICK = {"fsync": "off", "shared_buffers": "16MB", "work_mem": "7MB"}


@pytest.mark.long_cases("[10", "[13", "snapshot", "template")
@pytest.mark.parametrize("method", ["vacuum", "template", "snapshot"])
@pytest.mark.parametrize("version", ["10", "13", "18"])
def test_every_version_is_prepared_and_checked_alike(home: Home, version: str, method: str) -> None:
    spec = EmbeddedTarget(kind="embedded", version=version, settings=QUICK)
    reset = Reset.model_validate(
        {
            "method": method,
            "restart": True,
            "drop_cache": "files",
            "prewarm": "read",
            "analyze": True,
            "statistics": True,
            "consistency": "full",
        }
    )
    with open_target("t", spec, home=home, progress=SilentProgress()) as server:
        preparer = Preparer(server, find_engine(), SilentProgress(), reset, {"tpcb-like"})
        for _ in range(2):
            prepared = preparer.prepare(SMALL)
            assert (prepared.dataset_bytes or 0) > 10_000_000
            # the table is there, its index is not
            assert 0.5 < (prepared.page_cache_share or 0) < 1
            found = preparer.check()
            assert found is not None
            assert found.violations == []
            assert found.counts["pgbench_accounts"] == 100_000
        facts = server.facts()
    assert facts.version.startswith(f"{version}.")
    assert facts.settings_changed["work_mem"] == "7MB"
    assert facts.data_checksums
    assert (facts.cluster_bytes or 0) > 10_000_000


@pytest.mark.parametrize("version", ["10", "13", "18"])
def test_the_settings_that_a_version_knows_are_those_of_the_table(home: Home, version: str) -> None:
    spec = EmbeddedTarget(kind="embedded", version=version, settings=QUICK)
    with open_target("t", spec, home=home, progress=SilentProgress()) as server, server.connect() as session:
        known = {name for (name,) in session.execute("SELECT name FROM pg_settings")}
    told = {name for name in SINCE | UNTIL if why_unknown(name, int(version)) is None}
    assert told == known & (SINCE.keys() | UNTIL.keys())
