"""Seeds, sizes and acceptance numbers of the benchmark, fixed before its first run."""

from __future__ import annotations

import math

SEED = 20_261_129
NUM_STUDIES, QUICK_STUDIES = 10_000, 5_000
CHUNK = 250
BLOCKS = (5, 8, 15)
QUICK_BLOCKS = (5, 8)
EPOCHS = 5

# noise on log time, standard deviations
PROCESS, EPOCH, BLOCK = 0.015, 0.02, 0.03
UNEQUAL_RANGE = (0.5, 3.0)  # factor on process and epoch noise, spread over the cells
AUTOCORRELATION = 0.6
SPIKE_SHARE, SPIKE_MEAN = 0.05, 0.20  # of epochs
SLOW_SHARE, SLOW_MEAN = 0.03, 0.10  # of processes
DRIFT = 0.10  # from the first to the last trial of a block
SLOPE = 0.01  # of each optimization's effect from block to block

SETTINGS = ("normal", "unequal", "autocorrelated", "spikes", "drift", "slopes", "inert", "null")

# the truth: Shapley values, and the interactions that they contain
COMPILE = 0.20
TRUE_SHAPLEY = {
    "dynamic_shapes": math.log(1.05),
    "tensor_lr": math.log(1.02),
    "string_keys": 0.0,
    "no_cuda_graphs": -0.03,
    "sync_free": 0.01,
}
TRUE_PAIRS = {("dynamic_shapes", "tensor_lr"): 0.03, ("no_cuda_graphs", "sync_free"): -0.02}
TRUE_TRIPLES = {("dynamic_shapes", "tensor_lr", "sync_free"): 0.03}
TWO_PERCENT, FIVE_PERCENT, NO_EFFECT = "tensor_lr", "dynamic_shapes", "string_keys"

# acceptance (statistics.md)
NOMINAL = 0.95
COVERAGE = (0.935, 0.965)
COVERAGE_SPIKES = (0.935, 0.975)
MOST_BIAS = 0.001
SIMULTANEOUS = 0.94
FAMILY_WISE = 0.06
POWER_TWO, POWER_FIVE = 0.95, 0.99
SEQUENTIAL = 0.94
TARGETS = (0.006, 0.008, 0.010, 0.012, 0.015, 0.020)  # half-widths, log time
EXACT = 1e-10
CONTROLS = {"pooled epochs": 0.85, "bootstrap of 5 blocks": 0.90, "fixed order under drift": 0.80, "copied rows": 0.92}
CHANCE = 0.01  # all checks together fail by chance in at most this share of seeds
RESAMPLES = 1000
