"""A spec without faults -> the study it describes, value by value."""

from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.core.serialize import from_dict, to_dict
from ablate.core.study import Claim, Equivalence, ExplicitCell, Study, Timing, Training
from ablate.core.workload import WorkloadInfo
from ablate.design.cells import make_design
from ablate.plugins.registry import make_catalog
from ablate.spec.reader import read_study
from builders import OPTIMIZATIONS, WORKLOADS, make_catalog_of_builtins

CATALOG = make_catalog_of_builtins()
SHORT = """\
study: mine
workloads: [hm/user-churn]
data: {dataset: look-alike}
optimizations: {dynamic_shapes: both, tensor_lr: both}
"""
OUTSIDE_OPTIMIZATION = """\
from ablate.core.optimization import Level, OptimizationInfo

INFO = OptimizationInfo(
    name="mine", title="mine", layer="custom", on="yes", off={"today": "no"},
    levels={"yes": Level("On."), "no": Level("Off.")},
)


def apply(recipe, level):
    return recipe
"""
OUTSIDE_WORKLOAD = """\
from ablate.core.workload import WorkloadInfo

INFO = WorkloadInfo(
    name="my/churn", title="my churn", metric="roc_auc", metric_unit="AUROC (0..1)", higher_is_better=True, lr=0.01
)
"""


def read(tmp_path: Path, text: str, **options) -> Study:
    path = tmp_path / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    return read_study(path, catalog=options.pop("catalog", CATALOG), **options)


def test_a_short_spec_takes_the_defaults(tmp_path):
    study = read(tmp_path, SHORT)
    assert study.name == "mine" and study.claim is None and study.question == ""
    assert [w.info for w in study.workloads] == [WORKLOADS["hm/user-churn"]]
    assert study.workloads[0].options == {
        "dataset": "look-alike", "revision": None, "scale": "tiny", "data_seed": 0, "channels": 128,
        "num_neighbors": [128, 64], "dropout": 0.2, "encoder_layers": 4, "validation_rows": None, "label_seed": None,
    }  # fmt: skip
    assert (study.design, study.blocks, study.seed, study.device) == ("factorial", 5, 0, "cpu")
    assert (study.compile_step, study.compile_backend, study.compile_cache) == (True, "inductor", "per-cell")
    assert study.timing == Timing() and study.training == Training() and study.equivalence == Equivalence()
    assert (study.num_threads, study.trial_timeout_s, study.tracking_uri) == (None, 3600.0, None)
    assert (study.spec_path, study.spec_text) == (str(tmp_path / "spec.yaml"), SHORT)


def test_every_key_arrives(tmp_path):
    text = """\
study: all-keys
question: Why?
claim: {speedup: [1.3, 1.35], or: [1.43, 1.54], source: the guide}
workloads: [hm/item-sales, hm/user-churn]
data: {dataset: look-alike, scale: small, seed: 7}
optimizations: {dynamic_shapes: both, sync_free: "on", no_cuda_graphs: off}
compile_step: false
compile_backend: aot_eager
design: leave-one-out
blocks: 3
seed: 11
timing: {epochs: 4, steps_per_epoch: 30, horizon_epochs: 20}
training: {channels: 16, num_neighbors: [8, 4], batch_size: 64, optimizer: {name: adamw, lr: 1e-3}, schedule: cosine,
           dropout: 0.1, encoder_layers: 2, validation_rows: 100}
loader: {mode: live, num_workers: 2, pin_memory: true}
compile_cache: shared
equivalence: {parity: all, margin: {hm/user-churn: 0.002, hm/item-sales: 0.1}, metric_margin: {hm/item-sales: 0.03},
              windows: [0, 7, end], window_steps: 30, reruns: 3}
device: cpu
num_threads: 2
trial_timeout: 1h30m
tracking: {uri: "sqlite:///mlflow.db"}
"""
    study = read(tmp_path, text)
    assert study.claim == Claim(speedup=(1.3, 1.35), alternative=(1.43, 1.54), source="the guide")
    assert [w.name for w in study.workloads] == ["hm/item-sales", "hm/user-churn"]
    for choice in study.workloads:
        assert choice.options == {
            "dataset": "look-alike", "revision": None, "scale": "small", "data_seed": 7, "channels": 16,
            "num_neighbors": [8, 4], "dropout": 0.1, "encoder_layers": 2, "validation_rows": 100, "label_seed": None,
        }  # fmt: skip
    assert [(f.name, f.setting) for f in study.factors] == [
        ("dynamic_shapes", "both"), ("sync_free", "on"), ("no_cuda_graphs", "off")
    ]  # fmt: skip
    assert (study.compile_step, study.compile_backend, study.compile_cache) == (False, "aot_eager", "shared")
    assert (study.design, study.blocks, study.seed) == ("leave-one-out", 3, 11)
    assert study.timing == Timing(epochs=4, steps_per_epoch=30, horizon_epochs=20)
    assert study.training == Training(batch_size=64, optimizer="adamw", lr=0.001, schedule="cosine")
    assert (study.loader.num_workers, study.loader.pin_memory) == (2, True)
    assert study.equivalence == Equivalence(
        parity="all", margin={"hm/user-churn": 0.002, "hm/item-sales": 0.1}, metric_margin={"hm/item-sales": 0.03},
        windows=(0, 7, "end"), window_steps=30, reruns=3,
    )  # fmt: skip
    assert (study.num_threads, study.trial_timeout_s) == (2, 5400.0)
    assert study.tracking_uri == "sqlite:///mlflow.db"
    stored = from_dict(Study, to_dict(study))
    assert stored.hash == study.hash and [c.identity for c in stored.workloads] == [c.identity for c in study.workloads]


