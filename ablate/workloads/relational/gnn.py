"""A sampled subgraph -> one vector per seed: RelBench's reference GNN with ModuleDict look-ups keyed by the recipe.

Shapes: N nodes of a type, E edges of a type, S seeds, C channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from relbench.modeling.nn import HeteroEncoder, HeteroTemporalEncoder
from torch import Tensor
from torch_frame import TensorFrame
from torch_geometric.data import HeteroData
from torch_geometric.nn import MLP, LayerNorm, SAGEConv
from torch_geometric.nn.module_dict import ModuleDict as TupleModuleDict

from ablate.core.recipe import Recipe
from ablate.workloads.relational.data.graph import Graph
from ablate.workloads.relational.options import RelationalOptions

EdgeType = tuple[str, str, str]


class BreakingModuleDict(TupleModuleDict):  # type: ignore[misc]  # PyG has no types
    """Tuple look-ups that the compiler may not trace, as PyG's were in 2023-25 (emulation)."""

    @torch._dynamo.disable  # type: ignore[untyped-decorator]
    def _look_up(self, key: Any) -> torch.nn.Module:
        module: torch.nn.Module = super().__getitem__(key)
        return module

    def __getitem__(self, key: Any) -> torch.nn.Module:
        return self._look_up(key)  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class Keys:
    """How edge types are spelled in look-ups, and the ModuleDict that takes that spelling.

    Every style stores its modules under the same names, so that weights load across styles.
    """

    style: str

    @classmethod
    def of_recipe(cls, recipe: Recipe) -> Keys:
        """The spelling that a recipe asks for."""
        return cls(style=recipe.model.get("keys", "tuple"))

    def of(self, edge_type: EdgeType) -> Any:
        """The look-up key of an edge type: the tuple itself, or the string that PyG would make of it."""
        return TupleModuleDict.to_internal_key(edge_type) if self.style == "string" else edge_type

    def module_dict(self, modules: Mapping[EdgeType, torch.nn.Module]) -> torch.nn.ModuleDict:
        """A ModuleDict that is indexed with `of(edge_type)`."""
        if self.style == "string":
            return torch.nn.ModuleDict({self.of(edge_type): module for edge_type, module in modules.items()})
        kind = BreakingModuleDict if self.style == "tuple-breaking" else TupleModuleDict
        return kind(modules)


class HeteroSAGE(torch.nn.Module):
    """Heterogeneous GraphSAGE with sum aggregation, a layer norm and a ReLU after each hop."""

    def __init__(
        self, node_types: list[str], edge_types: list[EdgeType], channels: int, num_hops: int, keys: Keys
    ) -> None:
        super().__init__()
        self._edges = [(keys.of(edge_type), edge_type[0], edge_type[2]) for edge_type in edge_types]
        self.convs = torch.nn.ModuleList(
            keys.module_dict({e: SAGEConv((channels, channels), channels, aggr="sum") for e in edge_types})
            for _ in range(num_hops)
        )
        self.norms = torch.nn.ModuleList(
            torch.nn.ModuleDict({name: LayerNorm(channels, mode="node") for name in node_types})
            for _ in range(num_hops)
        )

    def forward(self, x: dict[str, Tensor], edges: dict[Any, Tensor]) -> dict[str, Tensor]:
        """Map features (N, C) and edges (2, E) per type to features (N, C) per type."""
        for convs, norms in zip(self.convs, self.norms, strict=True):
            sums: dict[str, Tensor] = {}
            for key, source, target in self._edges:
                message = convs[key]((x[source], x[target]), edges[key])  # type: ignore[index]
                sums[target] = sums[target] + message if target in sums else message
            x = {name: norms[name](value).relu() for name, value in sums.items()}  # type: ignore[index]
        return x


class TemporalGNN(torch.nn.Module):
    """Frame encoders, temporal encoder, heterogeneous GraphSAGE and a linear head; the inner module that is compiled.

    Args:
        graph: Gives columns, statistics, node and edge types.
        options: Width, hops, encoder depth, dropout.
        recipe: Gives the key style.
        out_channels: Outputs per seed.
        embedded: Node types with a learned vector per node (shallow embedding).

    Attributes:
        stages: Submodule -> stage that its time counts for.
    """

    stages: Mapping[str, str] = MappingProxyType(
        {"encoder": "encoding", "temporal_encoder": "encoding", "gnn": "message passing", "head": "head"}
    )

    def __init__(
        self,
        graph: Graph,
        options: RelationalOptions,
        recipe: Recipe,
        out_channels: int,
        embedded: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        data, channels = graph.data, options.channels
        sizes = {"channels": channels, "num_layers": options.encoder_layers, "dropout_prob": options.dropout}
        self.encoder = HeteroEncoder(
            channels,
            {name: data[name].tf.col_names_dict for name in data.node_types},
            graph.col_stats,
            torch_frame_model_kwargs=sizes,
        )
        self.temporal_encoder = HeteroTemporalEncoder([n for n in data.node_types if "time" in data[n]], channels)
        self.gnn = HeteroSAGE(
            data.node_types, data.edge_types, channels, len(options.num_neighbors), Keys.of_recipe(recipe)
        )
        self.head = MLP(channels, out_channels=out_channels, norm="batch_norm", num_layers=1)
        self.embeddings = torch.nn.ModuleDict(
            {name: torch.nn.Embedding(int(data[name].num_nodes), channels) for name in embedded}
        )
        for embedding in self.embeddings.values():
            torch.nn.init.normal_(embedding.weight, std=0.1)  # type: ignore[arg-type]

    def forward(
        self,
        target: str,
        frames: dict[str, TensorFrame],
        edges: dict[Any, Tensor],
        times: dict[str, Tensor],
        seed_of: dict[str, Tensor],
        seed_time: Tensor,
        node_ids: dict[str, Tensor],
        row_of: dict[str, Tensor],
    ) -> Tensor:
        """Return (S, out_channels) for the seeds, which are the first S nodes of type `target`.

        `row_of` (N,) names the row of `frames` that a node has; empty where every node has a row of its own.
        """
        x = self.encoder(frames)
        for name, rows in row_of.items():
            x[name] = x[name].index_select(0, rows)
        for name, relative in self.temporal_encoder(seed_time, times, seed_of).items():
            x[name] = x[name] + relative
        for name, embedding in self.embeddings.items():
            x[name] = x[name] + embedding(node_ids[name])
        x = self.gnn(x, edges)
        return self.head(x[target][: seed_time.size(0)])  # type: ignore[no-any-return]


def make_inputs(batch: HeteroData, recipe: Recipe, embedded: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """Turn a sampled batch into the positional arguments of `TemporalGNN.forward`: plain dicts of tensors."""
    keys = Keys.of_recipe(recipe)
    target = batch.seed_type
    frames = {name: batch[name].tf for name in batch.node_types}
    edges = {keys.of(edge_type): batch[edge_type].edge_index for edge_type in batch.edge_types}
    times = {name: batch[name].time for name in batch.node_types if "time" in batch[name]}
    seed_of = {name: batch[name].batch for name in times}
    node_ids = {name: batch[name].n_id for name in embedded}
    row_of = {name: batch[name].row_of for name in batch.node_types} if recipe.model.get("rows") == "distinct" else {}
    return target, frames, edges, times, seed_of, batch[target].seed_time, node_ids, row_of
