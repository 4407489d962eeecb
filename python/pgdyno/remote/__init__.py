"""Connects to other hosts over SSH as OpenSSH does (`connect`), and installs pgdyno's programs on them (`install`).

The SSH library loads slowly: other packages import these modules where they use them.
"""

from pgdyno.remote.remote_host import RemoteError

__all__ = ["RemoteError"]
