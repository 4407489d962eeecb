"""What the host and the server did beside a trial, second by second.

`probe.over_ssh` and `probe.look` are apart: SSH takes a while to load, and few runs have it.
"""

from pgdyno.probe.beside import Beside
from pgdyno.probe.lines import Said, read_lines
from pgdyno.probe.standbys import StandbyProbes

__all__ = ["Beside", "Said", "StandbyProbes", "read_lines"]
