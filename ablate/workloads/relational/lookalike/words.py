"""Random whole numbers -> names, texts and codes of the look-alike's articles."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

UNKNOWN_CODE = -1
_WORDS: dict[str, Any] = json.loads((files(__package__) / "words.json").read_text(encoding="utf-8"))

# product_group_name -> product_type_names; the 19 groups and 132 types (131 names) of rel-hm.
PRODUCT_TYPES: dict[str, list[str]] = _WORDS["product_types"]
PRODUCT_GROUP_SHARES: list[float] = _WORDS["product_group_shares"]
# index_code, index_name, index_group_no, index_group_name, share of the departments.
INDEXES: list[tuple[str, str, int, str, float]] = _WORDS["indexes"]
HUES: list[str] = _WORDS["hues"]
COLOUR_GROUPS = [*(shade + hue for shade in ("", "Dark ", "Light ") for hue in HUES), "Transparent", "Unknown"]
COLOUR_VALUES: list[str] = _WORDS["colour_values"]
COLOUR_MASTERS = [*HUES, "Bluish Green", "Yellowish Green", "undefined", "Unknown"]
APPEARANCES: list[str] = _WORDS["appearances"]
GARMENT_GROUPS: list[str] = _WORDS["garment_groups"]
NUM_TEXT_CHOICES = 7  # random columns that `describe_products` reads


@dataclass(frozen=True, kw_only=True)
class TypeBook:
    """The product types: number, name and group index of each (arrays of one length, 132 in rel-hm)."""

    number: np.ndarray
    name: np.ndarray
    group: np.ndarray

    @classmethod
    def build(cls) -> TypeBook:
        """Number the types of `PRODUCT_TYPES` in order; the type of group `Unknown` has the code -1."""
        pairs = [(g, name) for g, names in enumerate(PRODUCT_TYPES.values()) for name in names]
        name = np.array([name for _, name in pairs], dtype=object)
        number = np.arange(59, 59 + 3 * len(pairs), 3, dtype=np.int64)
        number[name == "Unknown"] = UNKNOWN_CODE
        return cls(number=number, name=name, group=np.array([g for g, _ in pairs]))


def code_book(names: list[str], first: int) -> np.ndarray:
    """Codes `first, first + 1, ...` for the names, and -1 for the name `Unknown`."""
    codes = np.arange(first, first + len(names), dtype=np.int64)
    codes[np.array(names) == "Unknown"] = UNKNOWN_CODE
    return codes


def section_names(index_names: np.ndarray) -> np.ndarray:
    """One section name per entry of `index_names`, the index it belongs to; the last repeats the first."""
    names = [f"{name} {_pick('topics', i)}" for i, name in enumerate(index_names)]
    return np.array([*names[:-1], names[0]] if len(names) > 1 else names, dtype=object)


def department_names(count: int) -> np.ndarray:
    """Names of `count` departments, of which about 250 of 299 are distinct, as in rel-hm."""
    distinct = max(1, round(count * 250 / 299))
    garments = [name for names in PRODUCT_TYPES.values() for name in names]
    names = [f"{_pick('topics', i)} {garments[i * 5 % len(garments)]}" for i in range(distinct)]
    return np.array([names[i % distinct] for i in range(count)], dtype=object)


def product_names(choice: np.ndarray, type_names: np.ndarray) -> np.ndarray:
    """Product names of shape [products] from `choice` [products, NUM_TEXT_CHOICES], integers >= 0."""
    return np.array([_name(row, name) for row, name in zip(choice, type_names, strict=True)], dtype=object)


def describe_products(choice: np.ndarray, type_names: np.ndarray) -> np.ndarray:
    """Descriptions [products], 142 characters on average, from `choice` [products, NUM_TEXT_CHOICES]."""
    texts = [_describe(row, name) for row, name in zip(choice, type_names, strict=True)]
    return np.array(texts, dtype=object)


def _pick(kind: str, number: int) -> str:
    words: list[str] = _WORDS[kind]
    return words[number % len(words)]


def _name(row: np.ndarray, type_name: str) -> str:
    person, quality, suffix = (_pick(kind, row[i]) for i, kind in enumerate(("names", "qualities", "suffixes")))
    return f"{person} {quality} {type_name.lower()} {suffix}".rstrip()


def _describe(row: np.ndarray, type_name: str) -> str:
    first, second, third = (_pick("details", row[3] + shift) for shift in (0, 1 + row[4] % 7, 8 + row[5] % 7))
    middle = f"{first}, {second} and {third}" if row[6] % 4 else f"{first} and {second}"
    care = f" {_pick('cares', row[0])}" if row[5] % 3 else ""
    quality, fabric, ending = _pick("qualities", row[1]), _pick("fabrics", row[2]), _pick("endings", row[6])
    return f"{quality.capitalize()} {type_name.lower()} in {fabric} with {middle}. {ending}{care}"
