"""What changes between two runs of a study: a spec is refused or is another study, other versions are never pooled."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import ablate
from fault_parts import SPEC, call_ablate, write_spec
from run_parts import read_log

OLDER_PYTHON = """
import platform
platform.python_version = lambda: "3.0.0"
"""


EDITED_AFTER_TWO_TRIALS = """
import ablate.run.runner
digests = ["of now"] * 2 + ["of later"]
here = ablate.run.runner.training_code()
ablate.run.runner.training_code = lambda: here if digests.pop(0) == "of now" else "0" * 12
"""


def records(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.glob("runs/*/records/*/record.json")}


def test_an_edited_spec_is_refused_and_starts_anew_under_another_name(tmp_path: Path) -> None:
    assert call_ablate(tmp_path, "run", write_spec(tmp_path), "--no-report").returncode == 0
    before = records(tmp_path)
    edited = SPEC.replace("steps_per_epoch: 4", "steps_per_epoch: 5")
    refused = call_ablate(tmp_path, "run", write_spec(tmp_path, edited), "--no-report")
    assert refused.returncode == 1 and records(tmp_path) == before
    assert "(changed: timing); rename the study in the spec or use another folder with --runs" in refused.stderr
    renamed = write_spec(tmp_path, edited.replace("study: small", "study: other"))
    assert call_ablate(tmp_path, "run", renamed, "--no-report").returncode == 0
    after = records(tmp_path)
    assert before.items() <= after.items() and len(after) == 6
    assert len({json.loads(content)["identity"]["study_hash"] for content in after.values()}) == 2


def test_an_edited_optimization_of_ones_own_is_another_study(tmp_path: Path) -> None:
    own = (Path(__file__).parents[1] / "endtoend" / "flush_denormal.py").read_text(encoding="utf-8")
    (tmp_path / "own.py").write_text(own, encoding="utf-8")
    spec = write_spec(tmp_path, SPEC.replace("tensor_lr: both", "own.py: both"))
    assert call_ablate(tmp_path, "run", spec, "--no-report").returncode == 0
    before = records(tmp_path)
    (tmp_path / "own.py").write_text(own + "\n# changed\n", encoding="utf-8")
    refused = call_ablate(tmp_path, "run", spec, "--no-report", "--blocks", 2)
    assert (refused.returncode, "(changed: optimizations)" in refused.stderr) == (1, True), refused.stderr
    assert records(tmp_path) == before


def test_code_that_is_edited_while_a_study_runs_stops_it(tmp_path: Path) -> None:
    run = ("run", write_spec(tmp_path), "--no-report")
    stopped = call_ablate(tmp_path, *run, before=EDITED_AFTER_TWO_TRIALS)
    assert stopped.returncode == 1 and len(records(tmp_path)) == 2
    assert "the code that trials run was edited while this study ran" in stopped.stderr
    assert "run again to go on" in stopped.stderr and "Traceback" not in stopped.stderr
    before = records(tmp_path)
    assert call_ablate(tmp_path, *run).returncode == 0  # here it was not edited after all
    assert before.items() <= records(tmp_path).items() and len(records(tmp_path)) == 3


def test_a_block_begun_with_other_versions_is_not_gone_on_with(tmp_path: Path) -> None:
    """Two trials of a block with one Python, the third with another: refused by name, and the records stay."""
    run = ("run", write_spec(tmp_path), "--no-report")
    assert call_ablate(tmp_path, *run, before=OLDER_PYTHON).returncode == 0
    shutil.rmtree(sorted(tmp_path.glob("runs/*/records/*/"))[0])
    before = records(tmp_path)
    refused = call_ablate(tmp_path, *run)
    assert (refused.returncode, records(tmp_path)) == (1, before), refused.stderr
    assert "(python 3.0.0 there, " in refused.stderr and "a block never mixes them" in refused.stderr
    assert "--restart-blocks" in refused.stderr
    assert call_ablate(tmp_path, *run, before=OLDER_PYTHON).returncode == 0
    assert before.items() <= records(tmp_path).items() and len(records(tmp_path)) == 3
    assert len(read_log(tmp_path, "start")) == 4


def test_a_block_begun_with_other_code_is_not_gone_on_with(tmp_path: Path) -> None:
    """Two trials of a block with this code, the third with a copy in which one line of the trainer was edited."""
    run = ("run", write_spec(tmp_path), "--no-report")
    assert call_ablate(tmp_path, *run).returncode == 0
    shutil.rmtree(sorted(tmp_path.glob("runs/*/records/*/"))[0])
    before = records(tmp_path)
    copy = shutil.copytree(Path(ablate.__file__).parent, tmp_path / "edited" / "ablate")
    with (copy / "train" / "module.py").open("a", encoding="utf-8") as stream:
        stream.write("# edited\n")
    refused = call_ablate(tmp_path, *run, before=f"import sys\nsys.path.insert(0, {str(copy.parent)!r})\n")
    assert (refused.returncode, records(tmp_path)) == (1, before), refused.stderr
    assert "begun in another environment" in refused.stderr and "(code " in refused.stderr
