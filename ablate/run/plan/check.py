"""A study and its design -> a refusal of what no trial could train, found without torch before anything is started."""

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ablate.core.cell import Design
from ablate.core.errors import UserError
from ablate.core.recipe import TORCH_SETTINGS
from ablate.core.serialize import from_dict
from ablate.core.study import Study
from ablate.design.recipes import compose_recipes
from ablate.plugins.registry import find_module


def check_trainable(study: Study, design: Design) -> None:
    """Look for settings that torch does not have, and let each workload look at its options.

    Raises:
        UserError: optimizations contradict each other, a setting is unknown, or a workload cannot be built from its
            options (its module's `check(options)` says so).
    """
    for recipe in compose_recipes(study, design).values():
        for name in recipe.torch_settings:
            if name not in TORCH_SETTINGS:
                raise UserError(f"torch setting {name!r} is not known; known are {', '.join(TORCH_SETTINGS)}")
        _check_config("_dynamo", [*recipe.dynamo_config, *recipe.step_dynamo_config])
        _check_config("_inductor", list(recipe.inductor_config))
    for choice in study.workloads:
        module = find_module("workloads", choice.name, choice.path)
        if (check := getattr(module, "check", None)) is not None:
            check(from_dict(module.INFO.options, choice.options))


def _check_config(package: str, names: list[str]) -> None:
    known = _config_names(package)
    for name in names:
        if known and name.partition(".")[0] not in known:
            raise UserError(f"torch.{package}.config has no setting {name!r}; correct the optimization that sets it")


@cache
def _config_names(package: str) -> frozenset[str]:
    """Names that `torch.<package>.config` assigns, read from its text; empty where there is no torch."""
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        return frozenset()
    text = (Path(torch.origin).parent / package / "config.py").read_text(encoding="utf-8")
    return frozenset(_assigned(ast.parse(text).body))


def _assigned(statements: list[ast.stmt]) -> Iterator[str]:
    for statement in statements:
        if isinstance(statement, (ast.If, ast.Try)):
            yield from _assigned([*statement.body, *statement.orelse])
        elif isinstance(statement, ast.ClassDef):
            yield statement.name
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
