"""The child's environment: compiler settings of the caller are gone, ours are explicit, the rest is kept."""

from pathlib import Path

from ablate.run.process.launch import child_environment

CALLER = {
    "PATH": "/bin",
    "HOME": "/home/x",
    "LANG": "C.UTF-8",
    "TORCH_LOGS": "+dynamo",
    "TORCHINDUCTOR_CUDAGRAPHS": "1",
    "TORCHDYNAMO_VERBOSE": "1",
    "TORCH_COMPILE_JOB_ID": "7",
    "PYTORCH_CUDA_ALLOC_CONF": "x",
    "TRITON_CACHE_DIR": "/elsewhere",
    "CUDA_LAUNCH_BLOCKING": "1",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "OMP_NUM_THREADS": "64",
}


def make_environment(**changes: object) -> dict[str, str]:
    given: dict[str, object] = {
        "compile_cache": Path("/cache"),
        "recipe_environment": {},
        "num_threads": None,
        "visible_gpu": "GPU-1",
    }
    return child_environment(CALLER, **{**given, **changes})  # type: ignore[arg-type]


def test_compiler_settings_of_the_caller_are_scrubbed_and_set() -> None:
    compiler = {k: v for k, v in make_environment().items() if k.startswith(("TORCH", "PYTORCH", "TRITON"))}
    assert compiler == {
        "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO": "0",
        "TORCHINDUCTOR_CACHE_DIR": "/cache",
        "TRITON_CACHE_DIR": "/cache/triton",
    }


def test_the_rest_is_kept_and_the_gpu_is_the_claimed_one() -> None:
    environment = make_environment()
    assert {name: environment[name] for name in ("PATH", "HOME", "LANG")} == {
        "PATH": "/bin",
        "HOME": "/home/x",
        "LANG": "C.UTF-8",
    }
    assert environment["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert environment["PYTHONHASHSEED"] == "0"
    assert "CUDA_LAUNCH_BLOCKING" not in environment
    assert environment["OMP_NUM_THREADS"] == "64"


def test_threads_of_the_study_and_variables_of_the_recipe_win() -> None:
    environment = make_environment(num_threads=2, recipe_environment={"TORCHINDUCTOR_MAX_AUTOTUNE": "0"})
    assert (environment["OMP_NUM_THREADS"], environment["MKL_NUM_THREADS"]) == ("2", "2")
    assert environment["TORCHINDUCTOR_MAX_AUTOTUNE"] == "0"
