"""How servers of kind = "embedded" are obtained."""

from __future__ import annotations

from pgdyno.targets.embedded.find import find_embedded
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.targets.installation import Installation
from pgdyno.targets.kind import OwnKind, TargetKind

KIND: TargetKind[EmbeddedTarget, Installation] = OwnKind(find_embedded)
