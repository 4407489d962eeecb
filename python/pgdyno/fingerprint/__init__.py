"""What must be equal for two runs to be comparable: taken while a run goes on, compared afterwards.

`fingerprint.take` and `fingerprint.host` are apart: they need servers and the doctor, which whoever compares does not.
"""

from pgdyno.fingerprint.compare import Difference, Severity, comparable
from pgdyno.fingerprint.short import fingerprint_of

__all__ = ["Difference", "Severity", "comparable", "fingerprint_of"]
