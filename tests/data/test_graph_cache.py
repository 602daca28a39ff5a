"""Whether a graph is ready, without torch: only while neither its tables nor its tensors have changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ablate.core.study import DataSource
from ablate.data.graph import load_graph
from ablate.data.graph_cache import find_ready_graph, graph_folder

SOURCE = DataSource(dataset="look-alike", scale="tiny", seed=6)


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
    assert find_ready_graph(DataSource(dataset=folder)) == cache.digest


def test_another_look_alike_a_hub_name_or_an_absent_folder_are_not(cache, tmp_path):
    assert find_ready_graph(DataSource(dataset="look-alike", scale="tiny", seed=7)) is None
    assert find_ready_graph(DataSource(dataset="rel-hm")) is None
    assert find_ready_graph(DataSource(dataset=str(tmp_path))) is None


@pytest.mark.parametrize("which", ["tables", "tensors", "description"])
def test_a_change_makes_it_unready_and_loading_repairs_it(cache, which):
    graph = graph_folder(cache.digest)
    path = {"tables": Path(cache.dataset.dataset_dir) / "db" / "article.parquet",
            "tensors": graph / "tensors.pt", "description": graph / "graph.json"}[which]
    path.write_bytes(path.read_bytes()[:-1])
    assert find_ready_graph(SOURCE) is None
    assert load_graph(SOURCE).digest == cache.digest
    assert find_ready_graph(SOURCE) in (None, cache.digest)  # a new file is digested by the next who loads it
    load_graph(SOURCE)
    assert find_ready_graph(SOURCE) == cache.digest


def test_looking_needs_neither_torch_nor_pandas():
    code = ("import sys, ablate.data.graph_cache; "
            "print(sorted({'torch', 'pandas', 'relbench', 'numpy'} & set(sys.modules)))")
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"
