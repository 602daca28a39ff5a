"""How one cell trains -> `Recipe`, the only value that optimizations write and workloads read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from ablate.core.errors import UserError


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """Arguments of `torch.compile`: None in `dynamic` is automatic, None in `mode` is the default mode."""

    dynamic: bool | None = None
    mode: str | None = None
    backend: str = "inductor"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that an optimization may change about a training; a workload reads nothing else.

    Attributes:
        execution: `eager` compiles nothing.
        forward_dynamic, forward_mode: Options of the compiled inner module.
        compile_step: Whether the compiled mode compiles the optimizer step too.
        lr_kind: `float`, a CPU `tensor`, or a `device-tensor`.
        key_style: How ModuleDict look-ups are keyed: `string`, `tuple`, or `tuple-breaking` (emulation).
        metric_policy: `on-device` accumulates the loss without reading back; `syncing` reads it back every step.
        mean_metric: `validating` also feeds a torchmetrics mean that checks its input on the host in every step.
        copy_policy: `blocking` or `non-blocking` copies to the device.
        adapt: `module:function` (or `path/to/file.py:function`), called with the ready session before its first step,
            for a change that no other field can express.
        encode_unique: The loader gives each distinct row of a batch once, and the model gathers after encoding.
        dynamo_config, inductor_config: Settings of `torch._dynamo.config` and `torch._inductor.config`.
        step_dynamo_config: Settings of `torch._dynamo.config` that hold only while the optimizer step runs.
        torch_settings: `float32_matmul_precision`, `num_threads`, `flush_denormal`.
        environment: Variables set in the trial's process before torch is imported.
    """

    execution: Literal["eager", "compiled"] = "eager"
    backend: str = "inductor"
    forward_dynamic: bool | None = None
    forward_mode: str | None = None
    compile_step: bool = True
    lr_kind: Literal["float", "tensor", "device-tensor"] = "float"
    key_style: Literal["string", "tuple", "tuple-breaking"] = "tuple"
    metric_policy: Literal["on-device", "syncing"] = "syncing"
    mean_metric: Literal["validating", "on-device"] = "validating"
    copy_policy: Literal["blocking", "non-blocking"] = "blocking"
    encode_unique: bool = False
    adapt: str | None = None
    dynamo_config: Mapping[str, Any] = field(default_factory=dict)
    inductor_config: Mapping[str, Any] = field(default_factory=dict)
    step_dynamo_config: Mapping[str, Any] = field(default_factory=dict)
    torch_settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def forward_compile(self) -> CompileOptions | None:
        """Compile options of the inner module; None when it runs eagerly."""
        if self.execution == "eager":
            return None
        return CompileOptions(dynamic=self.forward_dynamic, mode=self.forward_mode, backend=self.backend)

    @property
    def step_compile(self) -> CompileOptions | None:
        """Compile options of the optimizer step (default options); None when it runs eagerly."""
        if self.execution == "eager" or not self.compile_step:
            return None
        return CompileOptions(backend=self.backend)


Apply = Callable[[Recipe, str], Recipe]


def compose_recipe(base: Recipe, changes: Sequence[tuple[str, Apply, str]]) -> Recipe:
    """Apply each optimization's level to the base recipe, refusing two that disagree on one field.

    Every optimization sees the base, not the others' results, so their order cannot matter.

    Args:
        base: Recipe before any optimization.
        changes: (name, apply, level) per optimization.

    Raises:
        UserError: two optimizations set one field (or one key of a mapping field) to different values.
    """
    written: dict[tuple[str, str], tuple[str, Any]] = {}
    for name, apply, level in changes:
        changed = apply(base, level)
        for slot, value in _differences(base, changed).items():
            if slot in written and written[slot][1] != value:
                other, theirs = written[slot]
                label = ".".join(part for part in slot if part)
                raise UserError(
                    f"optimizations {other} and {name} both set {label}: {theirs!r} against {value!r}; "
                    "fix one of them in the spec"
                )
            written[slot] = (name, value)
    return _write(base, {slot: value for slot, (_, value) in written.items()})


def _differences(base: Recipe, changed: Recipe) -> dict[tuple[str, str], Any]:
    found: dict[tuple[str, str], Any] = {}
    for f in fields(Recipe):
        before, after = getattr(base, f.name), getattr(changed, f.name)
        if isinstance(before, Mapping):
            found |= {(f.name, key): value for key, value in after.items() if before.get(key, _ABSENT) != value}
        elif before != after:
            found[(f.name, "")] = after
    return found


def _write(base: Recipe, values: Mapping[tuple[str, str], Any]) -> Recipe:
    updates: dict[str, Any] = {}
    for (name, key), value in values.items():
        if key:
            updates[name] = {**updates.get(name, getattr(base, name)), key: value}
        else:
            updates[name] = value
    return replace(base, **updates)


_ABSENT = object()
