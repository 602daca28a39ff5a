"""A study name -> the folders and files that its stages share."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


def cache_folder() -> Path:
    """Folder of reusable artefacts (look-alikes, materialized graphs): `ABLATE_CACHE` or `~/.cache/ablate`."""
    return Path(os.environ.get("ABLATE_CACHE") or Path.home() / ".cache" / "ablate")


def lock_folder() -> Path:
    """Folder of the device locks, one for all users of a host: `ABLATE_LOCKS` or `/tmp/ablate-locks`.

    Not `TMPDIR`: users and cluster jobs have one each, and they must meet in one place.
    """
    return Path(os.environ.get("ABLATE_LOCKS") or "/tmp/ablate-locks")


@dataclass(frozen=True, kw_only=True)
class StudyPaths:
    """Files of one study under `root` (default `runs/<study>`), and its report folder (default `reports/<study>`)."""

    root: Path
    report: Path

    @classmethod
    def of(cls, study: str, *, runs: Path = Path("runs"), reports: Path = Path("reports")) -> StudyPaths:
        return cls(root=(runs / study).resolve(), report=(reports / study).resolve())

    @property
    def study_json(self) -> Path:
        """The resolved study (`Study` as JSON), spec text included."""
        return self.root / "study.json"

    @property
    def design_json(self) -> Path:
        """Cells and planned trials (`Design` as JSON)."""
        return self.root / "design.json"

    @property
    def ledger(self) -> Path:
        """Optuna journal: which trial waits, runs, is done."""
        return self.root / "ledger.journal"

    @property
    def records(self) -> Path:
        """One folder per trial slug: `record.json`, `series.parquet`, `stderr.txt`."""
        return self.root / "records"

    @property
    def leases(self) -> Path:
        """One lock file per running trial, held by the trial's process."""
        return self.root / "leases"

    @property
    def compile_cache(self) -> Path:
        """Compile caches, one folder per workload and effective key (policy `per-cell`)."""
        return self.root / "compile-cache"

    @property
    def results_json(self) -> Path:
        """Results of the analysis, input of figures and PDF."""
        return self.report / "results.json"

    @property
    def pdf(self) -> Path:
        return self.report / "report.pdf"
