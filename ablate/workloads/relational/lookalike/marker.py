"""A look-alike's folder -> what it says about itself, and which of its files are damaged; needs nothing but Python."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MARKER = "lookalike.json"
KIND = "ablate rel-hm look-alike"
GENERATOR = 1  # raise whenever the same scale and seed would give other bytes


@dataclass(frozen=True, kw_only=True)
class Marker:
    """What a look-alike folder says about itself (`lookalike.json`)."""

    scale: str  # the bytes depend on scale, seed and generator
    seed: int
    generator: int
    files: Mapping[str, str]  # path below the folder -> SHA-256
    rows: Mapping[str, int] = field(default_factory=dict)  # table or task split -> number of rows

    @property
    def digest(self) -> str:
        """SHA-256 over the sorted paths and contents."""
        lines = "".join(f"{content}  {path}\n" for path, content in sorted(self.files.items()))
        return hashlib.sha256(lines.encode()).hexdigest()

    def to_json(self) -> str:
        """The marker as text, the same for the same content."""
        values = {"kind": KIND, "digest": self.digest, **vars(self)}
        return json.dumps(values, indent=2, sort_keys=True) + "\n"


def read_marker(folder: Path) -> Marker | None:
    """The marker of a look-alike folder, or None where there is none or it is not readable as one."""
    try:
        values = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        if not isinstance(values, dict) or values.get("kind") != KIND:
            return None
        return Marker(**{key: values[key] for key in ("scale", "seed", "generator", "files", "rows")})
    except (OSError, ValueError, KeyError):
        return None


def is_marked(marker: Marker, scale: str, seed: int) -> bool:
    """Whether a folder claims to hold what this version makes for a scale and a seed; its files may be damaged."""
    return (marker.scale, marker.seed, marker.generator) == (scale, seed, GENERATOR)


def damaged_files(folder: Path, marker: Marker) -> list[str]:
    """Files that the marker lists and that are missing or have other content, as sorted relative paths."""
    return sorted(path for path, content in marker.files.items() if not _has_content(folder / path, content))


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _has_content(path: Path, content: str) -> bool:
    try:
        return file_sha256(path) == content
    except OSError:
        return False
