"""The ResNets are those of the reference; a tiny one learns the patterns of the images, and nothing without them."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from ablate.core.recipe import Recipe
from ablate.core.study import Training
from ablate.workloads.contract import HasData, Predictions, Predicts, WorkloadContext, checksum, sizes
from ablate.workloads.vision.classification import TRAINING, VALIDATION, Classification, Images, to_floats
from ablate.workloads.vision.resnet import ResNet
from ablate.workloads.vision.resnet50 import INFO, VisionOptions, build

TINY = VisionOptions(arch="resnet18", image=32, classes=4, train_images=256, validation_images=100, signal=0.5)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Many threads for a tiny network cost more than they bring, above all on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny(options: VisionOptions = TINY, batch_size: int = 16) -> Classification:
    torch.manual_seed(0)
    context = WorkloadContext(options=options, training=Training(batch_size=batch_size), recipe=Recipe())
    workload = build(context)
    assert isinstance(workload, Classification)
    return workload


def make_images(split: int = TRAINING, **changes: int) -> Images:
    values = {"image": 32, "classes": 4, "signal": 0.5, "seed": 0, **changes}
    return Images(20, split=split, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arch", "expected"),
    [("resnet18", 11_689_512), ("resnet34", 21_797_672), ("resnet50", 25_557_032), ("resnet101", 44_549_160)],
)
def test_as_many_parameters_as_the_reference(arch: str, expected: int) -> None:
    with torch.device("meta"):
        network = ResNet(arch, 1000)
    assert sum(weight.numel() for weight in network.parameters()) == expected


def test_the_layers_halve_the_image_as_in_the_reference() -> None:
    with torch.device("meta"):
        network = ResNet("resnet50", 10)
        shapes: dict[str, tuple[int, ...]] = {}
        for name in ("maxpool", "layer1", "layer2", "layer3", "layer4"):
            network.get_submodule(name).register_forward_hook(
                lambda module, inputs, output, name=name: shapes.update({name: tuple(output.shape[1:])})
            )
        assert network(torch.empty(2, 3, 224, 224)).shape == (2, 10)
    assert shapes == {
        "maxpool": (64, 56, 56), "layer1": (256, 56, 56), "layer2": (512, 28, 28), "layer3": (1024, 14, 14),
        "layer4": (2048, 7, 7),
    }  # fmt: skip
    assert set(network.stages) <= {name for name, _ in network.named_modules()}
    assert network.layer2[0].conv2.stride == (2, 2)  # type: ignore[index, union-attr]


def test_initial_weights_are_those_of_he() -> None:
    torch.manual_seed(0)
    weight = ResNet("resnet18", 10).layer4[0].conv2.weight  # type: ignore[index, union-attr]
    assert float(weight.detach().std()) == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.01)  # type: ignore[arg-type]


def test_an_image_is_noise_plus_the_pattern_of_its_class() -> None:
    images = make_images()
    pixels, labels = images.batch(np.arange(20))
    assert pixels.shape == (20, 3, 32, 32) and pixels.dtype == torch.uint8 and labels.dtype == torch.int64
    means = pixels.float().view(20, 3, 4, 8, 4, 8).mean(dim=(3, 5))  # of every field: 127.5 plus the pattern
    for label in range(4):
        own = means[labels == label]
        assert float((own - own.mean(0)).abs().max()) < 20  # noise of 64 pixels: spread 37 / 8
    assert float((means[labels == 0].mean(0) - means[labels == 1].mean(0)).abs().max()) > 20
    flat, _ = make_images(signal=0).batch(np.arange(20))
    assert int(flat.min()) >= 64 and int(flat.max()) <= 191


def test_the_same_number_is_the_same_image_and_splits_share_patterns_only() -> None:
    one, same, other = make_images(), make_images(), make_images(split=VALIDATION)
    assert torch.equal(one.batch(np.array([7, 3]))[0][1], same.batch(np.array([3]))[0][0])
    assert not torch.equal(one.batch(np.array([3]))[0], other.batch(np.array([3]))[0])
    assert torch.equal(one._patterns, other._patterns)
    assert one.digest == same.digest != other.digest
    assert make_images(seed=1).digest != one.digest


def test_an_image_need_not_be_a_multiple_of_the_grid() -> None:
    assert make_images(image=33).batch(np.array([0]))[0].shape == (1, 3, 33, 33)


def test_permuted_labels_are_the_same_labels_on_the_same_images() -> None:
    plain, permuted = make_images(), make_images(label_seed=1)
    numbers = np.arange(20)
    assert torch.equal(plain.batch(numbers)[0], permuted.batch(numbers)[0])
    assert not torch.equal(plain.labels, permuted.labels)
    assert plain.labels.bincount().tolist() == permuted.labels.bincount().tolist()


def test_batches_are_a_function_of_seed_and_index() -> None:
    workload = tiny(batch_size=8)
    batches = workload.batches(3, seed=5)
    torch.rand(3)  # global random numbers have no say
    again, other = workload.batches(3, seed=5), workload.batches(3, seed=6)
    assert [checksum(workload, batches[i]) for i in range(3)] == [checksum(workload, again[i]) for i in range(3)]
    assert checksum(workload, batches[0]) != checksum(workload, batches[1])
    assert checksum(workload, batches[0]) != checksum(workload, other[0])
    assert workload.num_samples(batches[0]) == 8 and set(sizes(workload, batches[0]).values()) == {8}


def train(workload: Classification, num_steps: int) -> Iterator[float]:
    optimizer = torch.optim.Adam(workload.model.parameters(), lr=INFO.lr)
    batches = workload.batches(num_steps, seed=0)
    for step in range(num_steps):
        optimizer.zero_grad()
        loss = workload.loss(workload.model, batches[step])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        yield loss.item()


def accuracy(workload: Classification) -> float:
    return workload.score(workload.predict(lambda batch: batch)).value


def test_a_tiny_network_learns_the_patterns() -> None:
    workload = tiny()
    losses = list(train(workload, 20))
    assert sum(losses[-5:]) / 5 < 0.5 * np.log(4)  # chance: log of the number of classes
    assert accuracy(workload) > 0.6
    assert workload.model.training


def test_permuted_labels_teach_nothing_about_held_out_images() -> None:
    workload = tiny(replace(TINY, label_seed=3))
    list(train(workload, 20))
    assert accuracy(workload) == pytest.approx(0.25, abs=0.15)


def test_accuracy_counts_first_places() -> None:
    workload = tiny()
    ranked = np.array([[2, 1], [0, 3], [1, 0], [3, 2]])
    metric = workload.score(Predictions(values=ranked, table=np.array([2, 3, 1, 2])))
    assert (metric.name, metric.value, metric.num_rows) == ("top1", 0.5, 4)


def test_the_workload_keeps_the_contract() -> None:
    workload = tiny()
    assert isinstance(workload, Predicts) and isinstance(workload, HasData)
    assert len(workload.data_digest) == 16
    last = torch.zeros(2, 3, 32, 32, dtype=torch.uint8).contiguous(memory_format=torch.channels_last)
    assert to_floats(last).is_contiguous(memory_format=torch.channels_last)
    assert float(to_floats(last).max()) == -127.5 / 64
