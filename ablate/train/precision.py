"""A ready session -> the settings that decide how its numbers are rounded."""

from __future__ import annotations

import torch

from ablate.train.session import Session


def describe_precision(session: Session) -> dict[str, str]:
    """Settings that decide how numbers are rounded; arms that differ in them are not paired."""
    kinds = {str(p.dtype).removeprefix("torch.") for p in session.workload.model.parameters()}
    on = torch.is_autocast_enabled(session.device.type)
    autocast = str(torch.get_autocast_dtype(session.device.type)).removeprefix("torch.") if on else "off"
    settings = session.workload.context.recipe.torch_settings
    found = {
        "weights": " and ".join(sorted(kinds)),
        "autocast": autocast,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "flush_denormal": str(settings.get("flush_denormal", False)).lower(),
    }
    if session.device.type == "cuda":
        found["cudnn.allow_tf32"] = str(torch.backends.cudnn.allow_tf32).lower()
    return found
