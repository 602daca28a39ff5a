"""`parent_death.py PARENT COMMAND...` -> the same command, killed by the kernel when the process PARENT dies.

Used where a lease does not live on in the trial's process, because the ledger is a database: no orphan then trains
while another host takes its trial over. Linux only.
"""

import ctypes
import os
import signal
import sys

SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>; it outlives exec


def main(parent: int, command: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if os.getppid() != parent:  # it died before the kernel knew
        sys.exit(1)
    os.execv(command[0], command)


def die_with_parent(command: list[str]) -> list[str]:
    """The command line that starts `command`, which dies with this process; its main thread must start it."""
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), str(os.getpid()), *command]


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
