"""The three H&M tasks trained from one seed, eager and compiled -> digests of their losses against the committed ones.

    python -m benchmarks.golden                  some five minutes on two cores; exits 1 when a loss differs in one bit
    python -m benchmarks.golden RECORDS          the same for a records folder that is there already
    python -m benchmarks.golden [RECORDS] --keep writes the digests to result.txt

Losses are equal only on the same processor kind and the same versions: result.txt names them.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
RESULT = HERE / "result.txt"


def digest_losses(records: Path) -> list[str]:
    """One line a completed trial: key, number of steps, first and last loss, SHA-256 of all losses as stored."""
    lines = []
    for path in sorted(records.glob("*/record.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        arm = record["identity"]["arms"][0]
        if record["status"] != "completed" or arm not in ("eager", "full"):
            continue
        losses = pd.read_parquet(path.with_name("series.parquet"))["loss"].to_numpy()
        digest = hashlib.sha256(losses.tobytes()).hexdigest()[:16]
        name = f"{record['identity']['workload']} {arm}"
        lines.append(f"{name:<30} {len(losses):>3} steps  {losses[0]:.7f} to {losses[-1]:.7f}  {digest}")
    return sorted(lines)


def train(folder: Path) -> Path:
    """Train the study in a folder; returns its records."""
    command = [sys.executable, "-m", "ablate", "run", str(HERE / "golden.yaml"), "--runs", str(folder), "--no-report"]
    subprocess.run(command, check=True, cwd=folder)
    return folder / "golden" / "records"


def main(arguments: list[str]) -> int:
    """Compare, or keep; returns the exit code."""
    keep = "--keep" in arguments
    given = [argument for argument in arguments if argument != "--keep"]
    with tempfile.TemporaryDirectory() as scratch:
        lines = digest_losses(Path(given[0]) if given else train(Path(scratch)))
    print("\n".join(lines))
    if keep:
        head = [line for line in RESULT.read_text().splitlines() if line.startswith("#")] if RESULT.exists() else []
        RESULT.write_text("\n".join([*head, *lines, ""]), encoding="utf-8")
        return 0
    expected = [line for line in RESULT.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    print("every loss is the same, bit for bit" if lines == expected else f"losses differ from {RESULT.name}")
    return int(lines != expected)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
