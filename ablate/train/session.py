"""A study, a workload, a recipe and a seed -> everything one training needs, built in one fixed order.

The order matters: settings before any tensor, the model's random numbers apart from the batch stream's, the schedule
before the compiled step, and nothing shared between trials.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import torch

from ablate.core.errors import UserError
from ablate.core.recipe import Recipe
from ablate.core.study import Study
from ablate.plugins.registry import find_module, load_file
from ablate.train.loop import EpochClock, PlainSignals, TrainingModule
from ablate.train.observe.compile_watch import CompileWatch
from ablate.train.optimizer import Stepper, make_stepper
from ablate.workloads.contract import Forward, Workload, WorkloadContext
from ablate.workloads.relational.data.graph import Graph
from ablate.workloads.relational.data.stream import BatchDataset, BatchStream, stream_generator


@dataclass(frozen=True, kw_only=True)
class Session:
    """One training, ready to start."""

    workload: Workload
    module: TrainingModule
    stepper: Stepper
    stream: BatchStream
    dataset: BatchDataset
    trainer: lightning.Trainer
    clock: EpochClock
    watch: CompileWatch
    device: torch.device

    def train(self) -> None:
        """Train all epochs."""
        self.trainer.fit(self.module, train_dataloaders=self.stream)


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
    }
    for name, value in recipe.torch_settings.items():
        if name not in setters:
            raise UserError(f"torch setting {name!r} is not known; known are {', '.join(setters)}")
        setters[name](value)
    for config, settings in (
        (torch._dynamo.config, recipe.dynamo_config),
        (torch._inductor.config, recipe.inductor_config),
    ):
        for name, value in settings.items():
            if not hasattr(config, name):
                raise UserError(f"{config.__name__} of torch {torch.__version__} has no setting {name!r}")
            setattr(config, name, value)


def compile_forward(model: torch.nn.Module, recipe: Recipe) -> Forward:
    """Return the inner module as the recipe runs it: itself, or compiled."""
    options = recipe.forward_compile
    if options is None:
        return model
    compiled: Forward = torch.compile(model, dynamic=options.dynamic, mode=options.mode, backend=options.backend)
    return compiled


def build_workload(
    study: Study, name: str, graph: Graph, recipe: Recipe, *, seed: int, label_seed: int | None = None
) -> Workload:
    """Build the workload of a study with initial weights drawn from `seed`."""
    choice = next(choice for choice in study.workloads if choice.name == name)
    module = find_module("workloads", choice.name, choice.path)
    torch.manual_seed(seed)
    context = WorkloadContext(graph=graph, training=study.training, recipe=recipe, label_seed=label_seed)
    workload: Workload = module.build(context)
    return workload


def open_session(
    study: Study,
    workload_name: str,
    graph: Graph,
    recipe: Recipe,
    *,
    seed: int,
    device: torch.device,
    on_epoch: Callable[[int, float], None] = lambda epoch, seconds: None,
    label_seed: int | None = None,
) -> Session:
    """Build one training.

    Args:
        study: Timing, training and loader options.
        graph: Materialized graph of the study's data.
        recipe: How the cell trains.
        seed: Seed of the block: initial weights, dropout and batch stream (each drawn apart).
        on_epoch: Called after each epoch, outside the timed part.
        label_seed: Shuffles the training labels (leak check only).
    """
    num_steps = study.timing.epochs * study.timing.steps_per_epoch
    workload = build_workload(study, workload_name, graph, recipe, seed=seed, label_seed=label_seed)
    workload.model.to(device)
    dataset = workload.train_dataset(num_steps, stream_generator(seed), replay=study.loader.mode == "replay")
    stream = BatchStream(
        dataset, study.timing.steps_per_epoch, study.loader, pin=study.loader.pin_memory and device.type == "cuda"
    )
    watch = CompileWatch()
    lr = study.training.lr if study.training.lr is not None else workload.info.reference_lr
    stepper = make_stepper(workload.model.parameters(), recipe, study.training, lr, num_steps, device)
    module = TrainingModule(
        workload, compile_forward(workload.model, recipe), stepper, recipe, num_steps, device, note=watch.note
    )
    clock = EpochClock(device, on_epoch)
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
    session = Session(
        workload=workload,
        module=module,
        stepper=stepper,
        stream=stream,
        dataset=dataset,
        trainer=trainer,
        clock=clock,
        watch=watch,
        device=device,
    )
    if recipe.adapt is not None:
        find_adapt(recipe.adapt)(session)
    torch.manual_seed(seed + 1)  # dropout draws start here, whatever building the model consumed
    return session


def find_adapt(address: str) -> Callable[[Session], None]:
    """Find the function behind `Recipe.adapt`: `module:function`, or `path/to/file.py:function` for an outside file.

    Raises:
        UserError: there is no such module, file or function.
    """
    place, _, name = address.rpartition(":")
    if place.endswith(".py"):
        module = load_file(Path(place))
    else:
        try:
            module = importlib.import_module(place)
        except (ImportError, ValueError) as error:
            raise UserError(
                f"recipe.adapt {address!r}: module {place!r} cannot be imported ({error}); an optimization "
                "must name module:function"
            ) from error
    function: Callable[[Session], None] | None = getattr(module, name, None)
    if not callable(function):
        raise UserError(
            f"recipe.adapt {address!r}: {place} has no function {name!r}; correct the optimization that sets it"
        )
    return function
