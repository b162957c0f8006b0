"""The README and the pages of docs/ are true: their files are the repository's, their commands print what they show,
their tables are the code's.

``pytest tests/repository/test_readme.py --update-golden`` writes the commands' present output into the pages.

Blocks after ``<!-- file: NAME -->`` are written to that file, and must equal the repository's where it has one. The
``cuda`` blocks are what is rendered for sm_90 of the variant that ``<!-- kernel: RECIPE VARIANT -->`` names. The
commands of a page's ``console`` blocks are run in order, in one folder that starts with the repository's ``recipes/``
alone, so that each page can be typed on its own. A block that begins with ``make`` is not run, nor is one after
``<!-- needs no GPU here -->`` where there is a GPU, or after ``<!-- needs TOOL -->`` where there is no such tool.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from fusebuild import errors
from fusebuild.build import compiler, cuda_toolkit, toolchain
from fusebuild.cli.main import cli
from fusebuild.kernels.families import FAMILIES
from fusebuild.ops import table as ops
from fusebuild.oracle.verification import verify_artifact
from fusebuild.pipeline import compile_recipes, plan_recipe, read_recipes
from fusebuild.target import table as target
from support import forkserver
from support.places import ROOT

torch = pytest.importorskip("torch")

README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = {path.relative_to(ROOT).as_posix(): path for path in (README, *sorted(DOCS.rglob("*.md")))}
KERNELS, EXTENDING = DOCS / "internals" / "kernels.md", DOCS / "extending.md"
INSTALLED = Path(sys.executable).parent
"""Where ``fusebuild`` and ``python`` are installed."""
NEEDS_NO_GPU = "needs no GPU here"
_BLOCK = re.compile(
    r"(?:<!-- (?P<note>[^>]*) -->\n)?```(?P<language>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
_VARYING = (
    (re.compile(r"\bcompiled \d+ of (\d+) objects in \d+\.\d s\b"), r"compiled ? of \1"),  # what the cache has not
    (re.compile(r"_[0-9a-f]{16}\b"), "_?"),  # digests in kernels' names
    (re.compile(r"\bsha256 is [0-9a-f]{64}\b"), "sha256 is ?"),  # of machine code, which is the compiler's
    (re.compile(r"\bSHA256:[A-Za-z0-9+/]{43}"), "SHA256:?"),  # of a key that was made just now
    (re.compile(r"\berror +\d\.\de[+-]\d\d"), "error ?"),  # the last bits of exp and erf are the C library's
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    note: str
    language: str
    body: str


def blocks(text: str) -> list[Block]:
    return [
        Block(note=match["note"] or "", language=match["language"], body=match["body"])
        for match in _BLOCK.finditer(text)
    ]


def readme() -> str:
    return README.read_text(encoding="utf-8")


def every_block() -> list[Block]:
    """The blocks of all pages."""
    return [block for page in PAGES.values() for block in blocks(page.read_text(encoding="utf-8"))]


def commands(block: Block) -> list[str]:
    """The lines after ``$``, with the lines that they continue on."""
    return re.findall(r"^\$ ((?:.*\\\n)*.*)$", block.body, re.MULTILINE)


def is_run(block: Block) -> bool:
    if block.language != "console" or block.body.startswith("$ make"):
        return False
    if block.note == NEEDS_NO_GPU:
        return not torch.cuda.is_available()
    return not block.note.startswith("needs ") or shutil.which(block.note.removeprefix("needs ")) is not None


def transcript(block: Block, folder: Path, cache: Path, programs: Path) -> str:
    """What a terminal shows when the block's commands are typed in ``folder`` by somebody with that ``cache``, whose
    ``PATH`` begins with ``programs``."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("FUSEBUILD_")}
    path = os.pathsep.join((str(programs), str(INSTALLED), environ["PATH"]))
    environ |= {"PATH": path, "NO_COLOR": "1", "FUSEBUILD_CACHE_DIR": str(cache)}
    shown = ""
    for command in commands(block):
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600,
        )  # fmt: skip
        shown += f"$ {command}\n{done.stdout.replace(f'{folder}/', '')}"
    return shown


def rendered(note: str) -> str:
    """The kernel that ``note`` names."""
    recipe, variant = note.removeprefix("kernel: ").split()
    planned = plan_recipe(read_recipes([ROOT / recipe])[0], [target.find_target("sm_90")])
    (text,) = [
        kernel.text
        for kernel in planned.kernels["sm_90"].values()
        if kernel.text.splitlines()[0].endswith(f", variant {variant}")
    ]
    return text


