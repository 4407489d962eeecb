"""One sshd for all tests that only log in."""

from collections.abc import Iterator

import pytest

from tests.ssh.sshd import Sshd, running_sshd


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running_sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running
