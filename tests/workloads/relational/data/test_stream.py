"""The batch stream: order, checksums, replay, and that nothing is sampled from the future."""

import numpy as np
import pytest
import torch

from ablate.core.recipe import Recipe
from ablate.core.study import LoaderOptions
from ablate.train.session import build_workload
from ablate.train.stream import BatchStream
from ablate.workloads.relational.data.stream import draw_batches
from real_parts import WORKLOADS, tiny_study


def make_stream(
    workload: str = WORKLOADS[0],
    *,
    seed: int = 0,
    num_batches: int = 6,
    recipe: Recipe | None = None,
    options: LoaderOptions | None = None,
    weight_seed: int = 0,
) -> BatchStream:
    options = options or LoaderOptions()
    built = build_workload(tiny_study(workload), workload, recipe or Recipe(), seed=weight_seed)
    dataset = built.batches(num_batches, seed)
    if options.mode == "replay":
        dataset.keep()
    return BatchStream(dataset, built.checksum, num_batches, options, pin=False)


def drain(stream: BatchStream) -> str:
    for _ in stream:
        pass
    return stream.hash


def test_draws_whole_passes_without_repeats():
    rows = draw_batches(10, 3, 7, np.random.default_rng(0))
    assert rows.shape == (7, 3)
    for start in (0, 3):  # three batches of three use nine of ten rows, each once
        assert len(np.unique(rows[start : start + 3])) == 9


def test_a_small_table_gives_batches_of_the_whole_table():
    assert sorted(draw_batches(4, 100, 2, np.random.default_rng(0))[1].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_hash_is_equal_for_every_cell_and_differs_across_seeds(workload: str):
    eager = drain(make_stream(workload))
    full = Recipe(
        execution="compiled",
        forward_dynamic=True,
        lr_kind="tensor",
        model={"keys": "string"},
        metric_policy="on-device",
    )
    assert drain(make_stream(workload, recipe=full, weight_seed=9)) == eager
    assert drain(make_stream(workload, seed=1)) != eager


def test_workers_and_replay_see_the_same_batches():
    live = drain(make_stream())
    assert drain(make_stream(options=LoaderOptions(num_workers=2))) == live
    replay = make_stream(options=LoaderOptions(mode="replay"))
    assert drain(replay) == live
    assert len(replay.wait_s) == 6


def test_replay_states_its_size():
    dataset = build_workload(tiny_study(), WORKLOADS[0], Recipe(), seed=0).batches(6, 0)
    assert dataset.replay_gib is None
    dataset.keep()
    assert 0 < dataset.replay_gib < 0.01


@pytest.mark.parametrize("workload", WORKLOADS)
def test_no_row_comes_from_after_its_seed_over_a_full_epoch(workload: str):
    built = build_workload(tiny_study(workload, batch_size=256), workload, Recipe(), seed=0)
    num_batches = built.num_train_rows // 256
    dataset = built.batches(num_batches, 0)
    num_rows = 0
    for index in range(num_batches):
        batch = dataset[index]
        for part in batch if isinstance(batch, tuple) else (batch,):
            seed_time = part[part.seed_type].seed_time
            dated = part["transactions"]
            assert bool((dated.time <= seed_time[dated.batch]).all())
            num_rows += len(dated.time)
    assert num_rows > 1000


def test_link_batches_share_one_seed_time():
    built = build_workload(tiny_study(WORKLOADS[2]), WORKLOADS[2], Recipe(), seed=0)
    source, positive, negative = built.batches(3, 0)[0]
    times = torch.cat([source["customer"].seed_time, positive["article"].seed_time, negative["article"].seed_time])
    assert len(times.unique()) == 1
    assert positive["article"].batch_size == negative["article"].batch_size == 16
