"""Samples the host and the server during a trial, second by second.

`probe.over_ssh` and `probe.look` are separate, because SSH loads slowly and few runs use it.
"""

from pgdyno.probe.lines import ProbeOutput, read_lines
from pgdyno.probe.local_probe import LocalProbe, StandbyProbes

__all__ = ["LocalProbe", "ProbeOutput", "StandbyProbes", "read_lines"]
