"""Kernels that give the same bits in every run, or whichever torch chooses: what repeatability costs."""

from typing import Any

from ablate.core.optimization import Expectation, Level, OptimizationInfo

INFO = OptimizationInfo(
    name="deterministic",
    title="deterministic kernels",
    layer="arithmetic",
    levels={
        "deterministic": Level(
            "Torch and cuDNN may only use algorithms that give the same bits in every run.",
            changes={"torch_settings.deterministic": True, "environment.CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
        ),
        "free": Level("Torch takes kernels as it likes.", changes={}),
        "searched": Level(
            "The fastest convolution is searched for at every new size (cudnn.benchmark).",
            changes={"torch_settings.cudnn_benchmark": True},
        ),
    },
    on="deterministic",
    off={"today": "free"},
    numerics="rounding",
    expectations=(Expectation("deterministic_algorithms", "more", "torch is told to use deterministic kernels"),),
    counters={"deterministic_algorithms": "deterministic algorithms demanded (1) or not (0)"},
    source="PyTorch, Reproducibility",
)


def count(session: Any) -> dict[str, float]:
    """Whether deterministic algorithms are demanded in this process."""
    import torch

    return {"deterministic_algorithms": float(torch.are_deterministic_algorithms_enabled())}
