"""Log files on another host: read from any byte on while they grow, and after a lost connection."""

from pathlib import Path

import pytest

from pgdyno.capture.server.log_copy import LogCopy
from pgdyno.capture.server.server_files import SshFiles
from pgdyno.remote import RemoteError
from tests.ssh.sshd import Sshd


def test_a_log_read_over_ssh_is_the_file(sshd: Sshd, tmp_path: Path) -> None:
    folder = tmp_path / "it's a log; $(false)"
    folder.mkdir()
    log = folder / "a.csv"
    log.write_bytes(b"before\n")
    (folder / "b.txt").write_bytes(b"another\n")
    (folder / "current.csv").symlink_to(log)
    files = SshFiles(sshd.spec(), [f"{folder}/*.csv"])
    try:
        copied = LogCopy(files, tmp_path / "copies", 1 << 40)
        copied.begin()
        content = bytes(range(256)) * 40_000
        with log.open("ab") as file:
            file.write(content)
        assert copied.step(last=False)
        files.reconnect()
        (folder / "c.csv").write_bytes(b"rotated\n")
        assert copied.step(last=False)
        (folder / "c.csv").rename(folder / "d.csv")
        with (folder / "d.csv").open("ab") as file:
            file.write(b"more\n")
        (folder / "c.csv").write_bytes(b"another, longer than the one before\n")
        assert copied.step(last=True)
    finally:
        files.close()
    found = sorted(path.read_bytes() for path in copied.copies)
    assert found == sorted([content, b"rotated\nmore\n", b"another, longer than the one before\n"])
    # a host that does not answer
    with pytest.raises(RemoteError) as caught:
        SshFiles(sshd.spec(port=1), ["/tmp/*.csv"])
    assert caught.value.passing
