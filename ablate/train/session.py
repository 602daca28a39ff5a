"""A study, a workload, a recipe and a seed -> everything one training needs, built in one fixed order.

The order matters: settings before any tensor, the model's random numbers apart from the batch stream's, the schedule
before the compiled step, and nothing shared between trials.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import lightning
import torch
from torch.utils.data import Dataset

from ablate.core.errors import UserError
from ablate.core.recipe import Recipe
from ablate.core.record import DataStamp
from ablate.core.serialize import from_dict
from ablate.core.study import Study, WorkloadChoice
from ablate.plugins.registry import find_module
from ablate.train.clock import EpochClock, StepClock, cuda_event, warm_up
from ablate.train.loop import PlainSignals, TrainingModule
from ablate.train.observe.compile_watch import CompileWatch
from ablate.train.optimizer import Stepper, make_optimizer, make_stepper
from ablate.train.parts import CHANNELS_LAST, Parts, adapt_parts, has_dropout
from ablate.train.stream import BatchStream, UnseenBatches
from ablate.workloads.contract import (
    Batch,
    Forward,
    Predictions,
    Predicts,
    Replays,
    Workload,
    WorkloadContext,
    checksum,
    sizes,
)

NUM_UNSEEN = 16
UNSEEN_SEED = 1_000_003  # added to a block's seed: far from that of any other block


@dataclass(frozen=True, kw_only=True)
class Session:
    """One training, ready to start.

    Attributes:
        unseen: Batches that it does not train on, for what is looked at afterwards.
    """

    parts: Parts
    choice: WorkloadChoice
    module: TrainingModule
    stepper: Stepper
    stream: BatchStream
    unseen: UnseenBatches
    trainer: lightning.Trainer
    clock: EpochClock
    watch: CompileWatch

    @property
    def workload(self) -> Workload:
        return self.parts.workload

    @property
    def dataset(self) -> Dataset[Batch]:
        return self.parts.dataset

    @property
    def recipe(self) -> Recipe:
        return self.parts.recipe

    @property
    def device(self) -> torch.device:
        return self.parts.device

    def train(self) -> None:
        """Train all epochs."""
        self.trainer.fit(self.module, train_dataloaders=self.stream)

    def predict(self) -> Predictions | None:
        """Predict the validation split; None for a workload that cannot be judged."""
        if not isinstance(self.workload, Predicts):
            return None
        try:
            return self.workload.predict(self.parts.move)
        finally:
            self.workload.model.train()  # for what comes after, also when it failed half-way

    def stamp(self, stream_hash: str, num_steps: int) -> DataStamp:
        """What was trained on; a workload without stored data is its own."""
        return DataStamp(
            dataset=getattr(self.workload, "data_name", self.choice.name),
            dataset_digest=getattr(self.workload, "data_digest", self.choice.identity),
            stream_hash=stream_hash,
            num_steps=num_steps,
            replay_gib=self.dataset.replay_gib if isinstance(self.dataset, Replays) else None,
        )


def apply_settings(recipe: Recipe, num_threads: int | None) -> None:
    """Set threads, torch, dynamo and inductor settings of the recipe in this process.

    Raises:
        UserError: a setting does not exist on this torch.
    """
    if num_threads is not None:
        torch.set_num_threads(num_threads)
    setters: dict[str, Callable[[Any], Any]] = {
        "float32_matmul_precision": torch.set_float32_matmul_precision,
        "num_threads": torch.set_num_threads,
        "flush_denormal": torch.set_flush_denormal,
        "deterministic": _demand_determinism,
        "cudnn_benchmark": partial(setattr, torch.backends.cudnn, "benchmark"),
    }
    for name, value in recipe.torch_settings.items():
        if name not in setters:
            raise UserError(f"torch setting {name!r} is not known; known are {', '.join(setters)}")
        setters[name](value)
    configs = {torch._dynamo.config: recipe.dynamo_config, torch._inductor.config: recipe.inductor_config}
    for config, settings in configs.items():
        for name, value in settings.items():
            if not hasattr(config, name):
                raise UserError(f"{config.__name__} of torch {torch.__version__} has no setting {name!r}")
            setattr(config, name, value)


def _demand_determinism(wanted: bool) -> None:
    torch.use_deterministic_algorithms(wanted)
    torch.backends.cudnn.deterministic = wanted


def compile_forward(model: torch.nn.Module, recipe: Recipe) -> Forward:
    """Return the inner module as the recipe runs it: itself, or compiled."""
    options = recipe.forward_compile
    if options is None:
        return model
    compiled: Forward = torch.compile(model, dynamic=options.dynamic, mode=options.mode, backend=options.backend)
    return compiled


def build_workload(study: Study, name: str, recipe: Recipe, *, seed: int) -> Workload:
    """Build the workload of a study with initial weights drawn from `seed`.

    Here collections of garbage begin, where a trial's process has put them off: what a workload imports stays.
    """
    choice = study.workload(name)
    module = find_module("workloads", choice.name, choice.path)
    options = from_dict(module.INFO.options, choice.options)
    torch.manual_seed(seed)
    workload: Workload = module.build(WorkloadContext(options=options, training=study.training, recipe=recipe))
    if not gc.isenabled():
        gc.enable()
        gc.collect()  # what there is is old from here on, as it would be otherwise; frozen, it would be too cheap
    return workload


def build_parts(study: Study, name: str, recipe: Recipe, *, seed: int, num_steps: int, device: torch.device) -> Parts:
    """Build workload, batches, optimizer and schedule, as the recipe's functions leave them.

    Raises:
        UserError: the batches cannot be replayed, or a function of the recipe cannot be found.
    """
    workload = build_workload(study, name, recipe, seed=seed)
    workload.model.to(device)
    if recipe.memory_format == CHANNELS_LAST:
        workload.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    dataset = _make_batches(study, name, workload, num_steps, seed)
    optimizer, scheduler = make_optimizer(
        workload.model.parameters(), recipe, study.training, rate_of(study, name), num_steps, device
    )
    parts = Parts(
        workload=workload,
        dataset=dataset,
        optimizer=optimizer,
        scheduler=scheduler,
        device=device,
        recipe=recipe,
        drops=has_dropout(workload.model),
    )
    adapt_parts(parts)
    return parts


def _make_batches(study: Study, name: str, workload: Workload, num_batches: int, seed: int) -> Dataset[Batch]:
    dataset = workload.batches(num_batches, seed)
    if study.loader.mode == "replay":
        if not isinstance(dataset, Replays):
            raise UserError(f"{name} cannot replay its batches; set `loader: {{mode: live}}`")
        dataset.keep()
    return dataset


def rate_of(study: Study, name: str) -> float:
    """Learning rate of a workload's first step."""
    return study.training.lr if study.training.lr is not None else study.workload(name).info.lr


