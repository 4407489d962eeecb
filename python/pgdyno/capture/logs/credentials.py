"""Regular expressions (RE2) for passwords in values: connection strings, and code that sets one."""

from __future__ import annotations

CONNECTION_STRING = r"(?:password|client_secret)\s*=|postgres(?:ql)?://[^/@\s]*:[^/@\s]*@"
_COMMANDS = (
    r"\b(?:create|alter)\s+(?:role|user|group|server|subscription|foreign\s+data\s+wrapper)\b.*\b(?:password|options)\b"
)
IN_STRING = rf"(?is){CONNECTION_STRING}|{_COMMANDS}|\bpassword\s*(?:''|\\'|\$)"
"""Within quotes, where another quote is doubled or escaped, and in comments."""
IN_CODE = rf"(?is){CONNECTION_STRING}|{_COMMANDS}|\bpassword\s+(?:(?:[en]|u&)?'|\$)"
"""In a statement with dollar quotes: code that they hold may have quotes of its own."""
LIKELY = r"(?i)password|client_secret|options|postgres(?:ql)?://"
"""Matches each text that one of the others matches; cheap."""
