"""A time before each line: `docker logs --timestamps`, `kubectl logs --timestamps`, CloudWatch's exports."""

from __future__ import annotations

from pgdyno.capture.logs.wrappers.piece import TIME, Wrapper, lines_of

TIMESTAMPS = Wrapper("a time before each line", lines_of(rb"(?P<stamp>" + TIME + rb") (?P<text>.*)"))
