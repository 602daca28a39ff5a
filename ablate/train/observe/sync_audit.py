"""One untimed training step -> the calls that would make the host wait for a device, by source line.

On any machine a dispatch mode looks at the operators that read a value or a size back; it also sees inside code that
the compiler made. On a GPU torch's own sync debug mode reports the waits themselves.
"""

import os
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

READING = {
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::masked_select",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::equal",
    "aten::is_nonzero",
    "aten::unique_consecutive",
}
MASKING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
LIBRARIES = (f"{Path(torch.__file__).parent}{os.sep}", __file__)
SYNC_WARNING = "called a synchronizing CUDA operation"


@dataclass(frozen=True, kw_only=True)
class Read:
    """One operator that reads back.

    Attributes:
        operator: For instance `index_put_`; the in-place form and the other are the same reading.
        shapes: Shapes of its tensors, by which the same reading is recognized inside compiled code.
        line: Innermost `file:line` outside torch; empty inside code that the compiler made.
    """

    operator: str
    shapes: tuple[tuple[int, ...], ...]
    line: str


class SyncAudit(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Collects reading operators.

    Args:
        host: Tensors that stay on the host on every machine (Adam's step counters, a CPU learning rate): reading them,
            or what is computed from them and from numbers written in the program, never waits for a device.
    """

    def __init__(self, host: Iterable[torch.Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.reads: list[Read] = []
        self._host = {tensor.data_ptr(): tensor for tensor in host}  # kept, so that no address is used twice

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let compiled code run as it is; without this torch runs the original eagerly under a dispatch mode."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        on_host = bool(tensors) and all(tensor.data_ptr() in self._host for tensor in tensors)
        on_host = on_host or (bool(self._host) and func._schema.name == "aten::lift_fresh")
        if not on_host and _reads_back(func, args):
            self.reads.append(
                Read(
                    operator=func._schema.name.removeprefix("aten::").rstrip("_"),
                    line=_source_line(),
                    shapes=tuple(tuple(tensor.shape) for tensor in tensors),
                )
            )
        result = func(*args, **(kwargs or {}))
        if on_host:
            self._host |= {leaf.data_ptr(): leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)}
        return result


def audit_reads(step: Callable[[], object], host: Iterable[torch.Tensor] = ()) -> list[Read]:
    """Run `step` once and return what reads back; `host` as in `SyncAudit`."""
    audit = SyncAudit(host)
    with audit:
        step()
    return audit.reads


def count_lines(reads: Sequence[Read], eager: Sequence[Read] = ()) -> dict[str, int]:
    """Count readings by source line.

    Args:
        reads: Readings of a step.
        eager: Readings of the same step with nothing compiled: they name the line of a reading inside compiled code
            with the same operator and shapes.
    """
    left: dict[object, list[str]] = {}
    for read in eager:
        left.setdefault((read.operator, read.shapes), []).append(read.line)
    found: Counter[str] = Counter()
    for read in reads:
        lines = left.get((read.operator, read.shapes), [])
        found[read.line or f"{lines.pop(0) if lines else read.operator} (compiled)"] += 1
    return dict(found)


def audit_device(step: Callable[[], object]) -> dict[str, int]:
    """Run `step` once on a GPU under torch's sync debug mode; returns `file:line` -> number of waits."""
    previous = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            step()
        finally:
            torch.cuda.set_sync_debug_mode(previous)
    return dict(Counter(_short(w.filename, w.lineno) for w in caught if SYNC_WARNING in str(w.message)))


def _reads_back(func: Any, args: Any) -> bool:
    name = func._schema.name
    if name in READING:
        return True
    if name == "aten::repeat_interleave":
        return func._overloadname == "Tensor" and not any(isinstance(a, int) for a in args[1:])
    if name in MASKING:
        indices = args[1] if len(args) > 1 else ()
        return any(isinstance(i, torch.Tensor) and i.dtype in (torch.bool, torch.uint8) for i in indices)
    return False


def _source_line() -> str:
    """Innermost line outside torch; empty when code that the compiler made lies in between."""
    generated = cache_dir()
    for frame in reversed(traceback.extract_stack()):
        if frame.filename.startswith(generated) or frame.filename.startswith("<eval_with_key>"):
            return ""
        if not frame.filename.startswith(LIBRARIES) and not frame.filename.startswith("<"):
            return _short(frame.filename, frame.lineno or 0)
    return "unknown:0"


def _short(filename: str, line: int) -> str:
    parts = Path(filename).parts
    anchor = parts.index("site-packages") + 1 if "site-packages" in parts else max(len(parts) - 3, 0)
    return f"{'/'.join(parts[anchor:])}:{line}"
