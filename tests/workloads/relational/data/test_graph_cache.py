"""Whether a graph is ready, without torch: only while neither its tables nor its tensors have changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ablate.workloads.relational.data.graph import load_graph
from ablate.workloads.relational.data.graph_cache import find_ready_graph, graph_folder, memo_of
from ablate.workloads.relational.options import RelationalOptions

SOURCE = RelationalOptions(dataset="look-alike", scale="tiny", data_seed=6)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABLATE_CACHE", str(folder))
        assert find_ready_graph(SOURCE) is None
        yield load_graph(SOURCE)


def test_a_loaded_graph_is_ready_and_so_is_the_one_of_its_folder(cache):
    assert find_ready_graph(SOURCE) == cache.digest
    folder = str(cache.dataset.dataset_dir)
    assert find_ready_graph(RelationalOptions(dataset=folder)) == cache.digest


def test_another_look_alike_a_hub_name_or_an_absent_folder_are_not(cache, tmp_path):
    assert find_ready_graph(RelationalOptions(dataset="look-alike", scale="tiny", data_seed=7)) is None
    assert find_ready_graph(RelationalOptions(dataset="rel-hm")) is None
    assert find_ready_graph(RelationalOptions(dataset=str(tmp_path))) is None


@pytest.mark.parametrize("which", ["tables", "tensors", "description"])
def test_a_change_makes_it_unready_and_loading_repairs_it(cache, which):
    graph = graph_folder(cache.digest)
    path = {
        "tables": Path(cache.dataset.dataset_dir) / "db" / "article.parquet",
        "tensors": graph / "tensors.pt",
        "description": graph / "graph.json",
    }[which]
    path.write_bytes(path.read_bytes()[:-1])
    assert find_ready_graph(SOURCE) is None
    assert load_graph(SOURCE).digest == cache.digest
    assert find_ready_graph(SOURCE) in (None, cache.digest)  # a new file is digested by the next who loads it
    load_graph(SOURCE)
    assert find_ready_graph(SOURCE) == cache.digest


def test_one_changed_digit_of_a_mean_makes_the_graph_again(cache):
    path = graph_folder(cache.digest) / "graph.json"
    whole = path.read_text()
    mean = json.loads(whole)["stats"]["customer"]["age"]["MEAN"]
    changed = whole.replace(repr(mean), repr(mean + 1))
    assert changed != whole and len(changed) == len(whole)
    path.write_text(changed)
    assert find_ready_graph(SOURCE) is None
    said: list[str] = []
    load_graph(SOURCE, said.append)
    assert [line.split()[0] for line in said] == ["materializing"] and path.read_text() == whole


@pytest.mark.parametrize("name", ["graph.json", "graph.json.digest", "verified"])
def test_a_byte_that_is_no_utf_8_counts_as_damage(cache, name):
    graph = graph_folder(cache.digest)
    load_graph(SOURCE)
    whole = (graph / name).read_bytes()
    (graph / name).write_bytes(b"\xff" + whole[1:])
    load_graph(SOURCE)
    assert find_ready_graph(SOURCE) == cache.digest
    assert name == "verified" or (graph / name).read_bytes() == whole


@pytest.mark.parametrize("content", [b"", b"\xff" * 32, b"g" * 32, b"0" * 31, b"0" * 32 + b"\n"])
def test_a_remembered_digest_that_is_none_is_taken_anew(cache, content):
    memo = memo_of(Path(cache.dataset.dataset_dir))
    whole = memo.read_bytes()
    memo.write_bytes(content)
    assert find_ready_graph(SOURCE) is None
    assert load_graph(SOURCE).digest == cache.digest
    assert memo.read_bytes() == whole
    assert {path.name for path in memo.parent.iterdir() if len(path.name) != 32} == set()  # no half file is left


STARTED_TOGETHER = """
import sys
from ablate.workloads.relational.lookalike import make as lookalike
from ablate.workloads.relational.data.graph import load_graph
from ablate.workloads.relational.options import RelationalOptions
write = lookalike._write_dataset
lookalike._write_dataset = lambda *arguments: (print("generating", flush=True), write(*arguments))
print("started", flush=True)
sys.stdin.readline()
options = RelationalOptions(dataset="look-alike", scale="tiny", data_seed=8)
graph = load_graph(options, lambda said: print(said, flush=True))
print(graph.digest, graph.data["customer"].num_nodes)
"""


def test_of_two_that_start_together_one_makes_the_graph_and_both_load_it(tmp_path, monkeypatch):
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", STARTED_TOGETHER],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout.readline() == "started\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    told = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], told
    said = [line for output, _ in told for line in output.splitlines()]
    assert sorted(line.split()[0] for line in said if line.startswith(("generating", "materializing"))) == [
        "generating",
        "materializing",
    ]
    loaded = {output.splitlines()[-1] for output, _ in told}
    assert len(loaded) == 1 and loaded.pop().endswith(" 1500")
    assert not list(tmp_path.rglob(".*"))  # neither locks nor half of anything


def test_looking_needs_neither_torch_nor_pandas():
    code = (
        "import sys, ablate.workloads.relational.data.graph_cache; "
        "print(sorted({'torch', 'pandas', 'relbench', 'numpy'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"
