"""Runs a program for which the kernel refuses some system calls, as a container's seccomp profile does.

    python tests/seccomp.py EPERM io_uring_enter epoll_pwait2 -- pgdrive …

`refusing` returns the beginning of that command.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from pathlib import Path

SYSTEM_CALLS = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "epoll_pwait2": 441}
"""Numbers that are equal on all architectures; `OF_MACHINES` has the others."""
OF_MACHINES = {"x86_64": {"timerfd_create": 283}, "aarch64": {"timerfd_create": 85}}

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO = 0x7FFF0000, 0x00050000
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
"""BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ | BPF_K, BPF_RET | BPF_K"""


class Filter(ctypes.Structure):
    """`struct sock_fprog`"""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refusing(error: str, *calls: str) -> tuple[str, ...]:
    """Returns the beginning of a command, to which a program must be added; its `calls` fail with `error`."""
    return (sys.executable, str(Path(__file__).resolve()), error, *calls, "--")


def refuse(error: int, numbers: list[int]) -> None:
    """Refuses the calls for this process and its children."""
    # the number is the first word that a filter sees; from each comparison to the last instruction, or to the next
    program = struct.pack("HBBI", LOAD_WORD, 0, 0, 0)
    for index, number in enumerate(numbers):
        program += struct.pack("HBBI", JUMP_IF_EQUAL, len(numbers) - index, 0, number)
    program += struct.pack("HBBI", RETURN, 0, 0, SECCOMP_RET_ALLOW)
    program += struct.pack("HBBI", RETURN, 0, 0, SECCOMP_RET_ERRNO | error)
    made = Filter(len(program) // 8, program)
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(made))):
        if libc.prctl(*arguments):
            number = ctypes.get_errno()
            raise OSError(number, f"prctl: {os.strerror(number)}")


def main() -> None:
    split = sys.argv.index("--")
    error, *calls = sys.argv[1:split]
    known = SYSTEM_CALLS | OF_MACHINES[platform.machine()]
    refuse(getattr(errno, error), [known[call] for call in calls])
    command = sys.argv[split + 1 :]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
