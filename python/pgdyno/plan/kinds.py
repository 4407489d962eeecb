"""The kinds of targets, rented generators and workloads in `pgdyno.registry` whose package is installed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, Union

from pydantic import BaseModel, BeforeValidator, Discriminator, Field, Tag

from pgdyno.plan.targets import RentedHosts, TargetSpec
from pgdyno.plan.workload_schema import Workload
from pgdyno.registry import GENERATORS, KINDS, WORKLOADS, loaded, workload_kind

_M = TypeVar("_M", bound=BaseModel)


def _load_schemas(places: Mapping[str, str], base: type[_M]) -> dict[str, type[_M]]:
    found: dict[str, type[_M]] = {}
    for kind, place in places.items():
        module, _, name = place.partition(":")
        schemas = loaded(module)
        if schemas is not None:
            schema = found[kind] = getattr(schemas, name)
            assert issubclass(schema, base)
    return found


TARGET_KINDS = _load_schemas({name: kind.schema for name, kind in KINDS.items()}, TargetSpec)
GENERATOR_KINDS = _load_schemas(GENERATORS, RentedHosts)
WORKLOAD_KINDS = _load_schemas({name: kind.schema for name, kind in WORKLOADS.items()}, Workload)
DATASETS = {kind.dataset: WORKLOAD_KINDS[name] for name, kind in WORKLOADS.items() if kind.dataset is not None}


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
    return "kind = " + ", ".join(f"{listed(kinds)} ({summary})" for summary, kinds in groups.items())


def listed(words: list[str]) -> str:
    """Return `a, b or c`."""
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def _generator(value: object) -> object:
    if value is None or value == "here":
        return None
    if isinstance(value, (dict, RentedHosts)) and GENERATOR_KINDS:
        return value
    quoted = [f'"{kind}"' for kind in GENERATOR_KINDS]
    table = f", or a table with kind = {listed(quoted)} and an instance" if quoted else ""
    raise ValueError(f'write "here"{table}')


if TYPE_CHECKING:
    AnyTarget = TargetSpec
    AnyGenerator = RentedHosts | None
    AnyWorkload = Workload
else:
    AnyTarget = Annotated[Union[tuple(TARGET_KINDS.values())], Field(discriminator="kind")]  # noqa: UP007
    _HERE, _HOSTS = Literal["here"], tuple(GENERATOR_KINDS.values())
    AnyGenerator = Annotated[
        Union[(*_HOSTS, None)], BeforeValidator(_generator, json_schema_input_type=Union[(_HERE, *_HOSTS)])
    ]
    AnyWorkload = Annotated[
        Union[tuple(Annotated[schema, Tag(name)] for name, schema in WORKLOAD_KINDS.items())],  # noqa: UP007
        Discriminator(_workload_kind),
    ]
