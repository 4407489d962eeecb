"""Kubernetes: `kubectl logs --prefix`, and the files of container runtimes (CRI)."""

from __future__ import annotations

import re

from pgdyno.capture.logs.wrappers.piece import TIME, Piece, Wrapper, lines_of

_CRI = re.compile(rb"(" + TIME + rb") (?:stdout|stderr) ([FP])(?::\w+)* (.*)", re.DOTALL)


def _of_line(line: bytes) -> Piece | None:
    found = _CRI.fullmatch(line)
    return Piece(found[3], stamp=found[1], is_partial=found[2] == b"P") if found is not None else None


PREFIX = Wrapper("kubectl logs --prefix", lines_of(rb"\[(?P<source>(?:pod/)?[^\]\s]+/[^\]\s]+)\] (?P<text>.*)"))
CRI = Wrapper("a container runtime's log (CRI)", _of_line)
