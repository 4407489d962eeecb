"""The certificates that those of RDS and Aurora are checked with."""

from __future__ import annotations

import time
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.targets.aws.journal import FOLDER
from pgdyno.targets.aws.schema import DatabaseTarget
from pgdyno.targets.storage import ensure_folder, write_whole
from pgdyno.targets.web import Patience, fetch_text

BUNDLE = "https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem"
GOOD_FOR_S = 30 * 86_400.0
"""After so long it is fetched anew: Amazon adds authorities to it."""


def tls_root(spec: DatabaseTarget, root: Path) -> Path:
    """The file of certificates for `spec`: its own, or Amazon's bundle, kept in the home `root`. Raises TargetError."""
    if spec.tls_root is not None:
        return Path(spec.tls_root).expanduser().absolute()
    file = root / FOLDER / "global-bundle.pem"
    if file.is_file() and time.time() - file.stat().st_mtime < GOOD_FOR_S:
        return file
    try:
        text = fetch_text(BUNDLE, Patience())
    except TargetError as error:
        hint = "fetch it by other means, and name the file: tls_root = …"
        raise TargetError(f"cannot check the server's certificate: {error.message}", hint=hint) from error
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise TargetError(f"cannot check the server's certificate: what {BUNDLE} answers are no certificates")
    ensure_folder(file.parent)
    write_whole(file, text.encode())
    return file