def test_off_means_has_a_default_and_exceptions(tmp_path):
    text = SHORT.replace(
        "{dynamic_shapes: both, tensor_lr: both}",
        "{dynamic_shapes: both, tensor_lr: {off_means: today}, string_keys: {use: both, off: tuple, on: string}, "
        "sync_free: {use: off}}",
    )
    study = read(tmp_path, text + "off_means: guide\n")
    assert [(f.name, f.off_means, f.off, f.on, f.setting) for f in study.factors] == [
        ("dynamic_shapes", "guide", "static", "dynamic", "both"),
        ("tensor_lr", "today", "float", "tensor", "both"),
        ("string_keys", "guide", "tuple", "string", "both"),
        ("sync_free", "guide", "syncing", "sync-free", "off"),
    ]
    assert study.factors[0].emulation == OPTIMIZATIONS["dynamic_shapes"].emulations["static"]
    assert study.factors[1].emulation is None


@pytest.mark.parametrize(
    ("written", "seconds"), [("90", 90.0), ("90.5", 90.5), ("45s", 45.0), ("30m", 1800.0), ("2h", 7200.0)]
)
def test_a_time_limit_in_words(tmp_path, written, seconds):
    assert read(tmp_path, SHORT + f"trial_timeout: {written}\n").trial_timeout_s == seconds


@pytest.mark.parametrize("word", ["default", "all", "off"])
def test_equivalence_as_a_word(tmp_path, word):
    assert read(tmp_path, SHORT + f"equivalence: {word}\n").equivalence == Equivalence(parity=word)


def test_arms_to_test(tmp_path):
    study = read(tmp_path, SHORT + "equivalence: {arms: [full, naive, full]}\n")
    assert study.equivalence == Equivalence(arms=("full", "naive"))


def test_equivalence_does_not_make_another_study(tmp_path):
    hashes = {
        read(tmp_path, SHORT + line).hash
        for line in ("", "equivalence: off\n", "equivalence: {margin: {hm/user-churn: 0.1}, windows: [3]}\n")
    }
    assert len(hashes) == 1


def test_fewer_workloads_on_the_command_line_or_in_a_profile_leave_margins_without_use(tmp_path):
    text = SHORT.replace("[hm/user-churn]", "[hm/user-churn, hm/item-sales]")
    text += "equivalence: {margin: {hm/user-churn: 0.1, hm/item-sales: 0.2}}\n"
    one = {"workloads": ["hm/user-churn"]}
    assert read(tmp_path, text, overrides=one).equivalence.margin == {"hm/user-churn": 0.1, "hm/item-sales": 0.2}
    profiled = text + "profiles: {cpu: {workloads: [hm/item-sales]}}\n"
    assert [choice.name for choice in read(tmp_path, profiled).workloads] == ["hm/item-sales"]


