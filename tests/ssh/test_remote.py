"""Hosts over SSH: which keys are accepted, which files are copied, and the messages about errors."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import asyncssh
import pytest

from pgdyno.capture.server.log_copy import LogCopy
from pgdyno.capture.server.server_files import SshFiles
from pgdyno.plan.hosts import SshSpec
from pgdyno.remote import RemoteError
from pgdyno.remote.connect import _jump, ask, connect_host
from pgdyno.remote.install import Installed, install
from pgdyno.remote.remote_host import CommandError
from pgdyno.targets.pool.host_script import reached_at
from tests.postgres.probe_process import program
from tests.ssh.sshd import Sshd, keygen, running_sshd
from tests.waiting import wait_until


def put(spec: SshSpec, file: Path | None = None) -> Installed:
    async def there() -> Installed:
        async with connect_host(spec) as connection:
            return await install(connection, file or Path(program()), spec.folder, spec.host)

    return asyncio.run(there())


def refused(spec: SshSpec, file: Path | None = None) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        put(spec, file)
    return caught.value


def let_in(sshd: Sshd) -> int:
    return (sshd.folder / "sshd.log").read_text().count("Accepted publickey")


def test_the_probe_is_copied_once_and_again_when_it_is_not_whole(sshd: Sshd) -> None:
    spec = sshd.spec(folder=str(sshd.folder / "once more's"))
    assert put(spec).copied
    (file,) = Path(spec.folder).iterdir()
    assert file.read_bytes() == Path(program()).read_bytes()
    assert file.stat().st_mode & 0o777 == 0o700
    before = file.stat().st_ino
    assert not put(spec).copied
    assert file.stat().st_ino == before
    # cut short, as by a full disk
    os.truncate(file, 1000)
    assert put(spec).copied
    assert [each.name for each in Path(spec.folder).iterdir()] == [file.name]
    assert file.read_bytes() == Path(program()).read_bytes()


def test_a_key_that_nobody_wrote_down_and_another_than_the_known_one_are_refused(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    error = refused(sshd.spec(known_hosts=str(tmp_path / "empty")))
    assert f"unknown host key of [127.0.0.1]:{sshd.port}: ssh-ed25519 SHA256:" in error.message
    assert f"ssh-keyscan -p {sshd.port} 127.0.0.1 >> {tmp_path / 'empty'}" in (error.hint or "")
    assert not error.passing
    # a config file cannot change that
    (tmp_path / "config").write_text(
        f"Host *\n  UserKnownHostsFile none\n  StrictHostKeyChecking no\n{sshd.config.read_text()}"
    )
    assert "unknown host key" in refused(sshd.spec(config=str(tmp_path / "config"), known_hosts=None)).message
    # another key than the known one
    keygen(tmp_path / "other")
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{sshd.port} {(tmp_path / 'other.pub').read_text()}")
    error = refused(sshd.spec(known_hosts=str(known)))
    assert f"which is not the one in {known}" in error.message
    assert f"ssh-keygen -f {known} -R '[127.0.0.1]:{sshd.port}'" in (error.hint or "")
    assert not error.passing


def test_no_agent_is_forwarded(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket, config = tmp_path / "agent", tmp_path / "config"
    config.write_text(f"Host *\n  ForwardAgent yes\n{sshd.config.read_text()}")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        wait_until(socket.exists)
        look = 'echo "socket: $SSH_AUTH_SOCK"'
        spec = sshd.spec(config=str(config))
        known = ["-o", f"UserKnownHostsFile={spec.known_hosts}"]
        openssh = ["ssh", "-F", str(config), *known, "-p", str(sshd.port), spec.host, look]
        done = subprocess.run(openssh, capture_output=True, text=True, check=True, timeout=60)
        assert done.stdout.strip() != "socket:"
        assert ask(spec, look).strip() == "socket:"
    finally:
        agent.terminate()
        agent.wait()


def test_known_hosts_of_the_config_file_count(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        f"Host db\n  HostName 127.0.0.1\n  Port {sshd.port}\n  HostKeyAlias db\n"
        f"  UserKnownHostsFile {tmp_path / 'none'} {tmp_path / 'known'}\n{sshd.config.read_text()}"
    )
    (tmp_path / "known").write_text(f"db {(sshd.folder / 'host.pub').read_text()}")
    put(sshd.spec(host="db", port=None, config=str(tmp_path / "config"), known_hosts=None))


def test_a_jump_host_is_gone_through_and_its_key_checked(sshd: Sshd, tmp_path: Path) -> None:
    with running_sshd(tmp_path / "behind") as behind:
        (tmp_path / "config").write_text(
            f"Host behind\n  HostName 127.0.0.1\n  Port {behind.port}\n  IdentityFile {behind.folder / 'user'}\n"
            f"  ProxyJump 127.0.0.1:{sshd.port}\n{sshd.config.read_text()}"
        )
        known = tmp_path / "known"
        known.write_text(behind.known_hosts.read_text())
        spec = sshd.spec(host="behind", port=None, config=str(tmp_path / "config"), known_hosts=str(known))
        assert f"unknown host key of [127.0.0.1]:{sshd.port}" in refused(spec).message
        known.write_text(f"[behind]:{behind.port} {(behind.folder / 'host.pub').read_text()}")
        with known.open("a") as file:
            file.write(sshd.known_hosts.read_text() + behind.known_hosts.read_text())
        before = let_in(sshd)
        put(spec)
        assert (let_in(sshd), let_in(behind)) == (before + 1, 1)


def test_jump_hosts_are_read_as_ssh_reads_them_and_ports_that_cannot_be_are_errors(sshd: Sshd, tmp_path: Path) -> None:
    for text, hop in (
        ("me@[fe80::1]:2222", ("fe80::1", "me", 2222)),
        ("[::1]", ("::1", None, None)),
        ("::1", ("::1", None, None)),
        ("ssh://me@gate:22", ("gate", "me", 22)),
    ):
        found = _jump(text)
        assert (found.host, found.user, found.port) == hop
    for line in ("Port 99999", "ProxyJump gate:99999", "ProxyJump [::1]:x"):
        (tmp_path / "config").write_text(f"{line}\n{sshd.config.read_text()}")
        assert refused(sshd.spec(port=None, config=str(tmp_path / "config"))).message


def test_rejected_keys_have_a_hint_and_temporary_errors_are_told(sshd: Sshd, tmp_path: Path) -> None:
    keygen(tmp_path / "stranger")
    config = tmp_path / "config"
    config.write_text(
        f"Host *\n  IdentityFile {tmp_path / 'stranger'}\n  IdentitiesOnly yes\n  PasswordAuthentication yes\n"
    )
    error = refused(sshd.spec(config=str(config), user="nobody"))
    assert error.message == "127.0.0.1 rejects the keys of nobody"
    assert "ssh -o BatchMode=yes nobody@127.0.0.1" in (error.hint or "")
    assert not error.passing
    assert refused(sshd.spec(port=1)).passing
    config.write_text(f"Host *\n  IdentityFile {tmp_path / 'none'}\n")
    error = refused(sshd.spec(config=str(config)))
    assert str(tmp_path / "none") in error.message
    assert not error.passing


@pytest.mark.parametrize("late_s", [0, 0.5])
def test_a_folder_that_cannot_be_written_is_named(sshd: Sshd, monkeypatch: pytest.MonkeyPatch, late_s: float) -> None:
    create_session = asyncssh.SSHClientConnection.create_session

    async def late(*args: object, **options: object) -> object:
        created: object = await create_session(*args, **options)  # type: ignore[arg-type]
        # the copy may fail before its input is sent
        await asyncio.sleep(late_s)
        return created

    monkeypatch.setattr(asyncssh.SSHClientConnection, "create_session", late)
    error = refused(sshd.spec(folder="/proc/pgdyno"))
    assert error.message.startswith("cannot copy to /proc/pgdyno on 127.0.0.1: mkdir: ")
    assert "target.NAME.ssh.folder" in (error.hint or "")


def test_a_program_that_cannot_run_there_is_refused_another_architecture_before_it_is_copied(
    sshd: Sshd, tmp_path: Path
) -> None:
    content = bytearray(Path(program()).read_bytes())
    here = os.uname().machine
    elsewhere, number = ("aarch64", 183) if here == "x86_64" else ("x86_64", 62)
    content[18:20] = number.to_bytes(2, "little")
    (tmp_path / "pgprobe").write_bytes(content)
    spec = sshd.spec(folder=str(sshd.folder / "foreign"))
    error = refused(spec, tmp_path / "pgprobe")
    assert error.message == f"127.0.0.1 is {here}, and the local pgprobe was built for {elsewhere}"
    assert not Path(spec.folder).exists()
    # one that has an interpreter which is not there
    broken = tmp_path / "pgprobe"
    broken.write_text("#!/nowhere/sh\n")
    for _ in range(2):
        error = refused(sshd.spec(), broken)
        assert "pgprobe cannot run in" in error.message
        assert "nowhere" in error.message or "not found" in error.message
    shutil.rmtree(sshd.cache)


def test_a_login_shell_that_prints_is_named_with_the_remedy(tmp_path: Path) -> None:
    # what bash reads before a command, as it reads ~/.bashrc under sshd
    (tmp_path / "bashrc").write_text("echo\necho 'Welcome to db1'\n")
    with running_sshd(tmp_path / "sshd", lines=[f"SetEnv BASH_ENV={tmp_path / 'bashrc'}"]) as sshd:
        error = refused(sshd.spec())
        assert error.message == "the login shell on 127.0.0.1 prints 'Welcome to db1' before the output of commands"
        assert error.hint is not None
        assert "~/.bashrc" in error.hint
        assert not error.passing
        with pytest.raises(RemoteError, match="prints 'Welcome to db1' before"):
            reached_at(sshd.spec())


def test_output_of_another_encoding_is_read(sshd: Sshd) -> None:
    assert ask(sshd.spec(), r"printf 'caf\351\n'") == "caf\N{REPLACEMENT CHARACTER}\n"
    with pytest.raises(CommandError) as caught:
        ask(sshd.spec(), r"printf 'sudo: contrase\361a\n' >&2; exit 3")
    assert (caught.value.status, caught.value.why) == (3, "sudo: contrase\N{REPLACEMENT CHARACTER}a")


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
