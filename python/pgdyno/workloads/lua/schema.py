"""Plans with `lua` or with the `name` of one of sysbench's workloads."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field

from pgdyno.effect import BUILTIN_SCRIPTS
from pgdyno.errors import InvalidValueError, Problem
from pgdyno.plan.plan_document import Document, KeyPath
from pgdyno.plan.values import Setting
from pgdyno.plan.workload_schema import SBTEST, AnyDataset, Excluded, Workload, sweeps
from pgdyno.records import Point

_SENDS = 'remove it; workload.options = { db_ps_mode = "disable" } sends them without preparing them'


class Lua(Workload):
    """A Lua script of sysbench."""

    kind: ClassVar[str] = "lua"
    naming_files: ClassVar = ("lua",)
    excluded: ClassVar = (
        Excluded("sweep.protocol", "a Lua script itself decides how to send its statements", _SENDS),
        # the engine knows the script's options; pgdyno queries it before the run
        Excluded("workload.variables", "a Lua script takes options", "put them in workload.options"),
    )
    bytes_a_unit: ClassVar[int] = 260
    sending_option: ClassVar[str] = "--report-per-command"
    hidden_parameters: ClassVar = frozenset({"protocol"})

    name: str | None = None
    """One of sysbench's workloads. It defines scripts and dataset."""
    lua: str | None = None
    """A sysbench Lua script: a file, or the name of an installed one."""
    options: dict[str, Setting] = {}
    """Options of `lua`, or of the workload `name`."""
    allow_lua_system: bool = Field(default=False, exclude=True)
    """Accepted from plans for earlier versions, without an effect: every script of `lua` may do this."""
    dataset: AnyDataset = "none"

    @classmethod
    def fill(cls, section: dict[str, Any]) -> dict[str, Any]:
        given = [section[key] for key in ("lua", "name") if section.get(key) is not None]
        if len(given) > 1 or section.get("scripts", given) != given:
            raise ValueError("give one of scripts, lua and name")
        if section.get("name") in BUILTIN_SCRIPTS:
            (name,) = given
            raise InvalidValueError(f'"{name}" is a script, not a workload', f'set scripts = ["{name}"] instead')
        dataset = "none" if section.get("lua") is not None else SBTEST
        return {"dataset": dataset, **section, "scripts": given}

    def check(self, document: Document) -> Iterator[Problem]:
        """Refuses options that name a server: the load must use the prepared and observed server."""
        for path in (("workload", "options"), *sweeps(document, ("variables",))):
            table = document.value_at(path)
            for name in table if isinstance(table, dict) else ():
                if str(name).replace("-", "_").startswith("pgsql_"):
                    message = f"{name} names a server, which [target] does"
                    yield document.problem((*path, name), message, "remove it")

    @property
    def lua_script(self) -> str | None:
        return self.lua

    def executes(self) -> Iterator[tuple[KeyPath, str]]:
        if self.lua is not None:
            yield ("lua",), f"the Lua script {self.lua}, which may start programs and call C"

    def engine_options(self) -> list[str]:
        what = f"--lua={self.lua}" if self.lua is not None else f"--workload={self.name}"
        return [what, *_options(self.options)]

    def value_options(self, point: Point) -> list[str]:
        # a script refuses options that it does not declare
        of_data = self.own_data.variables if self.own_data is not None else {}
        given = {name: value for name, value in point.variables.items() if name not in of_data}
        return _options(self.size_variables(point) | given)


def _options(values: Mapping[str, object]) -> list[str]:
    words = {True: "on", False: "off"}
    return [f"--lua-opt={name}={words[value] if isinstance(value, bool) else value}" for name, value in values.items()]
