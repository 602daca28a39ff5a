"""Arguments of `ablate` -> a command and its exit code: 0 done, 1 user error, 2 failed trials, 3 interrupted."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

import ablate
from ablate.cli import diagnose, margins, planning, reading, starting, studies, workers
from ablate.cli.terminal import EXIT_INTERRUPTED, EXIT_USER_ERROR, print_error, print_line
from ablate.core.errors import AblateError
from ablate.files.disk import explain_disk_errors

app = typer.Typer(
    name="ablate",
    help="Ablation studies of training speed: which optimization made training faster, how sure, and did it change "
    "training.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for room in (studies, planning, workers, reading, diagnose, margins, starting):
    room.register(app)

# typer brings its own click: take the class from there
UsageProblem: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def _print_version(wanted: bool) -> None:
    if wanted:
        print_line(f"ablate {ablate.__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    return


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `ablate` with the given arguments (default: those of the process); returns the exit code."""
    command = typer.main.get_command(app)
    try:
        with explain_disk_errors():
            result = command.main(
                args=None if arguments is None else list(arguments), prog_name="ablate", standalone_mode=False
            )
    except AblateError as error:
        print_error(str(error))
        return EXIT_USER_ERROR
    except UsageProblem as error:
        error.show()
        return EXIT_USER_ERROR
    except (KeyboardInterrupt, typer.Abort):
        print_error("interrupted")
        return EXIT_INTERRUPTED
    return result if isinstance(result, int) else 0
