"""The command line. Each verb is a few lines over the function that does the work."""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusebuild import __version__
from fusebuild.errors import (
    FusebuildError,
    LocatedError,
    NothingVerifiedError,
    StaleError,
    UsageError,
    VerificationError,
    counted,
)
from fusebuild.failure import reported
from fusebuild.recipe_files import artifact_files
from fusebuild.streams import Output, open_outputs, printable
from fusebuild.target import TARGETS, Target, find_target
from fusebuild.verb import Verbs, log_handler, loudness

if TYPE_CHECKING:
    from fusebuild import reports
    from fusebuild.check import Freshness
    from fusebuild.segmentation import Search
    from fusebuild.verification import Skipped, Verdict

PATHS = click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
OUT = click.option("-o", "--out", default="build", show_default=True, type=click.Path(path_type=Path, file_okay=False),
                   help="Folder of the artifacts.")  # fmt: skip
NVCC = click.option("--nvcc", metavar="FILE", help="The nvcc to use (default: see 'fusebuild doctor').")
SEGMENTATION = click.option("--segmentation", "search", type=click.Choice(["heuristic", "exact"]),
                            help="How cuts are found; exact is for small fusions (default: heuristic).")  # fmt: skip
SCHEMAS = ("recipe", "bench", "cache", "check", "compile", "diff", "doctor", "import", "inspect", "tune", "verify")
SEED = click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**63 - 1),
                    help="Seed of the random inputs.")  # fmt: skip
JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON report on stdout.")


