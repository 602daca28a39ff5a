"""Two processes that train a study, and a seed -> SIGKILLs at random moments, until there were enough of them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

VICTIMS = ("runner", "worker", "trial")
AFTER_NEWS, LONGEST_QUIET_S = 0.7, 20.0
BLOCKS_MORE = 4


@dataclass(kw_only=True)
class Chaos:
    """A study under fire.

    Attributes:
        spec: Its spec.
        runs: Folder for its records.
        kills: How many SIGKILLs.
        seed: Seed of victims and moments.
        environments: Environment of the runner and of the worker.
        deadline: Monotonic time at which it is given up.
        ended: Tells how many trials have a record.
        trace: Log of the trainer: it grows when trials start and end.
        report: Called with a line now and then.
        longest_s: Longest pause before a kill.
        blocks: Blocks of the study; more are added when it ends too early.
    """

    spec: Path
    runs: Path
    kills: int
    seed: int
    environments: Mapping[str, Mapping[str, str]]
    deadline: float
    ended: Callable[[], int]
    trace: Path
    report: Callable[[str], None]
    longest_s: float = 1.5
    blocks: int = 4
    counts: Counter[str] = field(default_factory=Counter)
    restarts: Counter[str] = field(default_factory=Counter)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def rage(self) -> None:
        """Kill until there were enough kills; a study that ends before gets more blocks.

        Raises:
            TimeoutError: the deadline came first.
        """
        generator = random.Random(self.seed)
        while sum(self.counts.values()) < self.kills:
            self._tend(more_blocks=True)
            if generator.random() < AFTER_NEWS:  # else it may strike somebody who has just started
                self._wait_for_news()
            time.sleep(generator.uniform(0, self.longest_s))
            victim = self._kill(generator)
            if victim and sum(self.counts.values()) % 10 == 0:
                self.report(f"{sum(self.counts.values())} kills, {self.ended()} trials have ended")
            self._check_deadline()

    def calm_down(self) -> None:
        """Let the study end.

        Raises:
            TimeoutError: the deadline came first.
            RuntimeError: a process ended with an error.
        """
        while True:
            codes = {name: process.poll() for name, process in self._running.items()}
            for name, code in codes.items():
                if code not in (None, 0, 2, -signal.SIGKILL):
                    raise RuntimeError(f"the {name} ended with exit code {code}; see {self._output(name)}")
            if codes.get("runner") == 0 and codes.get("worker") in (0, 2):
                return  # the runner trains failed trials again, so its 0 means: all completed
            self._tend(more_blocks=False)
            time.sleep(0.2)
            self._check_deadline()

    def stop(self) -> None:
        """End what still runs."""
        for process in self._running.values():
            process.kill()
            process.wait()
        for pid in find_trials(self.runs):
            _kill(pid)

    def _tend(self, *, more_blocks: bool) -> None:
        """Start whoever does not run; when both have ended by themselves, with more to do."""
        codes = {name: process.poll() for name, process in self._running.items()}
        if more_blocks and len(codes) == 2 and all(code in (0, 2) for code in codes.values()):
            self.blocks += BLOCKS_MORE
        for name, environment in self.environments.items():
            done = not more_blocks and name == "worker" and codes.get("worker") == 0
            if codes.get(name, 0) is not None and not done:
                self.restarts[name] += name in self._running
                self._start(name, environment)

    def _wait_for_news(self) -> None:
        """Wait until a trial starts or ends, so that kills do not only meet processes that are starting."""
        before, deadline = self._news(), time.monotonic() + LONGEST_QUIET_S
        while self._news() == before and time.monotonic() < deadline:
            time.sleep(0.02)

    def _news(self) -> int:
        return self.trace.stat().st_size if self.trace.exists() else 0

    def _start(self, name: str, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "benchmarks.chaos.work", str(self.spec), str(self.runs), str(self.blocks)]
        with self._output(name).open("ab") as output:
            self._running[name] = subprocess.Popen(
                command + (["--runner"] if name == "runner" else []),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _kill(self, generator: random.Random) -> str | None:
        """Kill one of those that live; a kind that has nobody right now is left out."""
        alive = {name: [p.pid] for name, p in self._running.items() if p.poll() is None}
        alive["trial"] = sorted(find_trials(self.runs))
        kinds = [kind for kind in VICTIMS if alive.get(kind)]
        if not kinds:
            return None
        kind = generator.choice(kinds)
        if not _kill(generator.choice(alive[kind])):
            return None
        if kind in self._running:
            self._running[kind].wait()
        self.counts[kind] += 1
        return kind

    def _output(self, name: str) -> Path:
        return self.runs / f"{name}.txt"

    def _check_deadline(self) -> None:
        if time.monotonic() > self.deadline:
            raise TimeoutError(f"not done in time: {dict(self.counts)} kills, {self.ended()} trials have ended")


def find_trials(runs: Path) -> Iterator[int]:
    """Process ids of the trials under a folder, those included whose worker is gone."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if len(arguments) > 3 and arguments[-3] == b"trial" and arguments[-2].startswith(os.fsencode(runs)):
            yield int(path.parent.name)


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
