"""What must be equal for two runs to be comparable: taken while a run goes on, compared afterwards."""

from pgdyno.fingerprint.compare import Difference, Severity, comparable
from pgdyno.fingerprint.host import host_print
from pgdyno.fingerprint.short import fingerprint_of
from pgdyno.fingerprint.take import take_fingerprint, with_mark, with_server

__all__ = [
    "Difference",
    "Severity",
    "comparable",
    "fingerprint_of",
    "host_print",
    "take_fingerprint",
    "with_mark",
    "with_server",
]