def _targets(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[Target, ...] | None:
    """The targets named by ``sm_90,host``."""
    if value is None:
        return None
    try:
        named = {find_target(name.strip()).name for name in value.split(",")}
        return tuple(target for name, target in TARGETS.items() if name in named)
    except UsageError as error:
        raise click.BadParameter(str(error)) from error


@click.group(cls=Verbs, params=loudness(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fusebuild")
def cli() -> None:
    """Build, check and run GPU fusion artifacts, ahead of time."""


@cli.command("compile")
@PATHS
@OUT
@click.option("--arch", "targets", default="sm_90", show_default=True, callback=_targets,
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
@JSON
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
    as_json: bool,
) -> None:
    """Compile the recipes in PATHS (files or folders) into artifacts. What is up to date is left alone."""
    if frozen:
        if dump or dry_run:
            raise UsageError("--frozen writes nothing: --dump and --dry-run do not go with it")
        if keep_going:
            raise UsageError("--frozen proves all or nothing: --keep-going does not go with it")
        from fusebuild.spills import require_known_spills

        require_known_spills(_rebuild(paths, out, targets, search or "heuristic", nvcc, jobs, as_json))
        return
    from fusebuild.incremental import compile_changed
    from fusebuild.keep_going import PartialCompilation, compile_what_can_be

    with _progress("compiling") as on_progress:
        compile_files = partial(compile_changed, targets=targets, out=out, nvcc=nvcc, jobs=jobs, dump=dump,
                                on_progress=on_progress, dry_run=dry_run, search=search or "heuristic")  # fmt: skip
        found = (
            compile_what_can_be(paths, compile_files)
            if keep_going
            else PartialCompilation(done=compile_files(paths), errors=())
        )
    done = found.done
    for error in found.errors:
        click.echo(printable(str(error) if isinstance(error, LocatedError) else f"error: {error}"), err=True)
    for (target, kernel), spilled in sorted(done.spills.items()):
        logging.getLogger("fusebuild").warning("%s for %s spills %d bytes of registers", kernel, target, spilled)
    if as_json:
        _print_json(done.as_json(reported(found.errors)))
        sys.exit(found.exit_code)
    verb = "would compile" if dry_run else "compiled"
    for each in done.recipes:
        kernels = {name for names in each.kernels.values() for name in names}
        state = "" if dry_run else "written" if each.written else "unchanged"
        _say(f"{each.artifact}  {len(kernels)} kernel{'s' * (len(kernels) != 1)}  {state}")
    _say(f"{verb} {done.compiled} of {counted(done.total, 'object')} in {done.seconds:.1f} s")
    if found.errors:
        sys.exit(found.exit_code)


@cli.command()
@PATHS
@OUT
@click.option("--arch", "targets", callback=_targets, help="Targets to expect (default: those in each artifact).")
@click.option("--rebuild", is_flag=True, help="Compile into scratch, too, and compare every byte.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Compilers at a time (default: one for each CPU).")
@NVCC
@JSON
def check(
    paths: Sequence[Path],
    out: Path,
    targets: tuple[Target, ...] | None,
    rebuild: bool,
    jobs: int | None,
    nvcc: str | None,
    as_json: bool,
) -> None:
    """Say whether the artifacts of the recipes in PATHS are fresh; exit 3 when one is not.

    Without --rebuild nothing is compiled, and machine code is compared with what the build recorded beside it.
    """
    if rebuild:
        _rebuild(paths, out, targets, None, nvcc, jobs, as_json)
        return
    from fusebuild.check import check_recipes

    _report_freshness(check_recipes(paths, out, targets=targets, nvcc=nvcc), paths, out, as_json)


def _rebuild(
    paths: Sequence[Path],
    out: Path,
    targets: tuple[Target, ...] | None,
    search: Search | None,
    nvcc: str | None,
    jobs: int | None,
    as_json: bool,
) -> list[Path]:
    """Compile everything into scratch and say what is not the same. The artifacts that are."""
    from fusebuild.rebuild import rebuild_recipes

    with _progress("compiling") as on_progress:
        verdicts = rebuild_recipes(
            paths, out, targets=targets, search=search, nvcc=nvcc, jobs=jobs, on_progress=on_progress
        )
    _report_freshness(verdicts, paths, out, as_json)
    return [verdict.artifact for verdict in verdicts]


def _report_freshness(verdicts: Sequence[Freshness], paths: Sequence[Path], out: Path, as_json: bool) -> None:
    """Say what is stale, and exit 3 when anything is."""
    from fusebuild.check import orphans, orphans_json, summary

    orphaned = orphans(paths, out, verdicts)
    if as_json:
        _print_json([*(verdict.as_json() for verdict in verdicts), *orphans_json(orphaned)])
    for verdict in verdicts:
        for difference in verdict.differences:
            click.echo(printable(f"{verdict.recipe}: stale: {difference}"), err=True)
    for path in orphaned:
        click.echo(printable(f"orphaned: {path}: no recipe of that name"), err=True)
    if not as_json:
        _say(summary(verdicts))
    if any(verdict.differences for verdict in verdicts):
        sys.exit(StaleError.exit_code)


@cli.command()
@click.option("--prune", is_flag=False, flag_value="", metavar="[SIZE]",
              help="Remove compiled objects, those first that were not used for longest, until there are at most SIZE "
                   "bytes, such as 500M or 0 (default: the limit).")  # fmt: skip
@JSON
def cache(prune: str | None, as_json: bool) -> None:
    """Show what the cache holds, or prune it.

    Compiled objects are kept there, so that none is compiled twice, up to FUSEBUILD_CACHE_BYTES (default: 2G); after a
    build that compiled something those go that were not used for longest. Removing any of it only makes builds slower.
    """
    from fusebuild.cache_report import cache_report

    report = cache_report(os.environ, prune)
    if as_json:
        _print_json(report.as_json())
    else:
        _say(report.as_text())


@cli.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--arch", "targets", callback=_targets, help="Targets to show (default: sm_90, or an artifact's own).")
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False),
              help="Write a page here that draws the segments; nothing but a browser is needed to see it.")  # fmt: skip
@SEGMENTATION
@JSON
def inspect(
    path: Path, targets: tuple[Target, ...] | None, page: Path | None, search: Search | None, as_json: bool
) -> None:
    """Show the segments of PATH (a recipe or an artifact): why each cut exists, what crosses it, and how many bytes.

    Needs no GPU. With --json and one target the report is one object, with several it is a list.
    """
    from fusebuild.inspected import inspections_of

    inspections, fusion = inspections_of(path, targets, search)
    if page is not None:
        from fusebuild.inspection_html import write_page

        write_page(page, inspections, fusion)
        if not as_json:
            return
    if as_json:
        shown = [inspection.as_json() for inspection in inspections]
        _print_json(shown[0] if len(shown) == 1 else shown)
        return
    _print("\n".join(inspection.as_text() for inspection in inspections))


@cli.command("diff")
@click.argument("old", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("new", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@JSON
def diff_command(old: Path, new: Path, as_json: bool) -> None:
    """Show what the artifact NEW has that OLD has not: segments, bytes, kernels, registers.

    Bytes are those of the first case of NEW's recipe. Needs no GPU. The exit code is 0 for artifacts that differ, too.
    """
    from fusebuild.artifact import open_artifact
    from fusebuild.artifact_diff import compare
    from fusebuild.inspected import fusion_in

    before, after = open_artifact(old), open_artifact(new)
    fusion = fusion_in(after)
    diff = compare(before, after, fusion.cases[0] if fusion.cases else {})
    if as_json:
        _print_json(diff.as_json())
    else:
        _print(diff.as_text())


@cli.command("import")
@click.argument("script", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("-o", "--out", type=click.Path(path_type=Path),
              help="The recipe to write, or a folder for one recipe of each definition (default: stdout).")  # fmt: skip
@click.option("--timeout", default=60.0, show_default=True, type=click.FloatRange(min=0, min_open=True),
              help="Seconds the script may take.")  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite recipes that are there and say something else.")
@JSON
def import_command(script: Path, out: Path | None, timeout: float, force: bool, as_json: bool) -> None:
    """Turn the fusion definitions in SCRIPT, written for nvFuser's Python frontend, into recipes.

    SCRIPT IS RUN, with your rights: import no script that you do not trust. It runs in a process of its own, where
    nvfuser and nvfuser_direct only record, and tensors of torch have no elements. Neither torch nor a GPU is needed.
    """
    from fusebuild.definition.script import WriteMode, import_script, written

    definitions = import_script(script, timeout=timeout)
    mode: WriteMode = "w" if force else "x"
    paths = (None,) * len(definitions) if as_json and out is None else written(definitions, script, out, mode=mode)
    if as_json:
        imported: list[reports.ImportedRecipe] = [
            {
                "fusion": each.name,
                "line": each.location.line,
                "path": None if path is None else str(path),
                "recipe": each.text,
            }
            for each, path in zip(definitions, paths, strict=True)
        ]
        _print_json(imported)
        return
    for each, path in zip(definitions, paths, strict=True):
        if path is None:
            click.echo(each.text, nl=False)
        else:
            _say(f"{path}  from {each.location.path}:{each.location.line}")


@cli.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--target", help="'host' runs on the CPU (default: the current CUDA device).")
@click.option("--max-elements", default=2**62, type=click.IntRange(min=0), help="Skip cases with a larger tensor.")
@SEED
@click.option("--runs", default=1, show_default=True, type=click.IntRange(min=1),
              help="Run everything so many times; all have to give the same bits.")  # fmt: skip
@JSON
def verify(paths: Sequence[Path], target: str | None, max_elements: int, seed: int, runs: int, as_json: bool) -> None:
    """Run the artifacts in PATHS (files or folders) against the fp64 oracle, every case and variant. Needs torch."""
    from fusebuild.verification import Limits, Skipped, verify_or_skip

    rows: list[reports.VerifiedCase] = []
    unverified: list[NothingVerifiedError] = []
    for artifact in artifact_files(paths):
        limits = Limits(max_elements=max_elements)
        try:
            for found in verify_or_skip(artifact, target=target, limits=limits, seed=seed, runs=runs):
                row, line = _skipped(found) if isinstance(found, Skipped) else _judged(found)
                rows.append(row)
                if not as_json and (not row["ok"] or not _is_quiet()):
                    _print(f"{line}\n")
        except NothingVerifiedError as error:
            unverified.append(error)
    states = Counter(row["state"] for row in rows)
    if as_json:
        _print_json(rows)
    else:
        skipped = f", {states['skipped']} skipped" if states["skipped"] else ""
        _say(f"{states['passed']} passed, {states['failed']} failed{skipped}")
    for each in unverified:
        click.echo(f"error: {each}", err=True)
    if states["failed"] or unverified:
        sys.exit(VerificationError.exit_code if states["failed"] else NothingVerifiedError.exit_code)


def _judged(verdict: Verdict) -> tuple[reports.VerifiedCase, str]:
    """A verdict for programs and for people."""
    way = f"variant {verdict.variant}" if verdict.variant is not None else verdict.layout
    state = "ok" if verdict.ok else "FAIL"
    end = f"  {verdict.problem}" if verdict.problem else ""
    row: reports.VerifiedCase = {
        "fusion": verdict.fusion,
        "target": verdict.target,
        "case": dict(verdict.case),
        "variant": verdict.variant,
        "layout": verdict.layout,
        "error": verdict.error if math.isfinite(verdict.error) else None,
        "bound": verdict.bound,
        "ok": verdict.ok,
        "problem": verdict.problem,
        "state": "passed" if verdict.ok else "failed",
    }
    numbers = f"error {verdict.error:8.1e} (bound {verdict.bound:.1e})"
    return row, f"{verdict.fusion:30} {_case_text(verdict.case):28} {way:12} {numbers}  {state}{end}"


def _skipped(case: Skipped) -> tuple[reports.VerifiedCase, str]:
    """A case that was skipped, for programs and for people."""
    row: reports.VerifiedCase = {
        "fusion": case.fusion,
        "target": case.target,
        "case": dict(case.case),
        "variant": None,
        "layout": "aligned",
        "error": None,
        "bound": 0.0,
        "ok": True,
        "problem": "",
        "state": "skipped",
    }
    return row, f"{case.fusion:30} {_case_text(case.case):28} skipped      a tensor has {case.elements:,} elements"


def _case_text(case: Mapping[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in case.items())


def _sizes(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> tuple[dict[str, int], ...]:
    """The cases written ``M=1024,N=4096``."""
    cases = []
    for value in values:
        pairs = [piece.partition("=") for piece in value.split(",")]
        sizes = {name.strip(): int(size) for name, _, size in pairs if size.strip().isdecimal() and name.strip()}
        if len(sizes) < len(pairs):
            raise click.BadParameter(f"'{value}' is not written like M=1024,N=4096")
        cases.append(sizes)
    return tuple(cases)


@cli.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--case", "cases", multiple=True, metavar="SIZES", callback=_sizes,
              help="Sizes to measure instead of the recipes' own, such as M=1024,N=4096; may be repeated.")  # fmt: skip
@click.option("--no-compare", is_flag=True, help="Measure the artifacts and copies only, not torch.")
@click.option("--ncu", is_flag=True, help="Count the DRAM bytes of each case with NVIDIA's ncu, which must be on PATH.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the report here too.")
@click.option("--plot", "plot_file", type=click.Path(path_type=Path, dir_okay=False),
              help="Draw the rates as bars here, as .png or .svg; needs matplotlib.")  # fmt: skip
@SEED
def bench(
    paths: Sequence[Path],
    cases: tuple[dict[str, int], ...],
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
    errors of all against fp64 are shown.
    """
    from fusebuild.bench import Options, bench_artifacts, markdown_table, require_plot, write_plot, write_report

    if plot_file is not None:
        require_plot(plot_file)
    report = bench_artifacts(artifact_files(paths), Options(cases=cases, compare=not no_compare, ncu=ncu, seed=seed))
    if json_file is not None:
        write_report(report, json_file)
    if plot_file is not None:
        write_plot(report, plot_file)
    _print(markdown_table(report))
    if report.wrong:
        raise VerificationError("\n".join(report.wrong))


@cli.command()
@PATHS
@OUT
@click.option("--arch", "targets", callback=_targets,
              help="'host' tunes for the CPU (default: the current CUDA device's own).")  # fmt: skip
@click.option("--case", "cases", multiple=True, metavar="SIZES", callback=_sizes,
              help="Sizes to measure at instead of those that kernels are planned for, within a factor of two of them, "
                   "such as M=1024,N=4096; may be repeated.")  # fmt: skip
@click.option("--budget", default=16, show_default=True, type=click.IntRange(1, 16),
              help="Neighbours to try for each kernel.")  # fmt: skip
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Compilers at a time (default: one for each CPU).")
@SEED
@NVCC
@JSON
def tune(
    paths: Sequence[Path],
    out: Path,
    targets: tuple[Target, ...] | None,
    cases: tuple[dict[str, int], ...],
    budget: int,
    jobs: int | None,
    seed: int,
    nvcc: str | None,
    as_json: bool,
) -> None:
    """Measure the kernels of the recipes in PATHS beside others that differ in one knob, and keep what wins.

    Needs a compiler, torch, and the device to tune for in one machine. What is faster by more than 2 % every time it is
    measured goes into NAME.tuned.json beside the recipe, where compile finds it.
    """
    from fusebuild.tuning import TuneOptions, tune_recipes

    if targets is not None and len(targets) != 1:
        raise UsageError("tune is for one target at a time")
    options = TuneOptions(cases=cases, budget=budget, out=out, jobs=jobs, nvcc=nvcc, seed=seed)
    with _progress("tuning") as on_progress:
        report = tune_recipes(paths, targets[0] if targets else None, options, on_progress=on_progress)
    if as_json:
        _print_json(report.as_json())
        return
    _print(report.as_text())
    for path in report.written:
        _say(f"{path}  {'written' if path.exists() else 'removed: the heuristics are the best'}")


@cli.command()
@NVCC
@JSON
def doctor(nvcc: str | None, as_json: bool) -> None:
    """Say which compilers and libraries are found, whether they fit each other, and what to do where not."""
    from fusebuild.doctor import diagnose

    findings = diagnose(nvcc=nvcc)
    if as_json:
        found: list[reports.DoctorFinding] = [
            {"name": f.name, "status": f.status, "found": f.found, "advice": f.advice} for f in findings
        ]
        _print_json(found)
    else:
        colors = {"ok": "green", "warn": "yellow", "error": "red"}
        for finding in findings:
            status = click.style(f"{finding.status:5}", fg=colors[finding.status])
            click.echo(f"{status} {finding.name:16} {printable(finding.found)}")
            if finding.advice:
                click.echo(f"      {'':16} {printable(finding.advice)}")
    if any(finding.status == "error" for finding in findings):
        sys.exit(5)


@cli.command()
@click.argument("name", type=click.Choice(SCHEMAS), metavar="NAME")
def schema(name: str) -> None:
    """Print the JSON schema of NAME: of a recipe, for editors, or of the report that a verb prints with --json.

    NAME is recipe, or a verb: bench, cache, check, compile, diff, doctor, import, inspect, tune, verify.
    """
    from fusebuild.schemas import schema_of

    _print_json(schema_of(name))


@contextmanager
def _progress(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on stderr when a person watches, unless steps are told there; nothing in a pipe."""
    if not sys.stderr.isatty() or _is_quiet() or logging.getLogger().isEnabledFor(logging.INFO):
        yield None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr, show_eta=False) as bar:

        def advance(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield advance
        bar.update((bar.length or 0) - bar.pos)  # also where nothing had to be done


def _is_quiet() -> bool:
    return bool(click.get_current_context().find_root().obj.get("quiet"))


def _print_json(report: object) -> None:
    click.echo(json.dumps(report, indent=2, allow_nan=False))


def _print(text: str) -> None:
    """Print lines for people; each ends with a line break."""
    click.echo(printable(text), nl=False)


def _say(text: str) -> None:
    if not _is_quiet():
        _print(f"{text}\n")


def main() -> None:
    """Run the command line; errors of fusebuild end it with their message and exit code."""
    stdout, stderr = open_outputs()
    logging.basicConfig(handlers=[log_handler()])
    code = _run(stderr)
    if stdout.problem:
        _complain(f"error: stdout cannot be written to: {stdout.problem}", stderr)
    sys.exit(code or int(bool(stdout.problem)))


def _run(stderr: Output) -> int:
    """Run the verb; its exit code."""
    color = False if os.environ.get("NO_COLOR") else None
    try:
        done = cli.main(standalone_mode=False, color=color)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except click.ClickException as error:
        usage = error.ctx.get_usage() + "\n" if isinstance(error, click.UsageError) and error.ctx else ""
        _complain(f"{usage}Error: {error.format_message()}", stderr)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _complain("aborted", stderr)
        return 130
    except FusebuildError as error:
        _complain(str(error) if isinstance(error, LocatedError) else f"error: {error}", stderr)
        return error.exit_code
    return done if isinstance(done, int) else 0


def _complain(text: str, stderr: Output) -> None:
    """Say on stderr what went wrong; on stdout where stderr cannot be written to."""
    click.echo(printable(text), err=True)
    if stderr.problem:
        click.echo(printable(text))


if __name__ == "__main__":
    main()
