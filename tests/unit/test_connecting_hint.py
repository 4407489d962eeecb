"""The remedies for connections that fail."""

from pathlib import Path

import pytest

from pgdyno.targets.connection import connecting_hint

NO_PASSWORD = "fe_sendauth: no password supplied"


def test_a_password_file_that_others_may_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode, hint in ((0o644, "chmod 600 "), (0o600, "set PGPASSWORD"), (None, "set PGPASSWORD")):
        file = tmp_path / "pgpass"
        monkeypatch.setenv("PGPASSFILE", str(file))
        if mode is not None:
            file.touch(mode)
            file.chmod(mode)
        found = connecting_hint(NO_PASSWORD)
        assert found is not None
        assert found.startswith(hint)
