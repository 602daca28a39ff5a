"""Full and fraction of the same records -> for each effect both numbers and the interval of their difference.

Both are contrasts on the same trials, so their difference is a contrast too: its weights are the fraction's minus the
full's, and its interval is block-t, Bonferroni over the effects of a kind. They agree when that interval covers 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ablate.analysis.analyze import analyze_trials
from ablate.analysis.results.effects import Effect, Response
from ablate.analysis.results.study import Results
from ablate.analysis.speed.effects import make_effect
from ablate.analysis.trials.comparable import Trial, WorkloadTrials, select_trials
from ablate.analysis.trials.responses import LogTimes, responses_with_data
from ablate.core.cell import Design
from ablate.core.contrast import Contrast
from ablate.core.study import Study
from ablate.design.cells import make_design
from ablate.design.contrasts import make_contrasts

KINDS = ("total", "compile", "optimization", "layer")


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """One effect measured by both designs; the difference is fraction against full, None when either is refused."""

    workload: str
    response: Response
    kind: str
    subject: str
    full: Effect
    fraction: Effect
    difference: Effect | None

    @property
    def agrees(self) -> bool | None:
        """Whether the simultaneous interval of the difference covers 0; None without one, or with the same weights."""
        est = None if self.difference is None else self.difference.estimate
        if est is None or est.simultaneous is None:
            return None
        return est.simultaneous[0] <= 1.0 <= est.simultaneous[1]


def as_fraction(study: Study, design: Design, trials: Sequence[Trial]) -> tuple[Study, Design, list[Trial]]:
    """The same study as if its design were a half fraction, with the trials that such a study would have."""
    half_study = replace(study, design="fraction", cells=())
    half = make_design(half_study)
    keys = set(half.effective_keys)
    return half_study, half, [t for t in trials if t.record.identity.effective_key in keys]


def analyze_both(study: Study, design: Design, trials: Sequence[Trial]) -> tuple[Results, Results]:
    """Results of the full factorial and of the fraction inside it."""
    return analyze_trials(study, design, trials), analyze_trials(*as_fraction(study, design, trials))


def agreements(study: Study, design: Design, trials: Sequence[Trial]) -> Iterator[Agreement]:
    """Compare every effect of the primary kinds, workload by workload."""
    full, fraction = analyze_both(study, design, trials)
    half_study, half, _ = as_fraction(study, design, trials)
    weights = {
        which: {(c.kind, c.subject): c.weights for c in make_contrasts(s, d)[0] if c.kind in KINDS}
        for which, (s, d) in {"full": (study, design), "fraction": (half_study, half)}.items()
    }
    for workload in select_trials(study, design, trials)[0]:
        speeds = [results.workload(workload.workload).speed for results in (full, fraction)]
        for response, times in responses_with_data(workload).items():
            for kind, subject in weights["full"]:
                one, two = (speed.effect(response, kind, subject) for speed in speeds)
                if one is not None and two is not None:
                    yield Agreement(
                        workload=workload.workload, response=response, kind=kind, subject=subject, full=one,
                        fraction=two, difference=_difference(kind, subject, weights, workload, times),
                    )  # fmt: skip


def _difference(
    kind: str,
    subject: str,
    weights: Mapping[str, Mapping[tuple[str, str], Mapping[str, float]]],
    workload: WorkloadTrials,
    times: LogTimes,
) -> Effect | None:
    one, two = weights["full"].get((kind, subject)), weights["fraction"].get((kind, subject))
    if one is None or two is None:
        return None
    both = {key: two.get(key, 0.0) - one.get(key, 0.0) for key in (*one, *two)}
    kept = {key: weight for key, weight in both.items() if abs(weight) > 1e-12}
    family = sum(1 for other in weights["full"] if other[0] == kind and weights["full"][other])
    contrast = Contrast(kind="total", subject=subject, weights=kept, why_inert=None if kept else "the same cells")
    return make_effect(contrast, workload, times, family=family)
