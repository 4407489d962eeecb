"""What the host and the server did beside a trial, second by second."""

from pgdyno.probe.beside import Beside
from pgdyno.probe.far import with_far
from pgdyno.probe.lines import Said, read_lines
from pgdyno.probe.look import Looked, look
from pgdyno.probe.over_ssh import OverSsh

__all__ = ["Beside", "Looked", "OverSsh", "Said", "look", "read_lines", "with_far"]
