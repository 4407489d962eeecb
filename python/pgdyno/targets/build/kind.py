"""How servers of kind = "build" are obtained."""

from __future__ import annotations

from pgdyno.targets.build.find import find_build
from pgdyno.targets.build.schema import BuildTarget
from pgdyno.targets.installation import Installation
from pgdyno.targets.kind import OwnKind, TargetKind

KIND: TargetKind[BuildTarget, Installation] = OwnKind(find_build)
