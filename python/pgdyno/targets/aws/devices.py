"""Names by which a host's own volumes are asked for."""

from __future__ import annotations

DATA_DEVICE, WAL_DEVICE = "/dev/sdf", "/dev/sdg"
