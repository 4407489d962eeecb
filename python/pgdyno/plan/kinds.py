"""The kinds of targets, rented generators and workloads in `pgdyno.registry` whose package is installed."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union

from pydantic import BaseModel, BeforeValidator, Discriminator, Field, Tag, ValidationInfo
from pydantic_core import PydanticKnownError

from pgdyno.plan.targets import RentedHosts, TargetSpec
from pgdyno.plan.values import ByOwnModel
from pgdyno.plan.workload_schema import Workload
from pgdyno.registry import GENERATORS, KINDS, WORKLOADS, is_installed, load_module, workload_kind

_M = TypeVar("_M", bound=BaseModel)


class Schemas(Mapping[str, type[_M]]):
    """Schemas by kind; each is imported when it is first used."""

    def __init__(self, places: Mapping[str, str]) -> None:
        """`places` are modules and classes, as in the registry."""
        self._places = places

    def __getitem__(self, kind: str) -> type[_M]:
        module, _, name = self._places[kind].partition(":")
        schemas = load_module(module)
        if schemas is None:
            raise KeyError(kind)
        schema: type[_M] = getattr(schemas, name)
        return schema

    def __contains__(self, kind: object) -> bool:
        return isinstance(kind, str) and kind in self._places and is_installed(self._places[kind])

    def __iter__(self) -> Iterator[str]:
        return filter(self.__contains__, self._places)

    def __len__(self) -> int:
        return sum(1 for _ in self)


TARGET_KINDS = Schemas[TargetSpec]({name: kind.schema for name, kind in KINDS.items()})
GENERATOR_KINDS = Schemas[RentedHosts](GENERATORS)
WORKLOAD_KINDS = Schemas[Workload]({name: kind.schema for name, kind in WORKLOADS.items()})


def workload_schema(section: object) -> type[Workload]:
    """Return the schema of `section`, a workload or what a plan has in its place."""
    return WORKLOAD_KINDS[_workload_kind(section)]


def _workload_kind(section: object) -> str:
    return (
        section.kind if isinstance(section, Workload) else workload_kind(section if isinstance(section, dict) else {})
    )


def kinds_in_words() -> str:
    """Return `kind = "embedded" (downloaded by pgdyno), …`; kinds with the same summary are grouped."""
    groups: dict[str, list[str]] = {}
    for kind, schema in TARGET_KINDS.items():
        groups.setdefault(schema.summary, []).append(f'"{kind}"')
    return "kind = " + ", ".join(f"{alternatives(kinds)} ({summary})" for summary, kinds in groups.items())


def alternatives(words: list[str]) -> str:
    """Return `a, b or c`."""
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def _read_target(value: object, info: ValidationInfo) -> TargetSpec:
    if isinstance(value, TargetSpec):
        return value
    if not isinstance(value, dict):
        raise PydanticKnownError("model_attributes_type")
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in TARGET_KINDS:
        raise PydanticKnownError("union_tag_not_found", {"discriminator": "kind"})
    return TARGET_KINDS[kind].model_validate(value, context=info.context)


def _read_generator(value: object, info: ValidationInfo) -> RentedHosts | None:
    if value is None or value == "here":
        return None
    if isinstance(value, RentedHosts):
        return value
    if not isinstance(value, dict) or not GENERATOR_KINDS:
        quoted = [f'"{kind}"' for kind in GENERATOR_KINDS]
        table = f", or a table with kind = {alternatives(quoted)} and an instance" if quoted else ""
        raise ValueError(f'write "here"{table}')
    # the schema of any kind refuses the name of no kind
    kind = value["kind"] if value.get("kind") in GENERATOR_KINDS else next(iter(GENERATOR_KINDS))
    return GENERATOR_KINDS[kind].model_validate(value, context=info.context)


def _read_workload(value: object, info: ValidationInfo) -> Workload:
    return workload_schema(value).model_validate(value, context=info.context)


if TYPE_CHECKING:
    AnyTarget = TargetSpec
    AnyGenerator = RentedHosts | None
    AnyWorkload = Workload
else:

    def _targets() -> object:
        return Annotated[Union[tuple(TARGET_KINDS.values())], Field(discriminator="kind")]  # noqa: UP007

    def _generators() -> object:
        here, hosts = Literal["here"], tuple(GENERATOR_KINDS.values())
        given = BeforeValidator(lambda value: value, json_schema_input_type=Union[(here, *hosts)])
        return Annotated[Union[(*hosts, None)], given]

    def _workloads() -> object:
        kinds = tuple(Annotated[schema, Tag(name)] for name, schema in WORKLOAD_KINDS.items())
        return Annotated[Union[kinds], Discriminator(_workload_kind)]  # noqa: UP007

    AnyTarget = Annotated[Any, ByOwnModel(_read_target, _targets)]
    AnyGenerator = Annotated[Any, ByOwnModel(_read_generator, _generators)]
    AnyWorkload = Annotated[Any, ByOwnModel(_read_workload, _workloads)]
