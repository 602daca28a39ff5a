"""Small studies on disk with simulated trial records, and one migrated sqlite store to copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ablate.core.cell import Design, PlannedTrial
from ablate.core.evidence import Evidence
from ablate.core.optimization import Level, OptimizationInfo
from ablate.core.record import DataStamp, Metric, Times, TrialRecord
from ablate.core.study import Equivalence, ExplicitCell, Factor, LoaderOptions, Study, Timing, Training, WorkloadChoice
from ablate.core.workload import WorkloadInfo
from ablate.design.cells import make_design
from ablate.files.paths import StudyPaths
from ablate.records.store import write_json, write_record, write_series

NUM_STEPS = 6


@dataclass(frozen=True, kw_only=True)
class StudyOnDisk:
    """A study of 2 optimizations, arms eager/naive/full, 2 blocks: 6 planned trials."""

    paths: StudyPaths
    study: Study
    design: Design

    def write_trial(self, trial: PlannedTrial, **changes: Any) -> Path:
        """Write the record and series of one trial; `changes` replace fields of the record."""
        folder = self.paths.records / trial.slug
        if trial.purpose == "timed":
            write_series(folder, make_series(NUM_STEPS))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stderr.txt").write_text("a warning\n")
        write_record(folder, replace(make_record(self.study, trial), **changes))
        return folder

    def write_all(self) -> list[Path]:
        return [self.write_trial(trial) for trial in self.design.trials]


def make_series(num_steps: int) -> dict[str, list[float]]:
    """Loss 1, 1/2, 1/3, ...; every step takes 0.5 s; two epochs."""
    steps = list(range(num_steps))
    return {
        "step": steps,
        "epoch": [2 * step // num_steps for step in steps],
        "loss": [1 / (step + 1) for step in steps],
        "lr": [0.01] * num_steps,
        "step_s": [0.5] * num_steps,
        "loader_wait_s": [0.125] * num_steps,
    }


def make_record(study: Study, trial: PlannedTrial) -> TrialRecord:
    """A completed trial: starts 2026-01-01T00:00:00Z, two epochs of 3.5 s and 1.5 s, steady 1.5 s, horizon 17 s."""
    return replace(
        TrialRecord.begin(study, trial, started_at="2026-01-01T00:00:00+00:00", cache_state="cold"),
        status="completed",
        ended_at="2026-01-01T00:00:10+00:00",
        data=DataStamp(dataset="look-alike", dataset_digest="d1", stream_hash=f"s{trial.block}", num_steps=6),
        times=Times(
            epoch_s=(3.5, 1.5),
            steady_epochs=(1,),
            horizon_epochs=10,
            compile_s=1.75,
            loader_wait_s=(0.375, 0.375),
            first_step_s=2.25,
        ),
        metric=Metric(name="roc_auc", value=0.625, unit="AUROC (0..1)", higher_is_better=True, num_rows=64),
        peak_memory_gib=0.75,
        final_loss=1 / NUM_STEPS,
        evidence=Evidence(counters={"compiles.forward": 2, "graph_breaks": 0}),
    )


def _make_factor(name: str, off_means: str) -> Factor:
    info = OptimizationInfo(
        name=name,
        title=name,
        layer="compiler input",
        levels={
            "yes": Level("Does it.", changes={f"model.{name}": "yes"}),
            "no": Level("Does not.", changes={}),
            "old": Level("Does it as in 2023.", changes={f"model.{name}": "old"}),
        },
        on="yes",
        off={"today": "no", "guide": "old"},
        emulations={"old": "emulates 2023"},
    )
    return Factor(info=info, off_means=off_means, off=info.off[off_means], on="yes")  # type: ignore[arg-type]


@pytest.fixture
def make_study_on_disk(tmp_path: Path) -> Callable[..., StudyOnDisk]:
    """Write study.json and design.json below `tmp_path`; keyword arguments replace fields of the study."""

    def make(**changes: Any) -> StudyOnDisk:
        workload = WorkloadInfo(
            name="hm/user-churn",
            title="churn",
            metric="roc_auc",
            metric_unit="AUROC (0..1)",
            higher_is_better=True,
            lr=0.005,
        )
        study = Study(
            name="hm-tiny",
            question="Does *it* help?",
            claim=None,
            workloads=(WorkloadChoice(info=workload, options={"channels": 8}),),
            factors=(_make_factor("alpha", "today"), _make_factor("beta", "guide")),
            compile_step=True,
            compile_backend="eager",
            design="cells",
            cells=tuple(ExplicitCell(arm=arm) for arm in ("eager", "naive", "full")),
            blocks=2,
            seed=0,
            timing=Timing(epochs=2, steps_per_epoch=3, horizon_epochs=10),
            training=Training(batch_size=8),
            loader=LoaderOptions(),
            compile_cache="per-cell",
            equivalence=Equivalence(parity="off"),
            device="cpu",
            num_threads=1,
            trial_timeout_s=60.0,
            tracking_uri=None,
            profile=None,
            spec_path="studies/hm-tiny.yaml",
            spec_text="study: hm-tiny\n",
        )
        study = replace(study, **changes)
        paths = StudyPaths.of(study.name, runs=tmp_path / "runs", reports=tmp_path / "reports")
        design = make_design(study)
        write_json(paths.study_json, study)
        write_json(paths.design_json, design)
        return StudyOnDisk(paths=paths, study=study, design=design)

    return make


@pytest.fixture
def on_disk(make_study_on_disk: Callable[..., StudyOnDisk]) -> StudyOnDisk:
    return make_study_on_disk()


@pytest.fixture(scope="session")
def migrated_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty MLflow store; creating its tables takes seconds, copying it does not."""
    from ablate.track.experiment import prepare_mlflow

    prepare_mlflow()
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def store_uri(migrated_store: Path, tmp_path: Path) -> str:
    shutil.copy(migrated_store, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"
