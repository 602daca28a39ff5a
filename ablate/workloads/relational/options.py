"""What a spec may set for the three H&M workloads -> `RelationalOptions`, and their data made ready."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ablate.core.errors import UserError
from ablate.core.workload import option

SUPPORTS = ("hetero-keys", "distinct-rows", "replay")


@dataclass(frozen=True, kw_only=True)
class RelationalOptions:
    """Data, sampling and model of a relational workload."""

    dataset: str | None = option(None, "look-alike, the name of a RelBench dataset, or a folder in its format.")
    revision: str | None = option(None, "Pinned revision of a dataset from the hub.")
    scale: str | None = option(None, "Size of the look-alike.", one_of=("tiny", "small", "real"))
    data_seed: int = option(0, "Seed of the look-alike.", at_least=0, below=2**31)
    channels: int = option(128, "Hidden width.", at_least=1, at_most=16_384)
    num_neighbors: tuple[int, ...] = option((128, 64), "Sampled neighbors per hop.", at_least=1, at_most=100_000)
    dropout: float = option(0.2, "Dropout probability of the encoders.", at_least=0, below=1)
    encoder_layers: int = option(4, "Residual blocks of each table's feature encoder.", at_least=1, at_most=64)
    validation_rows: int | None = option(None, "Rows scored after training; None = all.", at_least=1, at_most=10**9)
    label_seed: int | None = option(None, "Permutes the labels, to show that nothing leaks.", at_least=0, below=2**31)


def check_folder(folder: Path) -> None:
    """Raise a `UserError` where a folder is no RelBench dataset."""
    if not (folder / "manifest.yaml").exists():
        raise UserError(
            f"{folder} is not a RelBench dataset: it has no manifest.yaml; `ablate data make FOLDER --scale tiny` "
            "writes one"
        )


def check_data(options: RelationalOptions, task: str) -> None:
    """Raise a `UserError` where a folder lacks the data of a task, as far as that shows without opening it."""
    folder = Path(options.dataset or "")
    if not folder.is_absolute():
        return  # the look-alike has every task; what the hub has is known when it is asked
    check_folder(folder)
    tasks = sorted(path.parent.name for path in folder.glob("tasks/*/manifest.yaml"))
    if task not in tasks:
        raise UserError(f"{folder} has no task {task!r}; it has {', '.join(tasks) or 'none'}")


def prepare(options: RelationalOptions, say: Callable[[str], None]) -> None:
    """Make the tables and the graph where they are not there yet."""
    from ablate.workloads.relational.data.graph_cache import find_ready_graph

    say(f"data: {options.dataset} {options.scale or ''}".rstrip())
    if (ready := find_ready_graph(options)) is not None:
        say(f"graph {ready[:12]}: ready")
        return
    from ablate.workloads.relational.data.graph import load_graph  # imports torch

    graph = load_graph(options, say)
    sizes = ", ".join(f"{name} {graph.data[name].num_nodes:,}" for name in graph.data.node_types)
    say(f"graph {graph.digest[:12]}: {sizes}")
