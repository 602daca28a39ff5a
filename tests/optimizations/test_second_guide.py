"""What the second guide (ResNet-50) tells its readers to call -> whether the installed torch has it."""

import pytest
import torch


@pytest.mark.parametrize("name", ["is_enabled", "set_strict_mode"])
def test_torch_compiler_has_no_such_function(name: str) -> None:
    assert not hasattr(torch.compiler, name), "docs/second-guide.md says that it does not exist: correct it"


def test_compile_takes_no_verbose() -> None:
    with pytest.raises(TypeError, match="verbose"):
        torch.compile(torch.nn.Linear(1, 1), verbose=True)  # type: ignore[call-overload]


def test_the_modes_are_what_the_levels_say() -> None:
    graphs, search = "triton.cudagraphs", "max_autotune"
    modes = {
        mode: torch._inductor.list_mode_options(mode) for mode in ("reduce-overhead", "max-autotune-no-cudagraphs")
    }
    assert modes["reduce-overhead"] == {graphs: True}
    assert modes["max-autotune-no-cudagraphs"][search] and not modes["max-autotune-no-cudagraphs"].get(graphs)
