"""How a model looks up its modules by edge type: by strings, or by tuples as PyG users write them."""

from ablate.core.optimization import Expectation, Level, OptimizationInfo

INFO = OptimizationInfo(
    name="string_keys",
    title="string keys",
    layer="compiler output",
    levels={
        "string": Level("Modules of edge types are looked up by string keys.", changes={"model.keys": "string"}),
        "tuple": Level(
            "Modules of edge types are looked up by tuples through PyG's ModuleDict, as users write it.", changes={}
        ),
        "tuple-breaking": Level(
            "Modules of edge types are looked up by tuples through a function that the compiler does not trace, so "
            "every look-up splits the graph as it did from 2023 to 2025.",
            changes={"model.keys": "tuple-breaking"},
        ),
    },
    on="string",
    off={"today": "tuple", "guide": "tuple-breaking"},
    emulations={"tuple-breaking": "emulation of the guide's starting point: tuple look-ups break the graph"},
    numerics="identical",
    requires=("compiled_forward", "supports:hetero-keys"),
    why_inert={"supports:hetero-keys": "this model has no look-ups by edge type"},
    expectations=(
        Expectation(
            "graph_breaks", "fewer", "the forward has fewer graph breaks because no look-up leaves the compiled graph"
        ),
    ),
    source="NVIDIA and Kumo, Optimize PyG with torch.compile (April 2025): string keys in ModuleDict",
)
