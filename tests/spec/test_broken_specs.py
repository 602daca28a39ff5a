"""Every broken spec gives its faults at the right line and column, on one screen."""

import re
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.core.errors import UserError
from ablate.core.workload import WorkloadInfo
from ablate.spec.errors import SpecError
from ablate.spec.reader import read_study
from builders import make_catalog_of_builtins

GOOD = """\
study: mine
workloads: [hm/user-churn]
data: {dataset: look-alike, scale: tiny}
optimizations: {dynamic_shapes: both, tensor_lr: both}
"""
CATALOG = make_catalog_of_builtins(WorkloadInfo(name="plain", title="no options, no support", lr=0.1))


def faults(tmp_path: Path, text: str, **options) -> list[tuple[int, int, str]]:
    path = tmp_path / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        read_study(path, catalog=CATALOG, **options)
    return [(f.position.line, f.position.column, f.text) for f in caught.value.faults]


SINGLE = {
    "typo in a key": (GOOD + "bloks: 3\n", 5, 1, "unknown key 'bloks'; did you mean 'blocks'?"),
    "typo in a nested key": (
        GOOD + "timing:\n  epochs: 3\n  step_per_epoch: 5\n", 7, 3,
        "unknown key 'step_per_epoch'; did you mean 'steps_per_epoch'?",
    ),
    "wrong type": (GOOD + "blocks: five\n", 5, 9, "blocks: expected a whole number, got 'five'"),
    "wrong type in a list": (
        GOOD + "training: {num_neighbors: [8, x]}\n", 5, 31,
        "training.num_neighbors.1: expected a whole number, got 'x'",
    ),
    "a list where a mapping belongs": (
        GOOD + "loader: [live]\n", 5, 9,
        "loader: expected a mapping such as {mode: live, num_workers: 4}, got a list of 1",
    ),
    "nothing where a mapping belongs": (
        GOOD + "timing:\n", 5, 1,
        "timing: expected a mapping such as {epochs: 5, steps_per_epoch: 200, horizon_epochs: 10}, got nothing",
    ),
    "unknown optimization": (
        GOOD.replace("tensor_lr", "tensor_rl"), 4, 39, "unknown optimization 'tensor_rl'; did you mean 'tensor_lr'?"
    ),
    "unknown optimization, nothing near": (
        GOOD.replace("tensor_lr", "magic"), 4, 39,
        "unknown optimization 'magic'; known: dynamic_shapes, tensor_lr, string_keys, no_cuda_graphs, sync_free",
    ),
    "unknown workload": (
        GOOD.replace("user-churn", "user-chrun"), 2, 13,
        "unknown workload 'hm/user-chrun'; did you mean 'hm/user-churn'?",
    ),
    "a workload given twice": (
        GOOD.replace("[hm/user-churn]", "[hm/user-churn, hm/user-churn]"), 2, 28,
        "workload 'hm/user-churn' is given twice; remove one",
    ),
    "duplicate key": (
        GOOD + "blocks: 3\nblocks: 4\n", 6, 1, "duplicate key 'blocks', first given in line 5; remove one"
    ),
    "duplicate nested key": (
        GOOD + "timing: {epochs: 3, epochs: 4}\n", 5, 21,
        "duplicate key 'epochs', first given in line 5; remove one",
    ),
    "negative blocks": (GOOD + "blocks: -3\n", 5, 9, "blocks: must be at least 1, got '-3'"),
    "too many blocks": (
        GOOD + "blocks: 1000000000000\n", 5, 9, "blocks: must be at most 1000, got '1000000000000'"
    ),
    "a huge number with exponent": (
        GOOD + "blocks: 1e12\n", 5, 9, "blocks: expected a whole number without point or exponent, got '1e12'"
    ),
    "a number of 5000 digits": (
        GOOD + f"seed: {'9' * 5000}\n", 5, 7, f"seed: must be less than 2147483648, got '{'9' * 39}…'"
    ),
    "huge steps": (
        GOOD + "timing: {steps_per_epoch: 1000000000000}\n", 5, 27,
        "timing.steps_per_epoch: must be at most 1000000, got '1000000000000'",
    ),
    "not a number": (
        GOOD + "training: {optimizer: {lr: .nan}}\n", 5, 28,
        "training.optimizer.lr: expected a finite number, got '.nan'",
    ),
    "infinite": (
        GOOD + "training: {dropout: .inf}\n", 5, 21, "training.dropout: expected a finite number, got '.inf'"
    ),
    "horizon of nothing": (
        GOOD + "timing: {horizon_epochs: 0}\n", 5, 26, "timing.horizon_epochs: must be at least 1, got '0'"
    ),
    "unknown design": (GOOD + "design: laddr\n", 5, 9, "unknown design 'laddr'; did you mean 'ladder'?"),
    "fraction of two": (
        GOOD + "design: fraction\n", 5, 9,
        "a fraction design needs at least 4 optimizations set to 'both', this spec has 2",
    ),
    "fraction of three that act": (
        GOOD.replace("tensor_lr: both", "tensor_lr: both, string_keys: both, no_cuda_graphs: both")
        + "design: fraction\ndevice: cpu\n", 5, 9,
        "a fraction needs at least 4 optimizations that act in compiled cells on this device, here 3 do; write "
        "factorial, it has 8 compiled cells",
    ),
    "sequential from three blocks": (
        GOOD + "blocks: 3\nsequential: {target: 0.02}\n", 5, 9,
        "a sequential study starts with one of 5, 8, 12, 20, 40 blocks, not 3",
    ),
    "sequential up to ten blocks": (
        GOOD + "sequential: {target: 0.02, most: 10}\n", 5, 34,
        "a sequential study ends with one of 5, 8, 12, 20, 40 blocks, not 10",
    ),
    "factorial of nothing": (
        GOOD.replace("both", "on") + "design: factorial\n", 5, 9,
        "a factorial design needs at least 1 optimization set to 'both', this spec has 0",
    ),
    "ladder of one": (
        GOOD.replace("tensor_lr: both", "tensor_lr: on") + "design: ladder\n", 5, 9,
        "a ladder design needs at least 2 optimizations set to 'both', this spec has 1",
    ),
    "replay with workers": (
        GOOD + "loader: {mode: replay, num_workers: 4}\n", 5, 37,
        "replay keeps sampled batches in memory and has no workers; write num_workers: 0 or mode: live",
    ),
    "scale of real data": (
        GOOD.replace("look-alike", "rel-hm"), 3, 25,
        "scale is for the look-alike only; remove it or write dataset: look-alike",
    ),
    "revision of a look-alike": (
        GOOD.replace("scale: tiny", "revision: abc"), 3, 29, "revision is for datasets of the hub only; remove it"
    ),
    "a dataset misspelled": (
        GOOD.replace("look-alike", "lookalike").replace(", scale: tiny", ""), 3, 17,
        "unknown dataset 'lookalike'; did you mean 'look-alike'?",
    ),
    "true for on": (
        GOOD.replace("tensor_lr: both", "tensor_lr: {use: true}"), 4, 56,
        "optimizations.tensor_lr.use: expected both, on or off, got 'true'; write on",
    ),
    "a setting misspelled": (
        GOOD.replace("tensor_lr: both", "tensor_lr: bth"), 4, 50,
        "optimizations.tensor_lr: expected both, on or off, got 'bth'; did you mean 'both'?",
    ),
    "unknown level": (
        GOOD.replace("tensor_lr: both", "tensor_lr: {off: flaot}"), 4, 56,
        "tensor_lr has no level 'flaot'; did you mean 'float'?",
    ),
    "off is on": (
        GOOD.replace("tensor_lr: both", "tensor_lr: {off: tensor}"), 4, 50,
        "off and on are the same level 'tensor' of tensor_lr; choose two levels",
    ),
    "an outside file that is missing": (
        GOOD.replace("[hm/user-churn]", "[gone.py]"), 2, 13, "gone.py does not exist"
    ),
    "an interval that runs backwards": (
        GOOD + "claim: {speedup: [1.35, 1.3]}\n", 5, 18,
        "claim.speedup: the interval runs backwards; write [1.3, 1.35]",
    ),
    "a time that is none": (
        GOOD + "trial_timeout: soon\n", 5, 16,
        "trial_timeout: expected seconds, or a time such as 90s, 30m or 1h30m, up to 168h, got 'soon'",
    ),
    "a margin for nobody": (
        GOOD + "equivalence: {margin: {user-churn: 0.1}}\n", 5, 24,
        "unknown workload 'user-churn'; did you mean 'hm/user-churn'?",
    ),
    "a margin of a workload that is not trained": (
        GOOD + "equivalence: {metric_margin: {hm/user-churn: 0.1, hm/item-sales: 0.1}}\n", 5, 51,
        "this study does not train hm/item-sales, only hm/user-churn; remove this margin",
    ),
    "an option misspelled": (
        GOOD.replace("[hm/user-churn]", "[{use: hm/user-churn, options: {chanels: 16}}]"), 2, 44,
        "unknown key 'chanels'; did you mean 'channels'?",
    ),
    "an option of the wrong type": (
        GOOD.replace("[hm/user-churn]", "[{use: hm/user-churn, options: {channels: wide}}]"), 2, 54,
        "workloads.0.options.channels: expected a whole number, got 'wide'",
    ),
    "an option out of bounds": (
        GOOD.replace("[hm/user-churn]", "[{use: hm/user-churn, options: {num_neighbors: [8, 0]}}]"), 2, 63,
        "workloads.0.options.num_neighbors.1: must be at least 1, got '0'",
    ),
    "an option that is none of its choices": (
        GOOD.replace("[hm/user-churn]", "[{use: hm/user-churn, options: {scale: tinny}}]"), 2, 51,
        "workloads.0.options.scale: expected tiny, small or real, got 'tinny'; did you mean 'tiny'?",
    ),
    "options that are no mapping": (
        GOOD.replace("[hm/user-churn]", "[{use: hm/user-churn, options: 3}]"), 2, 43,
        "workloads.0.options: expected a mapping of keys to values, got '3'",
    ),
    "a key of a workload misspelled": (
        GOOD.replace("[hm/user-churn]", "[{use: hm/user-churn, option: {channels: 16}}]"), 2, 34,
        "unknown key 'option'; did you mean 'options'?",
    ),
    "a workload that is a number": (
        GOOD.replace("[hm/user-churn]", "[hm/user-churn, 3]"), 2, 28,
        "workloads.1: expected a name, path/to/file.py, or a mapping such as {use: hm/user-churn, options: "
        "{channels: 16}}, got '3'",
    ),
    "no data": (
        GOOD.replace("data: {dataset: look-alike, scale: tiny}\n", ""), 1, 1,
        "the key 'data' is missing; write data: {dataset: look-alike, scale: tiny}, or another data set",
    ),
    "a folder's revision among its options": (
        GOOD.replace("[hm/user-churn]", "[{use: hm/user-churn, options: {dataset: ./x, scale: null, revision: a}}]"),
        2, 71, "revision is for datasets of the hub only; remove it",
    ),
    "a shorthand for nobody": (
        GOOD.replace("hm/user-churn", "plain").replace("data: {dataset: look-alike, scale: tiny}\n", "")
        + "training: {channels: 8}\n", 4, 12,
        "no workload of this study has an option 'channels'; remove training.channels",
    ),
    "replay of a workload that cannot": (
        GOOD.replace("hm/user-churn", "plain").replace("data: {dataset: look-alike, scale: tiny}\n", "")
        + "loader: {mode: replay}\n", 4, 16, "plain cannot keep batches in memory; write mode: live",
    ),
    "workloads that differ in what they support": (
        GOOD.replace("[hm/user-churn]", "[hm/user-churn, plain]").replace("tensor_lr", "string_keys"), 4, 39,
        "string_keys acts on hm/user-churn but not on plain (no hetero-keys); make two studies of them",
    ),
    "a margin of nothing": (
        GOOD + "equivalence: {margin: {hm/user-churn: 0}}\n", 5, 39,
        "equivalence.margin.hm/user-churn: must be greater than 0.0, got '0'",
    ),
    "equivalence misspelled": (
        GOOD + "equivalence: dfault\n", 5, 14,
        "equivalence: expected default, all or off, got 'dfault'; did you mean 'default'?",
    ),
    "equivalence as YAML's false": (
        GOOD + "equivalence: false\n", 5, 14,
        "equivalence: expected default, all, off or a mapping such as {margin: {hm/user-churn: 0.002}}, got 'false'",
    ),
    "a key of equivalence misspelled": (
        GOOD + "equivalence: {windw_steps: 5}\n", 5, 15, "unknown key 'windw_steps'; did you mean 'window_steps'?"
    ),
    "an unknown arm to test": (
        GOOD + "equivalence: {arms: [full, ful]}\n", 5, 28, "unknown arm 'ful'; did you mean 'full'?"
    ),
    "a repeated arm to test": (
        GOOD + "equivalence: {arms: [eager-again]}\n", 5, 22, "unknown arm 'eager-again'; did you mean 'eager'?"
    ),
    "arms of all": (
        GOOD + "equivalence: {parity: all, arms: [full]}\n", 5, 28,
        "arms narrows the default parity trials; remove it, or parity: all",
    ),
    "a single rerun": (
        GOOD + "equivalence: {reruns: 1}\n", 5, 23, "equivalence.reruns: must be at least 2, got '1'"
    ),
    "no window": (GOOD + "equivalence: {windows: []}\n", 5, 24,
                  "equivalence.windows: needs at least 1 entries, got a list of 0"),
    "windows behind the end": (
        GOOD + "timing: {epochs: 2, steps_per_epoch: 10}\nequivalence: {windows: [20, 100]}\n", 6, 24,
        "every window starts behind the last of 20 steps; write one before it, such as 0 or middle",
    ),
    "a window that is none": (
        GOOD + "equivalence: {windows: [0, last]}\n", 5, 28,
        "equivalence.windows.1: expected a step from 0, 'middle' or 'end', got 'last'",
    ),
    "a name that is no folder name": (
        GOOD.replace("mine", "../mine"), 1, 8,
        "study: expected lower-case letters, digits, '.', '_' or '-', up to 63 of them, got '../mine'",
    ),
    "unknown arm": (GOOD + "design: [eager, naiv]\n", 5, 17, "unknown arm 'naiv'; did you mean 'naive'?"),
    "an arm of an optimization that needs a compiler": (
        GOOD + "design: [eager-with-tensor_lr]\n", 5, 10,
        "unknown arm 'eager-with-tensor_lr'; did you mean 'with-tensor_lr'?",
    ),
    "a cell twice": (
        GOOD + "design: [eager, naive, eager]\n", 5, 24, "this cell is in the list already; remove one"
    ),
    "a cell of an unknown optimization": (
        GOOD + "design: [{execution: compiled, tensor_rl: on}]\n", 5, 32,
        "unknown optimization 'tensor_rl' in a cell; did you mean 'tensor_lr'?",
    ),
    "a cell that cannot be": (
        GOOD + "design: [{execution: eager, tensor_lr: on}]\n", 5, 40,
        "tensor_lr cannot act in an eager cell; leave it out",
    ),
    "no cells": (GOOD + "design: []\n", 5, 9, "a design has 1 to 512 cells, this list has 0"),
    "an unknown profile": (
        GOOD + "profiles: {gpu: {blocks: 1}}\n", 5, 12, "unknown profile 'gpu'; did you mean 'cpu'?"
    ),
    "not YAML": (GOOD + "blocks: [1, 2\n", 5, 9, "not YAML: expected ',' or ']', but got '<stream end>'"),
    "a tab": (GOOD + "timing:\n\tepochs: 3\n", 6, 1, "not YAML: found character '\\t' that cannot start any token"),
    "two documents": (GOOD + "---\nblocks: 3\n", 5, 1, "not YAML: but found another document"),
    "an escape character": (
        GOOD + "question: \x1b[31mred\n", 5, 11, "character U+001B is not allowed; is this a text file?"
    ),
    "empty": ("", 1, 1, "the spec is empty; start with a line `study: my-name`"),
    "comments only": ("# nothing\n\n", 1, 1, "the spec is empty; start with a line `study: my-name`"),
    "a list": ("- a\n", 1, 1, "a spec is a mapping of keys to values, such as `study: my-name`"),
    "words": ("hello\n", 1, 1, "a spec is a mapping of keys to values, such as `study: my-name`"),
    "a key that is a list": (GOOD + "? [a, b]\n: 1\n", 5, 3, "a key must be plain text"),
    "an alias bomb": (
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
        + "".join(f"{n}: &{n} [{','.join(['*' + m] * 10)}]\n" for m, n in zip("abcde", "bcdef", strict=True)),
        1, 26, "too much for a spec: more than 10000 values (aliases counted)",
    ),
    "an alias to itself": ("a: &a [*a]\n", 1, 4, "too much for a spec: nested too deeply"),
    "brackets": ("[" * 5000, 1, 1, "lists and mappings are nested too deeply"),
}  # fmt: skip


