"""Each distinct row of a batch encoded once, then gathered, or every node's row encoded (not in the guide)."""

from typing import Any

from ablate.core.optimization import Expectation, Level, OptimizationInfo

INFO = OptimizationInfo(
    name="encode_unique",
    title="encode distinct rows once",
    layer="data",
    levels={
        "distinct": Level(
            "The loader gives each distinct row of a batch once; nodes that share a row gather its encoding. With "
            "dropout they share a mask too; without dropout only rounding differs.",
            changes={"model.rows": "distinct"},
        ),
        "every": Level("Every node of a batch is encoded, as often as it was sampled.", changes={}),
    },
    on="distinct",
    off={"today": "every"},
    numerics="training",
    requires=("supports:distinct-rows",),
    why_inert={"supports:distinct-rows": "this model encodes no rows of tables"},
    expectations=(Expectation("encoded_rows", "fewer", "the encoders see fewer rows"),),
    counters={"encoded_rows": "rows that the encoders see in the first batch"},
    source="Measured on the reference GNN: benchmarks/encode_unique",
)


def count(session: Any) -> dict[str, float]:
    """Rows of tables in the first batch (an entity's graph, or several)."""
    batch = session.dataset[0]
    parts = batch if isinstance(batch, tuple | list) else (batch,)
    return {"encoded_rows": float(sum(part[name].tf.num_rows for part in parts for name in part.node_types))}
