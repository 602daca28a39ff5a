"""Of several who are to make a folder one does at a time; no lock is left behind, and the dead lock nobody out."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from ablate.files.locks import folder_lock

HOLD = """
import sys
from pathlib import Path
from ablate.files.locks import folder_lock
with folder_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def hold(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_who_comes_second_is_told_and_waits(tmp_path):
    process = hold(tmp_path / "new" / "graph")
    waited = []

    def let_go():
        waited.append(process.poll())
        process.stdin.write("\n")
        process.stdin.flush()

    with folder_lock(tmp_path / "new" / "graph", let_go):
        assert waited == [None]  # once, while the other was at it
        assert [path.name for path in (tmp_path / "new").iterdir()] == [".graph.lock"]
    assert process.wait() == 0
    assert list((tmp_path / "new").iterdir()) == []


def test_a_killed_process_locks_nobody_out(tmp_path):
    process = hold(tmp_path / "graph")
    process.kill()
    process.wait()
    waited = []
    with folder_lock(tmp_path / "graph", lambda: waited.append("waited")):
        assert waited == []
    assert list(tmp_path.iterdir()) == []


def test_never_two_at_once_though_the_file_comes_and_goes(tmp_path):
    inside, most = [], []

    def work():
        for _ in range(100):
            with folder_lock(tmp_path / "graph"):
                inside.append(1)
                time.sleep(0.0005)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 600 and max(most) == 1
    assert list(tmp_path.iterdir()) == []