def test_a_list_of_cells(tmp_path):
    text = SHORT + "design: [eager, naive, full, full-again, {tensor_lr: device-tensor, dynamic_shapes: on}]\n"
    study = read(tmp_path, text)
    assert study.design == "cells"
    assert study.cells[0] == ExplicitCell(arm="eager", execution="eager")
    assert study.cells[4] == ExplicitCell(levels={"tensor_lr": "device-tensor", "dynamic_shapes": "on"})
    assert len(make_design(study).trials) == 5 * 5


def test_a_folder_is_relative_to_the_spec(tmp_path):
    study = read(tmp_path, SHORT.replace("look-alike", "../data/rel-hm"))
    options = study.workloads[0].options
    assert (options["dataset"], options["scale"]) == (str((tmp_path / "../data/rel-hm").resolve()), None)


def test_outside_files_are_relative_to_the_spec(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "opt.py").write_text(OUTSIDE_OPTIMIZATION)
    (tmp_path / "own" / "work.py").write_text(OUTSIDE_WORKLOAD)
    text = SHORT.replace("tensor_lr: both", "own/opt.py: both").replace("hm/user-churn", "own/work.py")
    text = text.replace("data: {dataset: look-alike}\n", "")
    study = read(tmp_path, text + "off_means: guide\n", catalog=make_catalog())
    assert [(f.name, f.off, f.path) for f in study.factors] == [
        ("dynamic_shapes", "static", None), ("mine", "no", str(tmp_path.resolve() / "own" / "opt.py"))
    ]  # fmt: skip
    assert (study.workloads[0].name, study.workloads[0].path) == (
        "my/churn", str(tmp_path.resolve() / "own" / "work.py")
    )  # fmt: skip
    again = read(tmp_path, text, catalog=make_catalog(), overrides={"workloads": ["my/churn"]})
    assert again.workloads == study.workloads


def test_the_command_line_replaces_keys(tmp_path):
    study = read(tmp_path, SHORT, overrides={"workloads": ["hm/item-sales"], "blocks": 1})
    assert [w.name for w in study.workloads] == ["hm/item-sales"] and study.blocks == 1


def test_reading_does_not_follow_the_text(tmp_path):
    text = SHORT + 'question: "{{1+1}} ${HOME} $(id) \\u003cb\\u003e"\n'
    assert read(tmp_path, text).question == "{{1+1}} ${HOME} $(id) <b>"


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path):
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SHORT.replace("\n", "\r\n").encode())
    assert read_study(path, catalog=CATALOG).name == "mine"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read: No such file"),
        (b"\x89PNG\r\n\x1a\n", r"1:1: not a text file \(UTF-8 fails at byte 0\)"),
        (b"#" * 200_000, "is larger than 128 KiB"),
    ],
)
def test_files_that_are_no_spec(tmp_path, content, sentence):
    path = tmp_path / "x.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=sentence):
        read_study(path, catalog=CATALOG)


def test_options_of_one_workload_win_over_the_shorthands_for_all(tmp_path):
    text = SHORT.replace(
        "[hm/user-churn]", "[hm/item-sales, {use: hm/user-churn, options: {channels: 16, data_seed: 4}}]"
    )
    study = read(tmp_path, text + "training: {channels: 32, dropout: 0}\n")
    shown = [[choice.options[key] for key in ("channels", "data_seed", "dropout")] for choice in study.workloads]
    assert shown == [[32, 0, 0.0], [16, 4, 0.0]]


def test_a_study_of_workloads_without_data_needs_no_data(tmp_path):
    plain = WorkloadInfo(name="plain", title="plain", lr=0.1)
    text = SHORT.replace("hm/user-churn", "plain").replace("data: {dataset: look-alike}\n", "")
    assert read(tmp_path, text, catalog=make_catalog_of_builtins(plain)).workloads[0].options == {}


def test_another_option_is_another_identity_and_the_same_study(tmp_path):
    one, two = (read(tmp_path, SHORT + line) for line in ("", "training: {channels: 16}\n"))
    assert one.hash == two.hash
    assert one.workloads[0].identity != two.workloads[0].identity
