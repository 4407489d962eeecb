"""TPC-C's tables."""

from typing import Any, ClassVar

from pgdyno.prepare.dataset import Dataset, Tables, run_engine
from pgdyno.records import Consistency
from pgdyno.records.tpcc_profile import UNNAMED_RELEASE
from pgdyno.run.process import Event

BROKEN = 3
"""The engine's exit code for a violated condition."""
REQUIRED = "the standard's consistency conditions 1 to 4, and the rows of warehouse and district"
ALL = "all 12 of the standard's consistency conditions, and the rows of tables of a fixed size"


class TpccTables(Tables):
    checking: ClassVar[str] = "checking TPC-C's consistency conditions"

    @staticmethod
    def size_options(dataset: Dataset) -> list[str]:
        return [f"--dataset={dataset.name}", f"--warehouses={dataset.scale}", f"--tpcc-profile={dataset.profile}"]

    @staticmethod
    def read_options(said: dict[str, Any]) -> dict[str, Any]:
        profile = said["options"].get("tpcc-profile")
        return {"profile": UNNAMED_RELEASE if profile == "hammerdb" else profile}

    def count(self) -> Consistency:
        """Check all 12 conditions if the plan asks for a full check, else 1 to 4."""
        is_full, events = self.reset.consistency == "full", list[Event]()
        options = ["--tpcc-check", *self.size_options(self.dataset)[1:], "--events=-"]
        options += ["--thorough"] if is_full else []
        doing = "check TPC-C's consistency conditions"
        run_engine(self.engine, options, self.server, doing, events.append, (0, BROKEN))
        violations = [
            f"condition {each['number']} ({each['text']}) is violated in {each['violations']} places: "
            f"{each['examples']}"
            for each in events
            if each["event"] == "condition" and each["violations"]
        ]
        scope, rule = ("full", ALL) if is_full else ("counts", REQUIRED)
        return Consistency(scope=scope, rule=rule, seconds=0.0, counts={}, violations=violations)


TABLES = TpccTables