def as_measured_here(text: str) -> str:
    """``text``; if it holds kernels that were tuned, as if with the compilers of this machine."""
    if '"toolchain": "' not in text:
        return text
    host = target.find_target("host")
    own = toolchain.find_toolchain([host]).digest_for(host)
    return re.sub(r'"toolchain": "\w+"', f'"toolchain": "{own}"', text)


def without_what_varies(text: str) -> str:
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    return text


@pytest.mark.parametrize("page", PAGES)
def test_commands_print_what_a_page_shows(
    page: str, tmp_path: Path, cache: Path, request: pytest.FixtureRequest
) -> None:
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    text = PAGES[page].read_text(encoding="utf-8")
    needs_new_processes = page == README.name or "LD_PRELOAD" in text
    programs = INSTALLED if needs_new_processes else forkserver.commands()
    if request.config.getoption("--update-golden"):
        cache = tmp_path.with_name(f"{tmp_path.name} cache")  # pages show what is compiled where nothing was before
    differences = []
    for block in blocks(text):
        if block.note.startswith("file: "):
            file = tmp_path / block.note.removeprefix("file: ")
            file.parent.mkdir(exist_ok=True)
            file.write_text(as_measured_here(block.body), encoding="utf-8")
        elif is_run(block):
            printed = transcript(block, tmp_path, cache, programs)
            if without_what_varies(printed) != without_what_varies(block.body):
                differences.append((block.body, printed))
    if request.config.getoption("--update-golden"):
        for shown, printed in differences:
            text = text.replace(f"```console\n{shown}```", f"```console\n{printed}```")
        PAGES[page].write_text(text, encoding="utf-8")
        return
    for shown, printed in differences:
        assert without_what_varies(printed) == without_what_varies(shown)


def test_kernels_shown_are_those_that_are_rendered(request: pytest.FixtureRequest) -> None:
    text = KERNELS.read_text(encoding="utf-8")
    shown = [block for block in every_block() if block.language == "cuda"]
    assert [block.note for block in shown] == [
        "kernel: recipes/silu_mul.yaml vec8_int32",
        "kernel: recipes/layernorm.yaml registers_vec8_int32",
    ]
    if request.config.getoption("--update-golden"):
        for block in shown:
            text = text.replace(f"```cuda\n{block.body}```", f"```cuda\n{rendered(block.note)}```")
        KERNELS.write_text(text, encoding="utf-8")
        return
    for block in shown:
        assert rendered(block.note) == block.body


@pytest.mark.parametrize("page", ["sizes", "fid_maps", "guards"])
def test_a_way_leads_through_what_is_there(page: str) -> None:
    text = (DOCS / "internals" / f"{page}.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+/\w+\.(?:py|cc))`(?:\s\(`(\w+)`\))?", text)
    assert len(named) >= 8
    for path, name in named:
        assert re.search(rf"\b{name}\b", (ROOT / "fusebuild" / path).read_text(encoding="utf-8")), (path, name)
    for name, path in re.findall(r"`(\w+)` \(`([\w/]+\.py)`\)", text):
        assert re.search(rf"\b{name}\b", (ROOT / "fusebuild" / path).read_text(encoding="utf-8")), (path, name)


def test_files_shown_are_the_repository_s() -> None:
    shown = [(block.note.removeprefix("file: "), block.body) for block in every_block() if "file: " in block.note]
    ours = [(name, body) for name, body in shown if (ROOT / name).is_file()]
    assert "recipes/layernorm.yaml" in dict(ours)
    for name, body in ours:
        assert body == (ROOT / name).read_text(encoding="utf-8"), name


def test_the_readme_is_short() -> None:
    assert len(readme().splitlines()) <= 280


def anchors(page: Path) -> set[str]:
    """What a link to a heading of ``page`` may name, as GitHub makes it."""
    headings = re.findall(r"^#+ (.*)$", _BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = _BLOCK.sub("", PAGES[page].read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)]+)\)", text):
        name, _, anchor = link.partition("#")
        if link.startswith("https://"):
            continue
        to = (PAGES[page].parent / name).resolve() if name else PAGES[page]
        assert to.exists(), link
        assert not anchor or anchor in anchors(to), link


@pytest.mark.parametrize("page", PAGES)
def test_files_and_folders_that_are_named_are_there(page: str) -> None:
    """Those of the repository, and those of the package without its name."""
    named = re.findall(r"`((\w+)/[\w./]*)`", _BLOCK.sub("", PAGES[page].read_text(encoding="utf-8")))
    for folder in (ROOT, ROOT / "fusebuild"):
        ours = {each.name for each in folder.iterdir() if each.is_dir() and each.name != "build"}
        assert [path for path, first in named if first in ours and not (folder / path).exists()] == []


