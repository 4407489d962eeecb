"""The remedies for connections that fail."""

from pathlib import Path

import pytest

from pgdyno.targets.connection import connecting_hint


def test_a_password_file_that_others_may_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode, hint in ((None, "set PGPASSWORD"), (0o600, "set PGPASSWORD"), (0o644, "chmod 600 ")):
        file = tmp_path / "pgpass"
        monkeypatch.setenv("PGPASSFILE", str(file))
        if mode is not None:
            file.touch(mode)
            file.chmod(mode)
        found = connecting_hint("fe_sendauth: no password supplied")
        assert found is not None
        assert found.startswith(hint)
