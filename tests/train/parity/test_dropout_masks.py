"""Masks are recognized by what they keep, whoever draws them."""

import pytest
import torch

from ablate.train.parity.dropout_masks import MaskRecorder, checksum_tensors, describe_difference, join_checksums


def drawn(call, seed=0):
    torch.manual_seed(seed)
    with MaskRecorder() as recorder:
        call()
    return recorder.checksums


def test_the_same_mask_has_one_checksum_in_eager_and_fused_dropout():
    ones = torch.ones(4, 5)
    eager = drawn(lambda: torch.nn.functional.dropout(ones, 0.5))
    fused = drawn(lambda: torch.native_dropout(ones, 0.5, True))
    assert eager == fused and len(eager) == 1
    assert drawn(lambda: torch.nn.functional.dropout(ones, 0.5), seed=1) != eager


def test_the_checksum_is_that_of_the_elements_kept():
    torch.manual_seed(0)
    kept = torch.nn.functional.dropout(torch.ones(4, 5), 0.5) != 0
    assert drawn(lambda: torch.nn.functional.dropout(torch.ones(4, 5), 0.5)) == [checksum_tensors([kept])]
    assert checksum_tensors([kept]) != checksum_tensors([kept.reshape(5, 4)])  # a shape is part of it


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.nn.functional.dropout(torch.ones(3), 0.5, training=False),
        lambda: torch.nn.functional.dropout(torch.ones(3), 0.0),
        lambda: torch.rand(3),
    ],
    ids=["evaluating", "zero", "other"],
)
def test_what_draws_no_mask_leaves_none(call):
    assert drawn(call) == []


def test_no_mask_is_looked_at_while_a_cuda_graph_is_captured(monkeypatch):
    """A copy to the host would end the capture; `cpu` stands for it."""
    flags = iter([True, False])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: next(flags))
    ones = torch.ones(4, 5)
    assert drawn(lambda: torch.native_dropout(ones, 0.5, True)) == []
    assert len(drawn(lambda: torch.native_dropout(ones, 0.5, True))) == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_capture_goes_on_under_the_recorder():
    ones, graph = torch.ones(4, 5, device="cuda"), torch.cuda.CUDAGraph()
    torch.native_dropout(ones, 0.5, True)
    with MaskRecorder() as recorder, torch.cuda.graph(graph):
        torch.native_dropout(ones, 0.5, True)
    graph.replay()
    torch.cuda.synchronize()
    assert recorder.checksums == []


def test_several_masks_join_in_order():
    assert join_checksums([]) == 0
    assert join_checksums([1, 2]) != join_checksums([2, 1]) != 0


def test_a_difference_is_told_by_its_first_mask():
    assert describe_difference([1, 2], [1, 2]) == ""
    assert describe_difference([1], [1, 2]) == (
        "the compiled forward was seen to draw 1 masks, the same module uncompiled 2"
    )
    assert describe_difference([1, 5, 6], [1, 2, 3]) == (
        "2 of 3 masks that the compiled forward drew are not those of the same module uncompiled, from number 2 on"
    )
