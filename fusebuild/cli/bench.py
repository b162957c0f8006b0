"""``fusebuild bench``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from fusebuild.cli.options import PATHS, SEED, require_one_source, sizes_given
from fusebuild.cli.output import print_text
from fusebuild.cli.verb import Verb
from fusebuild.errors import UsageError, VerificationError
from fusebuild.recipe.files import artifact_files


@click.command(cls=Verb, report="fusebuild.bench.report:Report")
@PATHS
@click.option("--case", "cases", multiple=True, metavar="SIZES", callback=sizes_given,
              help="Sizes to measure instead of the recipes' own, such as M=1024,N=4096; may be repeated.")  # fmt: skip
@click.option("--sweep", metavar="N", type=click.IntRange(min=1),
              help="Measure N sizes of each recipe, drawn with --seed: half of them large, half small.")  # fmt: skip
@click.option("-j", "--jobs", type=click.IntRange(min=1),
              help="Compile for --sweep with so many processes of torch before anything is measured.")  # fmt: skip
@click.option("--no-compare", is_flag=True, help="Measure the artifacts and copies only, not torch.")
@click.option("--ncu", is_flag=True, help="Count the DRAM bytes of each case with NVIDIA's ncu, which must be on PATH.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the report here too.")
@click.option("--plot", "plot_file", type=click.Path(path_type=Path, dir_okay=False),
              help="Draw rates here, or ratios of --sweep over bytes, as .png or .svg; needs matplotlib.")  # fmt: skip
@SEED
def bench(
    paths: Sequence[Path],
    cases: tuple[dict[str, int], ...],
    sweep: int | None,
    jobs: int | None,
    no_compare: bool,
    ncu: bool,
    json_file: Path | None,
    plot_file: Path | None,
    seed: int,
) -> None:
    """Measure the artifacts in PATHS (files or folders) on the current CUDA device. Needs torch.

    Beside each artifact, in the same process, run eager torch and torch.compile: the reference in the recipe's bench
    section, or the fusion op by op; and copies, the large one that sets the roof and one of the same bytes. The sizes
    are those of the bench section, or the recipe's first case. Results are checked before anything is timed, and the
    errors of all against fp64 are shown. With --sweep the sizes are drawn, and a table sums them up.
    """
    from fusebuild.bench.measure import BenchOptions, bench_artifacts
    from fusebuild.bench.plot import require_plot, write_plot
    from fusebuild.bench.report import markdown_table, write_report
    from fusebuild.bench.swept import sweep_table

    require_one_source(sweep, cases)
    if jobs and not sweep:
        raise UsageError("--jobs compiles for --sweep, which is not asked for")
    if plot_file is not None:
        require_plot(plot_file)
    options = BenchOptions(cases=cases, sweep=sweep or 0, jobs=jobs or 0, compare=not no_compare, ncu=ncu, seed=seed)
    report = bench_artifacts(artifact_files(paths), options)
    if json_file is not None:
        write_report(report, json_file)
    if plot_file is not None:
        write_plot(report, plot_file)
    print_text(sweep_table(report) if sweep else markdown_table(report))
    if report.wrong:
        raise VerificationError("\n".join(report.wrong))
