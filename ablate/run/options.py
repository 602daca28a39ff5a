"""What the user asks of a run -> one value, from the command line to the runner and its workers."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to train a study.

    Attributes:
        workloads: Only these workloads; empty = all.
        device: `auto`, `cpu`, `cuda`, `cuda:<n>` or a UUID; None = the first device without a worker.
        ledger: Address of the ledger; None as `ablate.run.ledger.open.find_address` says.
        tracking_uri: MLflow store; None = the spec's.
        retry_failed: Train trials again that ended without completing (once each, as a next attempt).
        restart_blocks: Train unfinished blocks anew that were begun in another environment.
        workers: How many processes train: a number, or `all` for one per GPU of this host.
        executor: Who starts them; with `local` this process is one of them.
        executor_options: What the executor shall know besides.
    """

    workloads: tuple[str, ...] = ()
    device: str | None = None
    ledger: str | None = None
    tracking_uri: str | None = None
    retry_failed: bool = False
    restart_blocks: bool = False
    workers: str = "1"
    executor: str = "local"
    executor_options: Mapping[str, str] = field(default_factory=dict)


DEFAULTS = RunOptions()
