"""The records that steps exchange and store on disk: format 1 of a run folder.

Times are ISO 8601 in UTC; latencies are nanoseconds unless a name says otherwise.

A module is loaded when one of its names is first used, because commands that list runs need few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # type checkers see the names that __getattr__ finds
    from pgdyno.records.base import *  # noqa: F403
    from pgdyno.records.during_trial import *  # noqa: F403
    from pgdyno.records.imported import *  # noqa: F403
    from pgdyno.records.machine import *  # noqa: F403
    from pgdyno.records.manifest import *  # noqa: F403
    from pgdyno.records.measured import *  # noqa: F403
    from pgdyno.records.point import *  # noqa: F403
    from pgdyno.records.probe import *  # noqa: F403
    from pgdyno.records.trial import *  # noqa: F403

FORMAT = 1
"""Version of the run folder that this code writes."""
EARLIEST, LATEST = 1970, 2200
"""Years in which a run may have been made."""
_MODULES = ("base", "point", "imported", "machine", "manifest", "measured", "probe", "during_trial", "trial")
"""Each imports only earlier ones."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class or a constant
    for module in _MODULES if name[0].isupper() else ():
        found = vars(import_module(f"{__name__}.{module}"))
        if name in found:
            return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
