"""A call that trains or predicts -> checksums of the dropout masks that it drew, in compiled code too."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

DRAWING = {torch.ops.aten.bernoulli: 0, torch.ops.aten.bernoulli_: 0, torch.ops.aten.native_dropout: 1}  # output: mask


class MaskRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Collects a checksum of every mask drawn while it is entered.

    Eager dropout draws with `bernoulli_` on a CPU and with `native_dropout` elsewhere and in compiled code; the
    checksum looks only at which elements are kept, so the same mask has the same checksum in all of them. Inductor's
    own generator (without `fallback_random`) and replayed CUDA Graphs draw where nothing can see it. Neither is a mask
    looked at while a CUDA Graph is captured: nothing is drawn then, and copying it to the host would end the capture.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.checksums: list[int] = []

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let compiled code run as it is; without this torch runs the original eagerly under a dispatch mode."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        place = DRAWING.get(func.overloadpacket)
        if place is not None and not is_capturing():
            mask = result[place] if isinstance(result, (tuple, list)) else result
            self.checksums.append(checksum_tensors([mask != 0]))
        return result


def is_capturing() -> bool:
    """Whether what the current stream of a GPU is given is being recorded into a CUDA Graph, not run."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def checksum_tensors(tensors: Iterable[Tensor]) -> int:
    """A signed 64-bit checksum of shapes and bytes, in order; never 0, which stands for nothing seen."""
    digest = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        values = tensor.detach().cpu().contiguous()
        digest.update(str(tuple(values.shape)).encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
    return int.from_bytes(digest.digest(), "little", signed=True) or 1


def join_checksums(checksums: Sequence[int]) -> int:
    """One checksum of several, in order; 0 for none."""
    if not checksums:
        return 0
    text = ",".join(map(str, checksums)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little", signed=True) or 1


def describe_difference(compiled: Sequence[int], plain: Sequence[int]) -> str:
    """How two series of masks differ, in words; empty when they are equal."""
    if len(compiled) != len(plain):
        return f"the compiled forward was seen to draw {len(compiled)} masks, the same module uncompiled {len(plain)}"
    different = [index for index, (one, other) in enumerate(zip(compiled, plain, strict=True)) if one != other]
    if not different:
        return ""
    return (
        f"{len(different)} of {len(plain)} masks that the compiled forward drew are not those of the same module "
        f"uncompiled, from number {different[0] + 1} on"
    )
