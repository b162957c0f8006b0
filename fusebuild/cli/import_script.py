"""``fusebuild import``."""

from __future__ import annotations

from pathlib import Path

import click

from fusebuild.cli.output import Answer, say, wants_json
from fusebuild.cli.verb import Verb
from fusebuild.errors import one_line


@click.command("import", cls=Verb, report="list[fusebuild.definition.script:ImportedRecipe]")
@click.argument("script", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("-o", "--out", type=click.Path(path_type=Path),
              help="The recipe to write, or a folder for one recipe of each definition (default: stdout).")  # fmt: skip
@click.option("--timeout", default=60.0, show_default=True, type=click.FloatRange(min=0, min_open=True),
              help="Seconds the script may take.")  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite recipes that are there and say something else.")
def import_command(script: Path, out: Path | None, timeout: float, force: bool) -> Answer:
    """Turn the fusion definitions in SCRIPT, written for nvFuser's Python frontend, into recipes.

    SCRIPT IS RUN, with your rights: import no script that you do not trust. It runs in a process of its own, where
    nvfuser and nvfuser_direct only record, and tensors of torch have no elements. Neither torch nor a GPU is needed.
    """
    from fusebuild.definition.script import ImportedRecipe, WriteMode, import_script, written

    definitions = import_script(script, timeout=timeout)
    mode: WriteMode = "w" if force else "x"
    goes_nowhere = wants_json() and out is None
    paths = (None,) * len(definitions) if goes_nowhere else written(definitions, script, out, mode=mode)
    report = [
        ImportedRecipe(fusion=each.name, line=each.location.line, path=path, recipe=each.text)
        for each, path in zip(definitions, paths, strict=True)
    ]

    def tell() -> None:
        for each, path in zip(definitions, paths, strict=True):
            if path is None:
                click.echo(each.text, nl=False)
            else:
                say(f"{one_line(path)}  from {one_line(each.location.path)}:{each.location.line}")

    return Answer(report=report, tell=tell)
