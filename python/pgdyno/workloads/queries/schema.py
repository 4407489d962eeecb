"""Plans with loads derived from TPC-H."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field

from pgdyno.errors import InvalidValueError
from pgdyno.messages import Message
from pgdyno.plan.values import Positive
from pgdyno.plan.workload_schema import Excluded, Statement, Workload
from pgdyno.workloads.query_files.schema import MeasuredQueries

if TYPE_CHECKING:
    from pgdyno.records import QueryResult

HUNDREDTHS = 100
"""The unit of `Workload.scale` is a hundredth of the scale factor, as in its dataset stamp."""
QUERIES = 22
LARGEST_SCALE_FACTOR = 1_000
"""The engine's limit."""


def _scale_factor(value: object) -> object:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0.01 <= value <= LARGEST_SCALE_FACTOR:
        hundredths = value * HUNDREDTHS
        if abs(hundredths - round(hundredths)) < 1e-6:
            return float(value)
    raise InvalidValueError("is invalid", "write a number from 0.01 to 1000 with at most two decimals, such as 0.1")


ScaleFactor = Annotated[
    float,
    BeforeValidator(_scale_factor, json_schema_input_type=Annotated[float, Field(ge=0.01, le=LARGEST_SCALE_FACTOR)]),
]

_QUERY = re.compile(r"^(-- Q(\d+)\n.*?);$", re.MULTILINE | re.DOTALL)
_OWN_END = "a trial ends with its last refresh function"
_ONE_SIZE = "the size is workload.scale_factor"
_ONE_BY_ONE = 'remove it, or set it to "interleaved"'
_RESTORING = 'set it to "template", "snapshot" or "reload"'
_KEEPING = ("vacuum", "none")


SIZE = (
    Excluded("workload.scale", _ONE_SIZE, "set scale_factor"),
    Excluded("sweep.scale", _ONE_SIZE, "measure another scale factor with a plan of its own"),
)


class TpchSize(Workload):
    """The size of TPC-H's tables."""

    # with indexes; measured in docs/design/tpch.md
    bytes_a_unit: ClassVar[int] = 18_000_000
    # a plan's heading shows the scale factor
    hidden_parameters: ClassVar = frozenset({"protocol", "scale", "rate"})

    scale_factor: ScaleFactor = 1.0
    """Size of tpch, derived from TPC-H: 1 is about 1 GB of text; 0.01 to 1000."""
    scale: Positive = Field(default=HUNDREDTHS, exclude=True)

    @classmethod
    def fill(cls, section: dict[str, Any]) -> dict[str, Any]:
        factor = section.get("scale_factor", 1)
        # any other value is reported by the field's own check
        is_valid = isinstance(factor, int | float) and 1 / HUNDREDTHS <= factor <= LARGEST_SCALE_FACTOR
        return section | ({"scale": round(factor * HUNDREDTHS)} if is_valid else {})

    def resize(self, size: int) -> Self:
        return self.model_copy(update={"scale": size, "scale_factor": size / HUNDREDTHS})

    def tell_size(self, size: int, was: int, on_disk: str) -> Message:
        factors = {"now": size / HUNDREDTHS, "was": was / HUNDREDTHS}
        return Message(
            "scale-factor-reduced", "the scale factor is {now:g} ({size}) instead of {was:g}", size=on_disk, **factors
        )

    def read_listing(self, printed: str) -> list[Statement]:
        # each begins with a comment with its number
        return [Statement(0, int(number) - 1, text) for text, number in _QUERY.findall(printed)]