def test_the_readme_leads_to_every_page() -> None:
    for page in PAGES:
        assert page == README.name or f"]({page})" in readme(), page


def test_commands_of_ci_jobs_and_hooks_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = []
    for block in every_block():
        if block.language == "yaml" and not block.note:
            assert isinstance(yaml.safe_load(block.body), dict)
            found += re.findall(r"(?:run|entry): fusebuild (\w+) (.*)", block.body)
    assert {verb for verb, _ in found} == {"check", "compile"}
    for verb, arguments in found:
        cli.commands[verb].make_context(verb, shlex.split(arguments))


def test_actions_are_pinned_by_commit() -> None:
    used = [use for block in every_block() for use in re.findall(r"uses: (\S+)(.*)", block.body)]
    assert used
    for action, comment in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" +# v\d+\.\d+\.\d+", comment), action


def test_every_verb_is_named_and_every_named_verb_exists() -> None:
    help_text = CliRunner().invoke(cli, ["--help"]).output
    for verb in cli.commands:
        assert re.search(rf"^  {verb} ", help_text, re.MULTILINE)
        assert f"`fusebuild {verb}" in readme() or f"$ fusebuild {verb}" in readme(), verb
    for page in PAGES.values():
        named = re.findall(r"(?:`|\$ )fusebuild ([a-z]+)", page.read_text(encoding="utf-8"))
        assert {*named} <= {*cli.commands}, page


def test_exit_codes_are_those_of_the_error_classes() -> None:
    text = (DOCS / "guide" / "command_line.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \|.*\| (`\w+`(?:, `\w+`)*) \|$", text, re.MULTILINE)
    shown = {name: int(code) for code, names in rows for name in re.findall(r"\w+", names)}
    classes = [each for each in vars(errors).values() if isinstance(each, type)]
    raised = {
        each.__name__: each.exit_code
        for each in classes
        if issubclass(each, errors.FusebuildError) and each not in (errors.FusebuildError, errors.LocatedError)
    }
    assert shown == raised


@pytest.mark.parametrize("page", ["README.md", "docs/guide/targets.md"])
def test_every_target_is_listed(page: str) -> None:
    text = PAGES[page].read_text(encoding="utf-8")
    assert [name for name in target.TARGETS if f"`{name}`" not in text] == []


def test_every_scheduler_is_listed() -> None:
    text = PAGES["docs/internals/segments.md"].read_text(encoding="utf-8")
    assert [each.name for each in FAMILIES if f"| `{each.name}` |" not in text] == []


def test_messages_of_missing_and_incoherent_toolchains(tmp_path: Path) -> None:
    with pytest.raises(errors.ToolchainError) as missing:
        cuda_toolkit.choose_nvcc([], needed=True)
    nvcc = compiler.Part(name="nvcc", path=Path("NVCC"), version="13.0.88")
    ptxas = compiler.Part(name="ptxas", path=Path("PTXAS"), version="13.5.12")
    cicc = compiler.Part(name="cicc", path=Path("CICC"), version="13.0.88")
    toolkit = cuda_toolkit.CudaToolkit(
        nvcc=nvcc, ptxas=ptxas, cicc=cicc, include=tmp_path, libdevice=tmp_path, architectures=()
    )
    unfit = next(problem for problem in cuda_toolkit.problems(toolkit) if "do not fit" in problem)
    for message in (str(missing.value), unfit):
        assert f"error: {message}\n" in PAGES["docs/troubleshooting.md"].read_text(encoding="utf-8")


def test_the_new_op_of_the_docs_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = blocks(EXTENDING.read_text(encoding="utf-8"))
    (line,) = [block.body for block in shown if block.body.startswith("_unary(")]
    new = eval(line.strip().rstrip(","), dict(vars(ops)))
    assert new.name not in ops.OPS
    monkeypatch.setitem(ops.OPS, new.name, new)
    recipe = tmp_path / "with_new_op.yaml"
    recipe.write_text(
        f"fusion: cubes\ninputs:\n  x: float[M, N]\nbody: |\n  y = {new.name}(x)\noutputs:\n  y: float\n"
        "cases:\n  - {M: 3, N: 65}\n"
    )
    compile_recipes([recipe], [target.find_target("host")], tmp_path / "build")
    verdicts = list(verify_artifact(tmp_path / "build" / "cubes.fuse", target="host"))
    assert verdicts
    assert all(verdict.ok for verdict in verdicts)
