"""What stands in a lock file, and what is told to who waits for it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ablate.files.locks import read_owner
from ablate.run.ledger.lock_owner import LockOwner, describe_wait


def test_sentences_for_whoever_waits(tmp_path: Path) -> None:
    alive = LockOwner.here(study="other", root=tmp_path / "other").training("t", 5)
    orphan = LockOwner(study="mine", root=str(tmp_path), trial="a/b0/c", child=7, parent=2**22 + 1)
    assert describe_wait(LockOwner(), root=tmp_path, device="cpu") == "waiting for cpu: another ablate process uses it"
    assert describe_wait(alive, root=tmp_path, device="cpu") == (
        f"waiting for cpu: study other (pid {os.getpid()}) has it; taking turns"
    )
    assert describe_wait(orphan, root=tmp_path, device="cpu") == (
        "waiting for trial a/b0/c left by an earlier ablate run (pid 7)"
    )
    elsewhere = LockOwner(study="mine", root=str(tmp_path), trial="a/b0/c", parent=1, host="gpu-3", device="card")
    assert describe_wait(elsewhere, root=tmp_path) == (
        "no trial is free; other workers are still running some of these (pid 1 on gpu-3 (card))"
    )


def test_what_stands_in_a_lock_is_read_back_and_anything_else_is_unknown(tmp_path: Path) -> None:
    owner = LockOwner.here(study="mine", root=tmp_path, device="card").training("a/b0/c", 7, timeout_s=60, request="r")
    assert LockOwner.parse(json.loads(json.dumps(owner.to_json()))) == owner
    assert set(LockOwner.here(study="mine", root=tmp_path).to_json()) == {"study", "root", "parent", "host"}
    planted = {"study": ["x"], "parent": "1", "child": True, "deadline": 5, "host": None, "more": 1, "trial": "t"}
    assert LockOwner.parse(planted) == LockOwner(trial="t")
    (tmp_path / "broken.lock").write_text("[1, 2")
    assert LockOwner.parse(read_owner(tmp_path / "broken.lock")) == LockOwner()
