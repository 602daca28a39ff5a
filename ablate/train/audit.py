"""One untimed eager step -> the calls that would make the host wait for a device, by source line.

Runs on any machine: it looks at the operators that read a value or a size back, not at a device.
"""

from __future__ import annotations

import os
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

READING = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim",
           "aten::equal", "aten::is_nonzero", "aten::unique_consecutive"}
MASKING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
LIBRARIES = (f"{Path(torch.__file__).parent}{os.sep}", __file__)


class SyncAudit(TorchDispatchMode):
    """Counts reading operators by the innermost source line outside torch itself."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _reads_back(func, args):
            self.sources[_source_line()] += 1
        return func(*args, **(kwargs or {}))


def audit_step(step: Callable[[], None]) -> dict[str, int]:
    """Run `step` once and return `file:line` -> number of would-be syncs."""
    with SyncAudit() as audit:
        step()
    return dict(audit.sources)


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
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(LIBRARIES) and not frame.filename.startswith("<"):
            parts = Path(frame.filename).parts
            anchor = parts.index("site-packages") + 1 if "site-packages" in parts else max(len(parts) - 3, 0)
            return f"{'/'.join(parts[anchor:])}:{frame.lineno}"
    return "unknown:0"