def open_session(
    study: Study,
    workload_name: str,
    recipe: Recipe,
    *,
    seed: int,
    device: torch.device,
    on_epoch: Callable[[int, float], None] = lambda epoch, seconds: None,
) -> Session:
    """Build one training.

    Args:
        study: Timing, training and loader options.
        recipe: How the cell trains.
        seed: Seed of the block: initial weights, dropout and batch stream (each drawn apart).
        on_epoch: Called after each epoch, outside the timed part.
    """
    num_steps = study.timing.epochs * study.timing.steps_per_epoch
    warm_up(device)
    parts = build_parts(study, workload_name, recipe, seed=seed, num_steps=num_steps, device=device)
    workload = parts.workload
    stream = BatchStream(
        parts.dataset,
        partial(checksum, workload),
        study.timing.steps_per_epoch,
        study.loader,
        pin=study.loader.pin_memory and device.type == "cuda",
    )
    watch = CompileWatch(partial(sizes, workload))
    stepper = make_stepper(parts.optimizer, parts.scheduler, parts.recipe, rate_of(study, workload_name))
    forward = compile_forward(workload.model, parts.recipe)
    steps = StepClock(cuda_event if device.type == "cuda" else None)
    module = TrainingModule(parts, forward, stepper, num_steps, steps, note=watch.note)
    clock = EpochClock(device, steps, on_epoch)
    make_unseen = partial(_make_batches, study, workload_name, workload, NUM_UNSEEN, seed + UNSEEN_SEED)
    trainer = lightning.Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=[device.index or 0] if device.type == "cuda" else 1,
        max_epochs=study.timing.epochs,
        limit_train_batches=study.timing.steps_per_epoch,
        callbacks=[clock, PlainSignals()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    torch.manual_seed(seed + 1)  # dropout draws start here, whatever building the model consumed
    return Session(
        parts=parts,
        choice=study.workload(workload_name),
        module=module,
        stepper=stepper,
        stream=stream,
        unseen=UnseenBatches(make_unseen, NUM_UNSEEN),
        trainer=trainer,
        clock=clock,
        watch=watch,
    )
