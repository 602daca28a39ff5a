"""Every field of `Recipe` -> something that trains reads it; an optimization must not write what nobody reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from ablate.core.recipe import Recipe

ROOT = Path(__file__).resolve().parents[2] / "ablate"
READERS = ("train", "workloads", "run")
RECIPES = ("recipe", "_recipe")  # recipe.x, request.recipe.x, self._recipe.x


def read_from(text: str, owners: tuple[str, ...]) -> Iterator[str]:
    """Attributes that the text reads from a name or an attribute called one of `owners`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            owner = node.value
            if getattr(owner, "id", getattr(owner, "attr", None)) in owners:
                yield node.attr


def properties_read(text: str, wanted: set[str]) -> Iterator[str]:
    """Fields that those properties of `Recipe` read which the readers use."""
    (recipe,) = (n for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and n.name == "Recipe")
    for node in recipe.body:
        if isinstance(node, ast.FunctionDef) and node.name in wanted:
            yield from read_from(ast.unparse(node), ("self",))


def test_every_field_of_the_recipe_is_read():
    texts = [path.read_text(encoding="utf-8") for folder in READERS for path in (ROOT / folder).rglob("*.py")]
    read = {name for text in texts for name in read_from(text, RECIPES)}
    read |= set(properties_read((ROOT / "core" / "recipe.py").read_text(encoding="utf-8"), read))
    assert [field.name for field in fields(Recipe) if field.name not in read] == []
