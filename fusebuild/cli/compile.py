"""``fusebuild compile``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusebuild.cli.check import freshness, rebuilt
from fusebuild.cli.options import NVCC, OUT, PATHS, SEGMENTATION, targets_named
from fusebuild.cli.output import Answer, progress, say
from fusebuild.cli.streams import printable
from fusebuild.cli.verb import Verb
from fusebuild.errors import LocatedError, UsageError, counted, one_line
from fusebuild.system.failure import reported
from fusebuild.target.table import TARGETS, Target

if TYPE_CHECKING:
    from fusebuild.segmentation import Search


@click.command(
    "compile",
    cls=Verb,
    report="fusebuild.freshness.incremental:CompileReport | list[fusebuild.freshness.verdict:CheckedRecipe]",
)
@PATHS
@OUT
@click.option("--arch", "targets", default="sm_90", show_default=True, callback=targets_named,
              help=f"Targets, separated by commas: {', '.join(TARGETS)}.")  # fmt: skip
@click.option("-j", "--jobs", type=click.IntRange(min=1),
              help="Processes at a time that plan and that compile (default: one for each CPU).")  # fmt: skip
@SEGMENTATION
@click.option("--dump", type=click.Path(path_type=Path, file_okay=False), help="Write every intermediate here.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be compiled and write nothing.")
@click.option("-k", "--keep-going", is_flag=True,
              help="Compile the recipes that can be, and say what is wrong with the others.")  # fmt: skip
@click.option("--frozen", is_flag=True,
              help="Write nothing; compile into scratch and exit 3 when an artifact has another byte.")  # fmt: skip
@NVCC
def compile_command(
    paths: Sequence[Path],
    out: Path,
    targets: tuple[Target, ...],
    jobs: int | None,
    search: Search | None,
    dump: Path | None,
    dry_run: bool,
    keep_going: bool,
    frozen: bool,
    nvcc: str | None,
) -> Answer:
    """Compile the recipes in PATHS (files or folders) into artifacts. What is up to date is left alone."""
    if frozen:
        if dump or dry_run:
            raise UsageError("--frozen writes nothing: --dump and --dry-run do not go with it")
        if keep_going:
            raise UsageError("--frozen proves all or nothing: --keep-going does not go with it")
        from fusebuild.planning.spills import require_known_spills

        verdicts = rebuilt(paths, out, targets=targets, search=search or "heuristic", nvcc=nvcc, jobs=jobs)
        answer = freshness(verdicts, paths, out)
        if answer.exit_code == 0:
            require_known_spills([verdict.artifact for verdict in verdicts])
        return answer
    from fusebuild.freshness.incremental import compile_changed
    from fusebuild.freshness.keep_going import PartialCompilation, compile_what_can_be

    with progress("compiling") as on_progress:
        compile_files = partial(compile_changed, targets=targets, out=out, nvcc=nvcc, jobs=jobs, dump=dump,
                                on_progress=on_progress, dry_run=dry_run, search=search or "heuristic")  # fmt: skip
        found = (
            compile_what_can_be(paths, compile_files) if keep_going else PartialCompilation(done=compile_files(paths))
        )
    done = found.done
    for error in found.errors:
        click.echo(printable(str(error) if isinstance(error, LocatedError) else f"error: {error}"), err=True)
    for file in found.left_out:
        click.echo(printable(f"not compiled: {file}"), err=True)
    for (target, kernel), spilled in sorted(done.spills.items()):
        logging.getLogger("fusebuild").warning("%s for %s spills %d bytes of registers", kernel, target, spilled)

    def tell() -> None:
        for each in done.recipes:
            kernels = {name for names in each.kernels.values() for name in names}
            state = "" if dry_run else "written" if each.artifact.written else "unchanged"
            say(f"{one_line(each.artifact.path)}  {counted(len(kernels), 'kernel')}  {state}")
        verb = "would compile" if dry_run else "compiled"
        say(f"{verb} {done.compiled} of {counted(done.total, 'object')} in {done.seconds:.1f} s")

    return Answer(report=done.report(reported(found.errors)), tell=tell, exit_code=found.exit_code)
