"""What a server keeps of a password (RFC 5803), so that it can be told without telling the password."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

ITERATIONS = 4096
"""PostgreSQL's own (scram_iterations)."""
_SALT = 16


def verifier(password: str, salt: bytes | None = None) -> str:
    """`SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`, as CREATE ROLE … PASSWORD takes it; ASCII passwords only."""
    salt = secrets.token_bytes(_SALT) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", password.encode("ascii"), salt, ITERATIONS)
    stored = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
    parts = [base64.b64encode(each).decode() for each in (salt, stored, _hmac(salted, b"Server Key"))]
    return f"SCRAM-SHA-256${ITERATIONS}:{parts[0]}${parts[1]}:{parts[2]}"


def _hmac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")