@pytest.mark.parametrize("case", SINGLE)
def test_one_fault_at_its_place(tmp_path, case):
    text, line, column, sentence = SINGLE[case]
    ((at_line, at_column, found),) = faults(tmp_path, text)
    assert (at_line, at_column) == (line, column)
    assert found.replace(str(tmp_path.resolve()) + "/", "") == sentence


def test_missing_keys_are_named_together(tmp_path):
    found = faults(tmp_path, "\nquestion: Why?\noptimizations: {sync_free: both}\n")
    assert found == [(2, 1, "the key 'study' is missing"), (2, 1, "the key 'workloads' is missing")]
    assert faults(tmp_path, GOOD.replace("dataset: look-alike, ", "")) == [
        (3, 7, "the key 'dataset' is missing in data")
    ]


def test_tags_construct_nothing(tmp_path):
    marker = tmp_path / "marker"
    text = GOOD + f'question: !!python/object/apply:os.system ["touch {marker}"]\n'
    assert faults(tmp_path, text)[0] == (
        5, 11, "the tag !!python/object/apply:os.system is not allowed; write a plain value"
    )  # fmt: skip
    assert not marker.exists()


def test_all_faults_are_reported_at_once(tmp_path):
    text = """\
study: Mine
workloads: [hm/user-churn, 3]
data: {dataset: lookalike, revision: 4}
optimizations: {tensor_rl: both, sync_free: bth, string_keys: {off: tupel, us: on}}
design: laddr
blocks: -1
blocks: 2
loader: {mode: replay, num_workers: 4, pin_memory: maybe}
"""
    places = [(line, column) for line, column, _ in faults(tmp_path, text)]
    assert places == [
        (1, 8), (2, 28), (3, 17), (3, 38), (4, 17), (4, 45), (4, 69), (4, 76), (5, 9), (6, 9), (7, 1),
        (8, 37), (8, 52),
    ]  # fmt: skip


