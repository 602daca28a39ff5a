"""Profiles: merged key by key for the device that is used, and checked also where they do not apply."""

from pathlib import Path

import pytest

from ablate.core.study import Study
from ablate.spec.errors import SpecError
from ablate.spec.reader import read_study
from builders import make_catalog_of_builtins

GPU = """\
study: mine
workloads: [hm/user-churn]
data: {dataset: rel-hm, revision: abc}
optimizations: {dynamic_shapes: both, tensor_lr: both}
blocks: 5
timing: {epochs: 5, steps_per_epoch: 200}
loader: {num_workers: 4, pin_memory: true}
profiles:
  cpu:
    data: {dataset: look-alike, revision: null, scale: tiny}
    timing: {steps_per_epoch: 20}
    blocks: 2
"""


def read(tmp_path: Path, text: str, **options) -> Study:
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    return read_study(path, catalog=make_catalog_of_builtins(), **options)


def faults(tmp_path: Path, text: str, **options) -> list[tuple[int, int, str]]:
    with pytest.raises(SpecError) as caught:
        read(tmp_path, text, **options)
    return [(f.position.line, f.position.column, f.text) for f in caught.value.faults]


def test_the_profile_of_the_device_is_merged_key_by_key(tmp_path):
    study = read(tmp_path, GPU, device="cpu")
    assert (study.profile, study.device, study.blocks) == ("cpu", "cpu", 2)
    assert (study.timing.epochs, study.timing.steps_per_epoch) == (5, 20)
    options = study.workloads[0].options
    assert (options["dataset"], options["revision"], options["scale"]) == ("look-alike", None, "tiny")
    assert study.loader.num_workers == 4


def test_on_a_gpu_the_spec_stands_as_it_is(tmp_path):
    study = read(tmp_path, GPU, device="cuda")
    assert (study.profile, study.device, study.blocks) == (None, "cuda", 5)
    assert study.workloads[0].options["revision"] == "abc"


def test_the_device_of_the_spec_decides_over_that_of_the_machine(tmp_path):
    study = read(tmp_path, GPU + "device: cpu\n", device="cuda")
    assert (study.device, study.profile) == ("cpu", "cpu")


def test_the_command_line_decides_over_the_profile(tmp_path):
    assert read(tmp_path, GPU, device="cpu", overrides={"blocks": 1}).blocks == 1


def test_the_profile_changes_the_hash_and_the_identity_of_the_workload(tmp_path):
    small, large = read(tmp_path, GPU, device="cpu"), read(tmp_path, GPU, device="cuda")
    assert small.hash != large.hash
    assert small.workloads[0].identity != large.workloads[0].identity


def test_a_fault_in_a_profile_is_shown_inside_the_profile(tmp_path):
    text = GPU.replace("steps_per_epoch: 20}", "steps_per_epoch: no}")
    expected = [(11, 31, "timing.steps_per_epoch: expected a whole number, got 'no'")]
    assert faults(tmp_path, text, device="cpu") == expected
    assert faults(tmp_path, text, device="cuda") == expected


def test_what_does_not_fit_together_after_merging_is_found(tmp_path):
    text = GPU.replace("revision: null, ", "")
    assert faults(tmp_path, text, device="cpu") == [(3, 25, "revision is for datasets of the hub only; remove it")]


def test_a_profile_cannot_change_the_study(tmp_path):
    assert faults(tmp_path, GPU + "    study: other\n", device="cuda") == [
        (13, 5, "'study' cannot be changed by a profile; remove it")
    ]


@pytest.mark.parametrize(
    ("profiles", "column", "sentence"),
    [
        ("[cpu]", 11, "profiles: expected a mapping such as {cpu: {blocks: 1}}"),
        ("{cpu: small}", 17, "profiles.cpu: expected a mapping of changes such as {blocks: 1}"),
    ],
)
def test_profiles_of_the_wrong_shape(tmp_path, profiles, column, sentence):
    text = GPU[: GPU.index("profiles:")] + f"profiles: {profiles}\n"
    assert faults(tmp_path, text, device="cuda") == [(8, column, sentence)]
