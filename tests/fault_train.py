"""The fake trainer with faults that reach it from outside: any error text, and memory that is eaten or limited.

`FAKE_BEHAVIOR` knows more here: `say` raises an error with the text of `FAKE_ERROR`; `limited` asks for more memory
than its limit allows; `eaten` uses more than the memory group `FAKE_CGROUP` has, so that the kernel ends it.
"""

import os
import resource
from pathlib import Path

import fake_train

GIB = 1024**3


def misbehave(behavior: str) -> None:
    if behavior == "say":
        raise RuntimeError(os.environ["FAKE_ERROR"])
    if behavior == "limited":
        resource.setrlimit(resource.RLIMIT_AS, (GIB, GIB))
        bytearray(4 * GIB)
    if behavior == "eaten":
        Path(os.environ["FAKE_CGROUP"], "cgroup.procs").write_text(str(os.getpid()))
        eaten = []
        while True:
            eaten.append(b"x" * (1 << 20))
    plain(behavior)


plain = fake_train.misbehave
fake_train.misbehave = misbehave

if __name__ == "__main__":
    fake_train.main()
