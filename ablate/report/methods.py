"""Results -> how the numbers came about, in words and formulas, and what this report does not test."""

from ablate.analysis.results.study import Results
from ablate.analysis.statistics.inference import FEWEST_BLOCKS

CACHE_WORDS = {
    "per-cell": "Each cell keeps its own compile cache: its first trial compiles cold, later ones warm, and the "
    "horizon is reported for each state apart. A block counts only when all its compiled trials had the same state. "
    "With another seed the batches have other sizes, so cells without dynamic_shapes are never fully warm.",
    "none": "Every trial compiles with an empty cache.",
    "shared": "The compile cache is shared between cells; compile times and the horizon are not reported.",
}


def methods(results: Results) -> list[dict[str, str]]:
    """Short paragraphs: what it is called, and what was done."""
    texts = {
        "Trial": "One cell trained once in a fresh process; epochs inside it are sub-samples. Diagnostics run outside "
        "the timed part.",
        "Block": "One seed: every effective key once, in fresh random order, on the same mini-batches. Trials whose "
        "batch streams differ are not paired, and trials whose environments differ are not pooled.",
        "Times": "steady = median of the epochs after the first in which nothing compiled; start-up = total of the "
        "timed epochs - number of epochs · steady; horizon = start-up + "
        f"{results.study.timing.horizon_epochs} · steady. {CACHE_WORDS[results.study.compile_cache]}",
        "Effect": "θ = sum over cells c of w[c] · log T[c], positive = faster, exp(θ) = speed-up. total = "
        "log T[eager] - log T[full]; compile = log T[eager] - log T[naive].",
        "Attribution": "Shapley values: φ[i] = sum over sets S without i of g(|S|) · (log T[S] - log T[S+i]), "
        "g(s) = 1 / (n · C(n-1, s)). total = compile + sum of φ, exactly, in every block. Layers: the same game with "
        "a layer switching its optimizations together. Cells that an inert optimization makes equal are measured once "
        "and their weights add up; an inert optimization is 0 by construction, without an interval.",
        "Pairs and orders": "Pair = Shapley interaction index, exploratory: no claim is made about it. The ladder's "
        "range is over every set of optimizations that may come before one. A half fraction assumes that no three "
        "optimizations interact; naive against the sum of its effects checks that (lack of fit).",
        "Intervals": "Block-t: mean ± t(B-1) · sd / √B over blocks, 95 %. In the tables of optimizations and "
        "layers the intervals hold together (Bonferroni). One block has no interval; fewer than "
        f"{FEWEST_BLOCKS} are a pilot without claims. A colored number is claimed: {FEWEST_BLOCKS} blocks or more, "
        "Holm below .05 in its family, and the evidence says that the optimization bites.",
        "Claim": "Supported: the whole interval lies inside the claimed range. Refuted: the two do not overlap. "
        "Undecided: anything else.",
        "Evidence": "Each optimization declares beforehand which counter must differ. It bites when the counter moves "
        "that way in at least half of the pairs of trials that differ only in it (where a design has none: of naive "
        "and full, each optimization with a counter of its own); vacuous when it does not; structural "
        "when would-be device waits went away on a CPU, where nothing can stall.",
        "Training, step by step": "Parity trials: same weights, same batches, same dropout masks (checked in each "
        "process) as eager, apart from the timed trials. d(t) = |loss[arm] - loss[eager]| / |loss[eager]|; env(t) = "
        "running maximum of the same over eager's reruns from weights moved by one ulp, at least 2^-22; K = first step "
        "with env > 1e-5, from where eager does not repeat itself either. Within rounding: d(t) <= 10 env(t) for every "
        "t < K. An optimization is full against full without it. A loss that is not finite, another number of steps or "
        "another learning rate is different. Without aligned masks these trials say nothing.",
        "Training, whole": "Timed trials, paired over blocks: difference of the final loss (mean of the last of 20 "
        "bins of steps), of every bin, and of the validation metric (one-sided: not worse). Equivalent: the 90 % "
        "block-t interval lies inside the margin of the spec (two one-sided tests at 5 %; the curve: in every bin). "
        "Different: the 95 % interval excludes 0 (the curve: for all bins together). Both: different within margin. "
        "Neither: inconclusive. An optimization is half of the cells against the other half. A window that fails "
        "overrides this; fewer than five blocks claim nothing.",
        "Sensitivity": "Satterthwaite takes the trials of a block as independent; the cluster bootstrap resamples "
        "blocks (too narrow with few); mean and fastest epoch replace the median. None of them is ever claimed.",
        "Stability": "After the last compilation, step times are cut at change points (exact minimum of the normal "
        "cost, penalty 15 log n, as PELT), levels within 1 % are one. A trial whose last level is shorter than an "
        "epoch has no steady state; it is named, and nothing is deleted.",
        "Failure": "A trial that did not complete drops its block for the numbers that need it; nothing is imputed, no "
        "outlier is deleted.",
    }
    return [{"name": name, "text": text} for name, text in texts.items()]


def not_tested(results: Results) -> list[str]:
    """What a reader might expect here and will not find, with the reason."""
    study = results.study
    found = [f"{result.name}: {text}" for result in results.workloads for text in result.training.untested]
    if study.device == "cpu":
        found.append(
            "Anything that needs a GPU: CUDA graphs, kernels, device waits. This report says nothing about a GPU, and "
            "nothing is extrapolated."
        )
    if all(f.off_means == "today" for f in study.factors) and study.factors:
        found.append(
            "The guide's own starting point: off means what a user of the installed versions gets today, so behavior "
            "that newer versions fixed by themselves cannot show an effect."
        )
    fixed = [f"{f.name} ({f.setting})" for f in study.factors if f.setting != "both"]
    if fixed:
        found.append("Optimizations that this study holds fixed: " + ", ".join(fixed) + ".")
    if any(choice.options.get("dataset") == "look-alike" for choice in study.workloads):
        found.append(
            "Real data: the look-alike has the shape and the difficulty of H&M, so times carry over only in so far as "
            "batch sizes do, and accuracies do not carry over."
        )
    return found
