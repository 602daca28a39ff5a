"""Files of a study that were damaged: named, never read as something else, never overwritten; nothing else is lost."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ablate.core.errors import StoredDataError
from ablate.records.store import SERIES, read_columns, read_series, write_series
from ablate.run.progress import SilentProgress
from ablate.run.runner import run_study
from fault_parts import call_ablate, write_spec
from run_parts import FAKE_COMMAND, make_run, read_log

SEED = 20261130


def damage(content: bytes, generator: random.Random) -> bytes:
    """Flip bits of one byte, cut the end off, or put zeros over a part: what disks and crashes leave."""
    place = generator.randrange(len(content))
    kind = generator.choice(("flip", "cut", "zeros"))
    if kind == "cut":
        return content[:place]
    if kind == "flip":
        return content[:place] + bytes([content[place] ^ generator.randrange(1, 256)]) + content[place + 1 :]
    return content[:place] + bytes(min(64, len(content) - place)) + content[place + 64 :]


def test_a_damaged_series_is_never_taken_for_another(tmp_path: Path) -> None:
    """300 random damages: the numbers come back as they were, or not at all."""
    generator = random.Random(SEED)
    write_series(tmp_path, {name: [generator.random() for _ in range(200)] for name in SERIES.columns})
    path = tmp_path / "series.parquet"
    good, truth = path.read_bytes(), read_series(tmp_path)
    refused = 0
    for _ in range(300):
        path.write_bytes(damage(good, generator))
        try:
            assert read_series(tmp_path).equals(truth)
            assert (read_columns(tmp_path, "loss")["loss"] == truth["loss"]).all()
        except StoredDataError as error:
            assert str(path) in str(error) and "delete its folder to run that trial again" in str(error)
            refused += 1
    assert refused > 200


def test_a_damaged_checkpoint_is_never_taken_for_another(tmp_path: Path) -> None:
    """800 random damages: whatever is not the file as it was gives the one sentence, and nothing else is raised."""
    import torch

    from ablate.train.parity.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

    generator = random.Random(SEED)
    weights = {f"layer.{index}": torch.arange(1.0, 9.0) * index for index in range(1, 9)}
    state = {f"{name}:exp_avg": value / 3 for name, value in weights.items()}
    path = write_checkpoint(tmp_path, Checkpoint(step=0, weights=weights, state=state))
    good = path.read_bytes()
    damaged = [content for content in (damage(good, generator) for _ in range(800)) if content != good]
    assert len(damaged) > 600
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(StoredDataError, match=r"step-000000\.pt cannot be read \(.+\); train its eager") as caught:
            read_checkpoint(tmp_path, 0)
        assert "\n" not in str(caught.value)
    path.write_bytes(good)
    assert all(torch.equal(value, weights[name]) for name, value in read_checkpoint(tmp_path, 0).weights.items())


def test_one_bit_that_makes_torch_read_memory_at_random_is_found(tmp_path: Path) -> None:
    """The bit for folders in a zip's list of contents: no checksum of the zip covers it, torch reads nothing there."""
    import zipfile

    import torch

    from ablate.train.parity.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

    path = write_checkpoint(tmp_path, Checkpoint(step=0, weights={"w": torch.arange(8.0)}, state={}))
    content = bytearray(path.read_bytes())
    entry = content.index(b"archive/data/1", content.index(b"PK\x01\x02"))  # the name follows 46 bytes of its entry
    content[entry - 8] ^= 0x10  # external attributes
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    with pytest.raises(StoredDataError, match="cannot be read"):
        read_checkpoint(tmp_path, 0)


def run_small(folder: Path) -> int:
    study, design, paths = make_run(folder, blocks=1)
    return run_study(study, design, paths, SilentProgress(), command=FAKE_COMMAND).completed


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b'{"format": 1}', b"null"])
def test_a_damaged_record_is_named_and_kept(tmp_path: Path, content: bytes) -> None:
    assert run_small(tmp_path) == 3
    _, _, paths = make_run(tmp_path, blocks=1)
    record = sorted(paths.records.glob("*/record.json"))[0]
    record.write_bytes(content)
    with pytest.raises(StoredDataError, match=r"record\.json cannot be read .*; move it away to start"):
        run_small(tmp_path)
    assert record.read_bytes() == content
    record.rename(tmp_path / "moved-away.json")
    assert run_small(tmp_path) == 3
    assert len(read_log(tmp_path, "start")) == 4  # that one trial again, and no other