def test_the_screen_shows_line_and_caret(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(GOOD + "bloks: 3\n")
    with pytest.raises(UserError) as caught:
        read_study(path, catalog=CATALOG)
    assert str(caught.value) == (f"{path}:5:1: unknown key 'bloks'; did you mean 'blocks'?\n    bloks: 3\n    ^")


def test_the_screen_is_bounded(tmp_path):
    path = tmp_path / "spec.yaml"
    long_line = "x" * 50_000
    path.write_text(GOOD + "".join(f"key{i}: {long_line[:200]}\n" for i in range(200)) + f"z: {long_line}\n")
    with pytest.raises(SpecError) as caught:
        read_study(path, catalog=CATALOG)
    lines = str(caught.value).splitlines()
    assert lines[-1] == "and 189 more"
    assert len(lines) == 3 * 12 + 1
    assert max(map(len, lines)) < 250


def test_unprintable_characters_never_reach_the_terminal(tmp_path):
    with pytest.raises(SpecError) as caught:
        path = tmp_path / "spec.yaml"
        path.write_text(GOOD + 'blocks: "\\e[31m"\n"\\e]0;k": 1\nquestion: \x07\n')
        read_study(path, catalog=CATALOG)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", str(caught.value))
    path.write_text(GOOD + 'blocks: "\\e[31m"\n"\\e]0;k": 1\n')
    with pytest.raises(SpecError) as caught:
        read_study(path, catalog=CATALOG)
    assert "unknown key '?]0;k'" in str(caught.value) and "got '?[31m'" in str(caught.value)


def test_faults_of_the_command_line_name_the_option(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(GOOD)
    with pytest.raises(SpecError) as caught:
        read_study(path, catalog=CATALOG, overrides={"blocks": 0, "workloads": ["hm/sales"]})
    assert str(caught.value).splitlines() == [
        "command line, --blocks: must be at least 1, got '0'",
        "command line, --workload: unknown workload 'hm/sales'; did you mean 'hm/item-sales'?",
    ]


def test_cuda_without_a_gpu_is_said_before_anything_runs(tmp_path):
    found = faults(tmp_path, GOOD + "device: cuda\n", device="cpu")
    assert found == [(5, 9, "this machine has no CUDA device; write device: auto or cpu")]


JUNK = ["", "[]", "{}", "-1", "1e400", "true", "[1, [2]]", "{a: {b: c}}", '"', "- ", "*a", "!!x 1", ".nan", "on", "|"]
EVERY_KEY = """\
study: mine
question: Why?
claim: {speedup: [1.3, 1.35], or: [1.43, 1.54], source: guide}
workloads: [hm/item-sales, {use: hm/user-churn, options: {channels: 8, num_neighbors: [4, 2]}}]
data: {dataset: look-alike, scale: tiny, seed: 0}
optimizations: {dynamic_shapes: {use: both, off: static, on: dynamic}, tensor_lr: both}
design: [eager, {execution: compiled, tensor_lr: on}]
timing: {epochs: 3, steps_per_epoch: 4, horizon_epochs: 5}
training: {num_neighbors: [8, 4], optimizer: {name: adam, lr: 0.1}, schedule: linear, dropout: 0.1}
loader: {mode: live, num_workers: 0, pin_memory: false}
equivalence: {margin: {hm/user-churn: 0.1}, windows: [0, end]}
trial_timeout: 30m
profiles: {cpu: {blocks: 2}}
"""
WORDS = [match.span() for match in re.finditer(r"[\w./-]+", EVERY_KEY)]


@given(st.sampled_from(WORDS), st.sampled_from(JUNK))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_whatever_stands_at_one_place_gives_a_study_or_a_sentence(span, junk):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "spec.yaml"
        path.write_text(EVERY_KEY[: span[0]] + junk + EVERY_KEY[span[1] :])
        with suppress(UserError):
            assert read_study(path, catalog=CATALOG).name


def test_a_schedule_that_needs_a_metric_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "plateau.yaml"
    path.write_text(
        "study: plateau\nworkloads: [hm/user-churn]\ndata: {dataset: look-alike}\n"
        "training:\n  schedule: ReduceLROnPlateau\n"
    )
    with pytest.raises(UserError, match=r"plateau.yaml:5:13: .*needs a validation metric while it trains"):
        read_study(path, catalog=make_catalog_of_builtins())
