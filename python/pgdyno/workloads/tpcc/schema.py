"""Plans with the engine's TPC-C."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from pgdyno.effect import TPCC_SCRIPTS
from pgdyno.errors import Problem
from pgdyno.plan.plan_document import Document
from pgdyno.plan.values import RESOLVED, Positive
from pgdyno.plan.workload_schema import Excluded, Workload
from pgdyno.records.tpcc_profile import NEWEST_HAMMERDB, UNNAMED_RELEASE, Profile

_BRING_BACK = 'set it to "template", "snapshot" or "reload", or to "none" if that is what you want'


class Tpcc(Workload):
    """A load derived from TPC-C."""

    kind: ClassVar[str] = "tpcc"
    excluded: ClassVar = (
        Excluded("workload.scripts", "it defines scripts and dataset itself"),
        Excluded("workload.variables sweep.variables", "it has no scripts"),
        Excluded("sweep.protocol", "the variant defines how statements are sent", "remove it; set workload.variant"),
        Excluded("reset.method", "vacuum leaves the tables as the previous trial left them", _BRING_BACK, ("vacuum",)),
    )
    # transactions change the data, and vacuum does not restore it
    usual_reset: ClassVar[str] = "template"
    # a warehouse with the rows of one trial
    bytes_a_unit: ClassVar[int] = 120_000_000
    sending_option: ClassVar[str] = ""
    prepares: ClassVar[bool] = True
    hidden_parameters: ClassVar = frozenset({"protocol"})

    name: Literal["tpcc"]
    profile: Profile = Field(default="hammerdb", validate_default=True)
    """Rules that TPC-C follows; "hammerdb" means HammerDB's newest release."""
    warehouses: Positive | None = None
    """Size of TPC-C in warehouses; None: `scale`."""
    variant: Literal["functions", "procedures", "sql", "sql-pipelined"] = "functions"
    """How TPC-C's transactions are sent to the server."""
    scripts: list[str] = Field(default=["tpcc"])
    dataset: Literal["tpcc"] = "tpcc"

    @classmethod
    def fill(cls, section: dict[str, Any]) -> dict[str, Any]:
        warehouses = section.get("warehouses")
        # any other value is reported by the field's own check
        scale = {"scale": warehouses} if isinstance(warehouses, int) and warehouses > 0 else {}
        return section | scale

    @field_validator("profile", mode="before")
    @classmethod
    def _with_release(cls, profile: object, info: ValidationInfo) -> object:
        release = UNNAMED_RELEASE if info.context == RESOLVED else NEWEST_HAMMERDB
        return release if profile == "hammerdb" else profile

    def check(self, document: Document) -> Iterator[Problem]:
        if document.value_at(("workload", "scale")) not in (None, self.scale):
            yield document.problem(("workload", "scale"), "differs from warehouses", "remove one of them")

    @property
    def dataset_options(self) -> dict[str, Any]:
        return {"profile": self.profile}

    @property
    def transactions(self) -> Sequence[str]:
        return TPCC_SCRIPTS

    def describe(self) -> str:
        return f"tpcc, derived from TPC-C, profile {self.profile}, {self.variant}"

    def engine_options(self) -> list[str]:
        return ["--workload=tpcc", f"--tpcc-profile={self.profile}", f"--tpcc-variant={self.variant}"]
