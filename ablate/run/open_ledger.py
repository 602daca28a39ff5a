"""A study -> the store of its ledger."""

from __future__ import annotations

from ablate.core.paths import StudyPaths
from ablate.core.study import Study
from ablate.run.journal import JournalStore
from ablate.run.stores import Store


def open_store(study: Study, paths: StudyPaths) -> Store:
    return JournalStore(study.name, paths)
