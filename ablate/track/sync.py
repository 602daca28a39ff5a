"""Records and report of a study on disk -> the same study in MLflow, any number of times, without duplicates."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.core.cell import Design
from ablate.core.errors import StoredDataError, UserError
from ablate.core.record import TrialRecord
from ablate.core.units import grouped
from ablate.files.locks import short_lock
from ablate.files.paths import StudyPaths
from ablate.records.store import read_design, read_record, read_series, read_study
from ablate.track.content import describe_trial, epoch_ms, trial_id
from ablate.track.experiment import is_server, open_experiment, prepare_mlflow, resolve_uri, server_answers, visible_uri
from ablate.track.upload import (
    UPLOADED,
    create_parent,
    find_runs,
    log_params,
    set_changed_tags,
    study_params,
    study_tags,
    training_tags,
    upload_changed_files,
    upload_trial,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

RETRY_AFTER_S = 60.0
Ended = tuple[Path, TrialRecord]


@dataclass(frozen=True, kw_only=True)
class SyncOutcome:
    """What a sync did.

    Attributes:
        uri: The tracking address, without its password.
        experiment: Name of the MLflow experiment.
        num_trials: Ended trials of the study on disk that this call looked at.
        num_new: Trials it sent or completed.
        parent_run_id: The MLflow run of the study, None when the store could not be reached.
        problem: One sentence when something could not be sent; the records are untouched either way.
    """

    uri: str
    experiment: str
    num_trials: int
    num_new: int
    parent_run_id: str | None
    problem: str | None


def sync_study(
    paths: StudyPaths, uri: str | None = None, *, report: Callable[[str], None] | None = None
) -> SyncOutcome:
    """Bring every ended trial and the report of a study to MLflow.

    Args:
        paths: Where the study lies.
        uri: Tracking address; None takes the study's own, or `mlflow.db` in the current folder.
        report: Called with one line per trial sent.

    Raises:
        UserError: there is no study at `paths`, or the address is not one that MLflow can store to.
    """
    return Tracker(paths, uri, report=report).sync_study()


class Tracker:
    """The way of one study to MLflow: keeps the client open between trials and rests after a failure."""

    def __init__(
        self, paths: StudyPaths, uri: str | None = None, *, report: Callable[[str], None] | None = None
    ) -> None:
        if not paths.study_json.exists():
            raise UserError(f"no study in {paths.root}: start it with `ablate run SPEC`")
        self._paths = paths
        self._study = read_study(paths.study_json)
        self.uri = resolve_uri(uri or self._study.tracking_uri)
        self._report = report or (lambda line: None)
        self._client: MlflowClient | None = None
        self._experiment_id = ""
        self._failure: tuple[float, str] | None = None

    def sync_trial(self, folder: Path) -> SyncOutcome:
        """Send one trial that has just ended, given its record folder; quick when the store is known to be away."""
        if self._failure is not None and time.monotonic() - self._failure[0] < RETRY_AFTER_S:
            return self._outcome(problem=self._failure[1])
        ended, faults = _read_ended([folder])
        return self._guarded(ended, faults, whole=False)

    def sync_study(self) -> SyncOutcome:
        """Send every trial that is not yet complete in MLflow, then the report, and close the study's run."""
        folders = sorted(path.parent for path in self._paths.records.glob("*/record.json"))
        ended, faults = _read_ended(folders)
        return self._guarded(ended, faults, whole=True)

    def _guarded(self, ended: Sequence[Ended], faults: list[str], *, whole: bool) -> SyncOutcome:
        if is_server(self.uri) and not server_answers(self.uri):
            return self._failed(f"tracking server {visible_uri(self.uri)} does not answer")
        prepare_mlflow()
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            with short_lock(self._paths.root / "tracking.lock"):
                return self._send(ended, faults, whole=whole)
        except (MlflowException, SQLAlchemyError, ImportError, OSError) as error:
            self._client = None
            return self._failed(f"MLflow at {visible_uri(self.uri)} refused ({_first_line(error)})")

    def _send(self, ended: Sequence[Ended], faults: list[str], *, whole: bool) -> SyncOutcome:
        if self._client is None:
            self._client, self._experiment_id = open_experiment(self.uri, self._study.name)
        client = self._client
        study = self._study = read_study(self._paths.study_json)
        design = self._read_design()
        mine = [(folder, record) for folder, record in ended if record.identity.study_hash == study.hash]
        if len(mine) < len(ended):
            self._report(f"{len(ended) - len(mine)} trials belong to an earlier form of this study: not sent")
        parent = self._parent(client, [record for _, record in mine])
        known = self._known(client, mine, whole=whole)
        num_new = 0
        for folder, record in mine:
            try:
                content = describe_trial(record, read_series(folder), study, design)
            except StoredDataError as error:
                faults.append(str(error))
                continue
            found = known.get(content.tags["ablate.trial_id"], [])
            if upload_trial(client, self._experiment_id, parent.info.run_id, content, folder, found):
                num_new += 1
                self._report(f"sent {content.run_name} ({record.identity.workload}, {record.status})")
        if whole:
            try:
                set_changed_tags(client, parent, training_tags(self._paths))
            except StoredDataError as error:
                faults.append(str(error))
            self._kill_lost(client, known, mine)
            self._finish(client, parent, [record for _, record in mine], design)
        elif parent.info.status != "RUNNING":
            client.update_run(parent.info.run_id, status="RUNNING")
        self._failure = None
        problem = "; ".join(faults) or None
        return self._outcome(problem, num_trials=len(mine), num_new=num_new, parent_run_id=parent.info.run_id)

    def _parent(self, client: MlflowClient, records: Sequence[TrialRecord]) -> Run:
        runs = find_runs(client, self._experiment_id, {"ablate.study_hash": self._study.hash, "ablate.kind": "study"})
        started = min((epoch_ms(record.started_at) for record in records), default=None)
        parent = runs[0] if runs else create_parent(client, self._experiment_id, self._study, started)
        params = study_params(self._study)
        log_params(client, parent.info.run_id, {k: v for k, v in params.items() if k not in parent.data.params})
        plans = [(path, None) for path in (self._paths.study_json, self._paths.design_json) if path.exists()]
        if upload_changed_files(client, parent, "ablate.plan_digest", plans):
            client.log_text(parent.info.run_id, self._study.spec_text, "spec.yaml")
        return parent

    def _known(self, client: MlflowClient, mine: Sequence[Ended], *, whole: bool) -> dict[str, list[Run]]:
        """Runs of the trials in hand (of the whole study if `whole`), by trial id."""
        asked = [{"ablate.study_hash": self._study.hash, "ablate.kind": "trial"}]
        if not whole:
            asked = [{"ablate.trial_id": _trial_id(record)} for _, record in mine]
        runs = [run for tags in asked for run in find_runs(client, self._experiment_id, tags)]
        return grouped((run.data.tags.get("ablate.trial_id", ""), run) for run in runs)

    def _kill_lost(self, client: MlflowClient, known: Mapping[str, list[Run]], mine: Sequence[Ended]) -> None:
        """Runs left RUNNING whose record is gone will never be completed: say so."""
        recorded = {_trial_id(record) for _, record in mine}
        for name, runs in known.items():
            for run in runs if name not in recorded else ():
                if run.info.status == "RUNNING" and run.data.tags.get(UPLOADED) != "complete":
                    client.set_terminated(run.info.run_id, status="KILLED")

    def _finish(self, client: MlflowClient, parent: Run, records: Sequence[TrialRecord], design: Design) -> None:
        """Send the report and set the study's run FINISHED, or SCHEDULED while planned trials still wait."""
        run_id = parent.info.run_id
        ended = {record.identity.key for record in records}
        completed = {record.identity.key for record in records if record.completed}
        planned = {trial.key for trial in design.trials} or ended
        parity = {trial.key for trial in design.parity}
        of_parity = len(ended & parity), len(parity)
        tags = study_tags(self._study, len(ended & planned), len(planned), len(ended - completed), of_parity)
        set_changed_tags(client, parent, tags)
        upload_changed_files(client, parent, "ablate.report_digest", _report_files(self._paths.report))
        if not planned | parity <= ended:
            if parent.info.status != "SCHEDULED":
                client.update_run(run_id, status="SCHEDULED")
        elif parent.info.status != "FINISHED":
            last = max((epoch_ms(record.ended_at) for record in records), default=None)
            client.set_terminated(run_id, status="FINISHED", end_time=last)

    def _read_design(self) -> Design:
        if self._paths.design_json.exists():
            return read_design(self._paths.design_json)
        return Design(kind=self._study.design, cells=(), trials=())

    def _failed(self, what: str) -> SyncOutcome:
        again = f"run `{shlex.join(['ablate', 'sync', self._study.spec_path])}` later"
        problem = f"{what}; trials are safe in {self._paths.records}; {again}"
        self._failure = (time.monotonic(), problem)
        return self._outcome(problem)

    def _outcome(
        self, problem: str | None, *, num_trials: int = 0, num_new: int = 0, parent_run_id: str | None = None
    ) -> SyncOutcome:
        return SyncOutcome(
            uri=visible_uri(self.uri),
            experiment=self._study.name,
            num_trials=num_trials,
            num_new=num_new,
            parent_run_id=parent_run_id,
            problem=problem,
        )


def _trial_id(record: TrialRecord) -> str:
    return trial_id(record.identity.study_hash, record.identity.key, record.identity.attempt)


def _read_ended(folders: Sequence[Path]) -> tuple[list[Ended], list[str]]:
    """Read the records of ended trials; what cannot be read is named instead of stopping the others."""
    ended: list[Ended] = []
    faults: list[str] = []
    for folder in folders:
        try:
            record = read_record(folder)
            epoch_ms(record.started_at), epoch_ms(record.ended_at)
        except (StoredDataError, OSError) as error:
            faults.append(str(error))
        except ValueError as error:
            faults.append(f"{folder / 'record.json'} holds an impossible date ({error})")
        else:
            ended.append((folder, record))
    return ended, faults


def _report_files(folder: Path) -> list[tuple[Path, str | None]]:
    """Files of the report and where they go below `report/` in MLflow; hidden (half-written) ones are omitted."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return [(path, str(Path("report") / path.parent.relative_to(folder))) for path in files]


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