def test_a_changed_record_stops_the_run_and_is_kept(tmp_path: Path) -> None:
    assert run_small(tmp_path) == 3
    _, _, paths = make_run(tmp_path, blocks=1)
    record = sorted(paths.records.glob("*/record.json"))[0]
    content = record.read_text().replace("0.7", "0.0007")
    record.write_text(content)
    with pytest.raises(StoredDataError, match=r"record\.json was changed after the trial had ended; delete its folder"):
        run_small(tmp_path)
    assert record.read_text() == content
    shutil.rmtree(record.parent)
    assert run_small(tmp_path) == 3
    assert len(read_log(tmp_path, "start")) == 4  # that one trial again, and no other


@pytest.mark.parametrize("name", ["study.json", "design.json"])
def test_a_damaged_plan_is_named_and_kept(tmp_path: Path, name: str) -> None:
    assert run_small(tmp_path) == 3
    _, _, paths = make_run(tmp_path, blocks=1)
    path = paths.root / name
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StoredDataError, match=f"{name} cannot be read .*; move it away to start that part anew"):
        run_small(tmp_path)
    path.unlink()
    assert run_small(tmp_path) == 3
    assert len(read_log(tmp_path, "start")) == 3


def half_a_line(content: bytes) -> bytes:
    return content + b'{"op_code": 4, "study_id": 0, "wor'


def cut_in_the_last_line(content: bytes) -> bytes:
    return content[:-7]


@pytest.mark.parametrize("damaged", [half_a_line, cut_in_the_last_line])
def test_half_a_line_at_the_end_of_the_journal_costs_nothing(tmp_path: Path, damaged: Callable[[bytes], bytes]) -> None:
    assert run_small(tmp_path) == 3
    _, _, paths = make_run(tmp_path, blocks=1)
    paths.ledger.write_bytes(damaged(paths.ledger.read_bytes()))
    assert run_small(tmp_path) == 3
    assert len(read_log(tmp_path, "start")) == 3


def test_a_journal_damaged_inside_is_rebuilt_from_the_records(tmp_path: Path) -> None:
    assert run_small(tmp_path) == 3
    _, _, paths = make_run(tmp_path, blocks=1)
    content = paths.ledger.read_bytes()
    paths.ledger.write_bytes(content[:200] + b"\0" * 40 + content[240:])
    with pytest.raises(StoredDataError, match=r"move it away and run again: it is rebuilt from the trial records"):
        run_small(tmp_path)
    paths.ledger.rename(tmp_path / "moved-away")
    assert run_small(tmp_path) == 3
    assert len(read_log(tmp_path, "start")) == 3


def test_the_command_line_says_so_in_one_line(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    assert call_ablate(tmp_path, "run", spec, "--no-report").returncode == 0
    record = sorted(tmp_path.glob("runs/small/records/*/record.json"))[0]
    record.write_text("{")
    told = call_ablate(tmp_path, "analyze", spec)
    assert (told.returncode, len(told.stderr.splitlines())) == (1, 1)
    assert told.stderr.startswith(f"{record} cannot be read (")


class Bomb:
    """A pickle of it makes a folder when somebody reads it."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.marker),)


def test_a_pickle_in_place_of_the_graph_runs_nothing(tmp_path: Path) -> None:
    """Planted with a digest that fits, as whoever can write the cache would do it."""
    import torch

    from ablate.workloads.relational.data.graph import load_graph
    from real_parts import TINY

    said: list[str] = []
    graph = load_graph(TINY, said.append)
    folder, marker = tmp_path / "cache" / "graphs" / graph.digest, tmp_path / "was-run"
    assert folder.exists() and said
    torch.save({"edge/0": Bomb(marker)}, folder / "tensors.pt")
    (folder / "verified").unlink(missing_ok=True)
    plant_digest(folder)
    with pytest.raises(StoredDataError, match=r"holds a damaged graph .*; delete that folder"):
        load_graph(TINY)
    assert not marker.exists()
    torch.load(folder / "tensors.pt", weights_only=False)  # the bomb is a real one
    assert marker.exists()


def plant_digest(folder: Path) -> None:
    from ablate.files.disk import file_digest

    tensors, description = folder / "tensors.pt", folder / "graph.json"
    meta = json.loads(description.read_text())
    description.write_text(json.dumps(meta | {"size": tensors.stat().st_size, "digest": file_digest(tensors)}))
    (folder / "graph.json.digest").write_text(file_digest(description))
