"""What the host and the server did beside a trial, second by second."""

from pgdyno.probe.beside import Beside
from pgdyno.probe.lines import Said, read_lines

__all__ = ["Beside", "Said", "read_lines"]
