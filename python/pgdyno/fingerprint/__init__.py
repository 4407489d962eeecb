"""What must be equal for two runs to be comparable: recorded during a run, compared afterwards.

`fingerprint.take` and `fingerprint.host` are separate, because they need servers and the doctor, and a comparison does
not.
"""

from pgdyno.fingerprint.differences import Difference, Weight, comparable, fingerprint_of

__all__ = ["Difference", "Weight", "comparable", "fingerprint_of"]
