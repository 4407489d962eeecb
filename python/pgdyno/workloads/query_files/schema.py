"""Plans with `queries`."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from pgdyno.effect import has_plan
from pgdyno.errors import Problem
from pgdyno.plan.plan_document import Document
from pgdyno.plan.workload_schema import AnyDataset, Excluded, Statement, Workload
from pgdyno.registry import kinds_that_are

_AS_WRITTEN = "queries are sent as they are written, in the simple protocol"
_OWN_END = "a trial ends when each query has run as many times as workload.runs says"


class MeasuredQueries(Workload):
    """Queries, each measured by itself: every client runs all of them in rounds, each in an order of its own."""

    excluded: ClassVar[Sequence[Excluded]] = (
        Excluded("workload.scripts", "its files are those of workload.queries"),
        Excluded("workload.variables sweep.variables sweep.protocol", _AS_WRITTEN),
        Excluded("trial.duration trial.transactions", _OWN_END, "remove it, and set workload.runs"),
        Excluded("trial.warmup", "the first run of each query is told apart"),
        Excluded("trial.max_errors trial.reconnect", "the first error ends the trial"),
        Excluded("trial.ledger", "it needs a script that writes the ledger's rows"),
        Excluded("trial.order", "a duet compares second by second, and queries take longer", values=["duet"]),
        Excluded("phase sweep.rate", "a client runs one query after the other, without a rate"),
        Excluded("search", "a search is for a load of transactions"),
        Excluded("group step", "its queries are loads already"),
        Excluded("probe.profile", "a profile is of a load of fixed length"),
        Excluded("generator generators", "one engine runs all queries"),
        Excluded("workload.connect", "each of its clients runs one session", values=["each"]),
    )
    own_end: ClassVar = ("all queries", "all queries, workload.runs times")
    sending_option: ClassVar[str] = ""
    hidden_parameters: ClassVar = frozenset({"protocol", "rate"})

    runs: Annotated[int, Field(ge=2, le=10_000)] = 5
    """How many times each client runs each query in a trial; the first is told apart."""
    cache: Literal["warm", "cold"] = "warm"
    """With "cold", each query also runs once in each trial after a restart, without anything in the kernel's cache."""
    instructions: bool = False
    """Also count the instructions of each query, once in each arm, in a server under Valgrind."""

    @classmethod
    def complete(cls, document: Document, folder: Path) -> tuple[Document, Sequence[Problem]]:
        del folder
        return replace(document, data={**document.data, "sweep": {"clients": [1]} | document.data.get("sweep", {})}), []

    def check(self, document: Document) -> Iterator[Problem]:
        targets = document.value_at(("target",))
        away = [
            name
            for name, table in (targets.items() if isinstance(targets, dict) else ())
            if isinstance(table, dict) and table.get("kind") not in kinds_that_are("here")
        ]
        for key, is_wanted, why, hint in (
            ("cache", self.runs_cold, "its cache cannot be emptied", 'use cache = "warm"'),
            ("instructions", self.instructions, "its instructions cannot be counted", "remove it"),
        ):
            for name in away if is_wanted else ():
                message = f"target {name} is not a server that pgdyno starts here: {why}"
                yield document.problem(("workload", key), message, f"{hint}, or another kind of target")

    @property
    def runs_cold(self) -> bool:
        return self.cache == "cold"

    @property
    def counts_queries(self) -> bool:
        return self.instructions

    def describe(self) -> str:
        return f"{len(self.query_files)} queries, each {self.runs} times"

    def engine_options(self) -> list[str]:
        return [*self.query_options(), f"--transactions={self.runs}", "--changed-texts"]


class QueryFiles(MeasuredQueries):
    """SQL files, each measured by itself."""

    kind: ClassVar[str] = "query-files"

    queries: Annotated[list[str], Field(min_length=1)]
    """SQL files, or patterns such as "q/*.sql"; each file is sent as it is."""
    scripts: list[str] = Field(default_factory=list, exclude=True)
    dataset: AnyDataset = "none"

    @classmethod
    def fill(cls, section: dict[str, Any]) -> dict[str, Any]:
        return section | {"scripts": section.get("queries")}

    @classmethod
    def complete(cls, document: Document, folder: Path) -> tuple[Document, Sequence[Problem]]:
        given = document.value_at(("workload", "queries"))
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            return document, []
        found: list[str] = []
        problems = []
        for place, pattern in enumerate(given):
            # a name without a match is reported as a missing file
            files = sorted(map(str, folder.glob(pattern))) if set("*?[") & set(pattern) else [pattern]
            if not files:
                message = f"no file in {folder} matches {pattern}"
                problems.append(document.problem(("workload", "queries", place), message, "name SQL files"))
            found += [
                str(Path(each).relative_to(folder)) if Path(each).is_relative_to(folder) else each for each in files
            ]
        section = document.data["workload"] | {"queries": list(dict.fromkeys(found)) or given}
        completed, _ = super().complete(replace(document, data={**document.data, "workload": section}), folder)
        return completed, problems

    @property
    def written_scripts(self) -> list[str]:
        return self.queries

    @property
    def query_files(self) -> Sequence[str]:
        return self.queries

    def query_options(self, query: str | None = None) -> list[str]:
        files = self.queries if query is None else [query]
        return ["--workload=queries", *(f"--file={each}" for each in files)]

    def listing_options(self, seed: int) -> list[str] | None:
        del seed
        return ["--check=statements", *(f"--file={each}" for each in self.queries)]

    def read_listing(self, printed: str) -> list[Statement]:
        lines = [json.loads(line) for line in printed.splitlines()]
        # of a file with several statements, the times are those of all
        found = {line["script"]: line["text"].rstrip("; \n") for line in reversed(lines)}
        return [Statement(0, number, text) for number, text in sorted(found.items()) if has_plan(text)]