class Tpch(TpchSize):
    """A load derived from TPC-H, whose trials end by themselves."""

    kind: ClassVar[str] = "queries"
    excluded: ClassVar = (
        *SIZE,
        Excluded("workload.scripts", "it defines scripts and dataset itself"),
        Excluded("workload.variables sweep.variables", "it has queries and parameters of its own"),
        Excluded("trial.duration", _OWN_END, "remove it; session_settings.statement_timeout limits a query"),
        Excluded("trial.transactions", _OWN_END),
        Excluded("trial.warmup", "it measures all queries from the first one on", "remove it, or set reset.prewarm"),
        Excluded("trial.max_errors trial.reconnect", "the first error ends the trial"),
        Excluded("trial.ledger", "it needs a script that writes the ledger's rows"),
        Excluded("trial.order", "a duet compares second by second, and queries take longer", _ONE_BY_ONE, ["duet"]),
        Excluded("reset.method", "nothing would restore the tables after refresh functions", _RESTORING, _KEEPING),
        Excluded("phase sweep.rate", "a client runs one query after the other, without a rate"),
        Excluded("search", "its clients are streams of one test", "list the numbers of streams in sweep.clients"),
        Excluded("probe.profile", "a profile is of a load of fixed length"),
        Excluded("generator generators", "one engine runs all streams", "remove it: the load then starts from here"),
        Excluded("workload.connect", "each of its clients runs one session", values=["each"]),
        Excluded("sweep.connect", "each of its clients runs one session"),
        Excluded("sweep.protocol", "queries are sent in the simple protocol"),
    )
    own_end: ClassVar = ("power + throughput", "a power run, and a throughput run with a stream per client")
    # refresh functions change the data, and vacuum does not restore it
    usual_reset: ClassVar[str] = "template"
    sending_option: ClassVar[str] = ""

    name: Literal["tpch"]
    scripts: list[str] = Field(default=["tpch"])
    dataset: Literal["tpch"] = "tpch"

    def estimated_s(self, clients: int) -> float | None:
        # the power run, and each stream, for a hundredth of the scale factor; measured in docs/design/tpch.md
        return 0.3 * self.scale * (1 + clients)

    def describe(self) -> str:
        return f"tpch, derived from TPC-H, scale factor {self.scale_factor:g}"

    def engine_options(self) -> list[str]:
        return ["--workload=tpch"]

    def listing_options(self, seed: int) -> list[str] | None:
        return ["--tpch-queries=0", f"--scale-factor={self.scale_factor:g}", f"--random-seed={seed}"]


class TpchQueries(TpchSize, MeasuredQueries):
    """TPC-H's queries with the parameters of the specification's validation, each measured by itself."""

    kind: ClassVar[str] = "tpch-queries"
    excluded: ClassVar[Sequence[Excluded]] = (*SIZE, *MeasuredQueries.excluded)

    # they only read
    usual_reset: ClassVar[str] = "none"

    queries: Literal["tpch"]
    """TPC-H's 22 queries."""
    scripts: list[str] = Field(default=["tpch-queries"])
    dataset: Literal["tpch", "none"] = "tpch"

    @property
    def query_files(self) -> Sequence[str]:
        return [f"Q{number}" for number in range(1, QUERIES + 1)]

    def query_options(self, query: str | None = None) -> list[str]:
        options = [f"--tpch-queries={query or 'validation'}", f"--scale-factor={self.scale_factor:g}"]
        return ["--workload=queries", *options]

    def listing_options(self, seed: int) -> list[str] | None:
        del seed
        return self.query_options()[1:]

    @property
    def known_results(self) -> Mapping[str, "QueryResult"]:
        if self.scale_factor != 1:
            return {}
        # imported here: most plans have no TPC-H
        from pgdyno.records import QueryResult

        answers = json.loads(Path(__file__).with_name("answers.json").read_text(encoding="utf-8"))["answers"]
        return {name: QueryResult(query=name, **answer) for name, answer in answers.items()}

    def estimated_s(self, clients: int) -> float | None:
        # as those of streams
        return 0.3 * self.scale * clients * (self.runs + 1)

    def describe(self) -> str:
        return f"TPC-H's {QUERIES} queries, each {self.runs} times, scale factor {self.scale_factor:g}"
