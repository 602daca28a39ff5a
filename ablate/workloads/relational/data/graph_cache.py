"""Options -> digest and folder of its materialized graph, and whether that is ready; without torch or RelBench.

The digest of the tables is remembered by names, sizes and times of change of their files, that of a graph's tensors by
the time of change: nothing that was digested is digested again. A graph's description has a digest beside it; a graph
without one, from before there was one, counts as damaged and is made again.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import yaml

from ablate.core.errors import UserError
from ablate.files.disk import file_digest, written_durably
from ablate.files.paths import cache_folder
from ablate.workloads.relational.lookalike.marker import is_marked, read_marker
from ablate.workloads.relational.options import RelationalOptions

LAYOUT = 3  # 2: missing numbers are the column's mean; 3: with sorted columns for the sampler
DESCRIPTION, DIGEST_OF_DESCRIPTION = "graph.json", "graph.json.digest"
EMBEDDER = "hashing-1-2-grams-48"  # of texts, see `ablate.workloads.relational.data.materialize`


def find_ready_graph(source: RelationalOptions) -> str | None:
    """Digest of the graph of the data if it is in the cache, whole, and its tables are as they were; else None.

    None says nothing: `graph.load_graph` decides. Data sets of the hub are always left to it.
    """
    if source.dataset == "look-alike":
        folder = lookalike_folder(source)
        if not is_known_lookalike(source):
            return None
    else:
        folder = Path(source.dataset or "")
        if not folder.is_absolute() or not (folder / "manifest.yaml").exists() or _remembered(folder) is None:
            return None
    manifest = yaml.safe_load((folder / "manifest.yaml").read_text(encoding="utf-8"))
    digest = graph_digest(tables_digest(folder), column_types(manifest["name"]))
    return digest if is_intact(graph_folder(digest)) else None


def lookalike_scale(source: RelationalOptions) -> str:
    """Scale of the look-alike that a study asks for."""
    return source.scale or "tiny"


def lookalike_folder(source: RelationalOptions) -> Path:
    """Where the look-alike that a study asks for is made."""
    return cache_folder() / "look-alike" / f"{lookalike_scale(source)}-{source.data_seed}"


def is_known_lookalike(source: RelationalOptions) -> bool:
    """Whether the look-alike is there, of this version, with the files whose digest was taken before."""
    folder = lookalike_folder(source)
    marker = read_marker(folder)
    return (
        marker is not None
        and is_marked(marker, lookalike_scale(source), source.data_seed)
        and _remembered(folder) is not None
    )


def column_types(dataset_name: str) -> dict[str, dict[str, str]]:
    """Read the committed column types of a dataset; guessing them would draw a different model each time.

    A name such as `rel-hm-lookalike-tiny` uses the types of `rel-hm`, the longest committed name it begins with.

    Raises:
        UserError: no column types are committed for this dataset.
    """
    folder = files("ablate.workloads.relational.data") / "column_types"
    names = [path.name.removesuffix(".json") for path in folder.iterdir() if path.name.endswith(".json")]
    fitting = [name for name in names if dataset_name == name or dataset_name.startswith(f"{name}-")]
    if not fitting:
        raise UserError(
            f"no column types are frozen for dataset {dataset_name!r}; "
            f"add ablate/workloads/relational/data/column_types/{dataset_name}.json with a type per table and column"
        )
    path = folder / f"{max(fitting, key=len)}.json"
    types: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return types


def memo_of(root: Path) -> Path:
    """Where the digest of a dataset folder is remembered, by names, sizes and times of change of its files."""
    stamps = [
        (str(path.relative_to(root)), path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.suffix in {".yaml", ".parquet"}
    ]
    stamp = hashlib.blake2b(json.dumps([str(root), stamps]).encode(), digest_size=16).hexdigest()
    return cache_folder() / "digests" / stamp


def tables_digest(root: Path) -> str:
    """Digest (32 hex digits) of every file of a dataset folder: manifests, tables and label tables; remembered."""
    if known := _remembered(root):
        return known
    digest = hashlib.blake2b(digest_size=16)
    files = [root / "manifest.yaml", *root.glob("db/*.parquet"), *root.glob("tasks/*/*")]
    for path in sorted(p for p in files if p.suffix in {".yaml", ".parquet"}):
        digest.update(str(path.relative_to(root)).encode())
        with path.open("rb") as stream:
            while chunk := stream.read(1 << 22):
                digest.update(chunk)
    write_durably(memo_of(root), digest.hexdigest())
    return digest.hexdigest()


def _remembered(root: Path) -> str | None:
    """The digest that was remembered for a dataset folder as it is now; None when what is there is no digest."""
    memo = memo_of(root)
    content = memo.read_bytes() if memo.exists() else b""
    return content.decode() if re.fullmatch(rb"[0-9a-f]{32}", content) else None


def graph_digest(tables: str, types: Mapping[str, Mapping[str, str]]) -> str:
    """Digest (32 hex digits) of everything that a graph depends on."""
    parts = [LAYOUT, tables, types, EMBEDDER, version("torch"), version("pytorch-frame"), version("relbench")]
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def graph_folder(digest: str) -> Path:
    """Where a graph is kept."""
    return cache_folder() / "graphs" / digest


def is_intact(folder: Path) -> bool:
    """Tell whether a cached graph is whole: description digested always, tensors once, their size always."""
    try:
        if file_digest(folder / DESCRIPTION) != (folder / DIGEST_OF_DESCRIPTION).read_text(encoding="utf-8"):
            return False
        meta = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        tensors = folder / "tensors.pt"
        if tensors.stat().st_size != meta["size"]:
            return False
        verified, stamp = folder / "verified", str(tensors.stat().st_mtime_ns)
        if verified.exists() and verified.read_bytes() == stamp.encode():
            return True
        if file_digest(tensors) != meta["digest"]:
            return False
        write_durably(verified, stamp)
        return True
    except (OSError, ValueError, KeyError):  # ValueError: of JSON, of UTF-8
        return False


def write_durably(path: Path, text: str) -> None:
    """Write a small file that is whole whenever it is there, also after the machine has lost its power."""
    with written_durably(path) as stream:
        stream.write(text.encode())
