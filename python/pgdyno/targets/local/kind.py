"""How servers of kind = "local" are obtained."""

from __future__ import annotations

from pgdyno.targets.installation import Installation
from pgdyno.targets.kind import OwnKind, TargetKind
from pgdyno.targets.local.find import find_local
from pgdyno.targets.local.schema import LocalTarget

KIND: TargetKind[LocalTarget, Installation] = OwnKind(lambda spec, home, _progress: find_local(spec, home))
