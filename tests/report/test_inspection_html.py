"""The page of an inspection: well formed, whole, self-contained, escaped; and that it works in a browser."""

from __future__ import annotations

import html
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from fusebuild.cli.main import cli
from fusebuild.errors import UsageError
from fusebuild.pipeline import plan_recipe
from fusebuild.planning.planned import PlannedRecipe
from fusebuild.recipe.recipe import Recipe, load_recipe
from fusebuild.report.html import render_page, shortened
from fusebuild.report.inspection import Inspection, bytes_text
from fusebuild.target.table import TARGETS
from support.places import FUSIONS, RECIPES, ROOT
from support.sampled import sampled
from support.small_recipes import PAIR, TINY, planned_file, recipe_of, text_of

VOID = {"meta", "link", "br", "hr", "img", "input"}


def stack(blocks: int) -> str:
    """A recipe of three segments for each of ``blocks``: residual edges, and edges that pass several segments."""
    inputs, outputs, lines = {"x": "bfloat16[M, N]"}, {}, ["h0 = cast(x, float)"]
    for each in range(blocks):
        inputs[f"weight_{each}"] = "bfloat16[N]"
        skip = f" + normed_{each - 3}" if each >= 3 and each % 3 == 0 else ""
        lines += [
            f"mean_{each} = segment_set(mean(h{each}, dims=[1], keepdim=True))",
            f"normed_{each} = segment_set((h{each} - mean_{each}) * weight_{each})",
            f"h{each + 1} = segment_set(h{each} + tanh(normed_{each}){skip})",
        ]
        if each % 4 == 1:
            lines.append(f"stat_{each} = sum(normed_{each}, dims=[0])")
            outputs[f"stat_{each}"] = "float"
    lines.append(f"y = h{blocks} * 2.0")
    return text_of(inputs, "\n".join(lines), outputs | {"y": "float"}, name="stack", cases="M: 8192, N: 4096")


def inspection_of(planned: PlannedRecipe) -> Inspection:
    cases = planned.recipe.fusion.cases
    return Inspection(plan=planned.plan, target="sm_90", sizes=cases[0] if cases else None)


def page_of(recipe: Recipe) -> str:
    return page_of_planned(planned_of(recipe))


def page_of_planned(planned: PlannedRecipe) -> str:
    return render_page(inspection_of(planned), planned.recipe.fusion)


def planned_of(recipe: Recipe) -> PlannedRecipe:
    return plan_recipe(recipe, [TARGETS["sm_90"]])


class Parsed(HTMLParser):
    """Tags with their attributes, the text between them, and whether each is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.problems: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.problems += [f"<{tag}> is not closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.problems.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def values(self, attribute: str) -> list[str]:
        return [named[attribute] or "" for _, named in self.tags if attribute in named]


@pytest.mark.parametrize("path", sampled([*RECIPES, *FUSIONS], 8), ids=lambda path: path.stem)
class TestEveryRecipe:
    def test_the_page_is_well_formed_and_needs_nothing_else(self, path: Path) -> None:
        parsed = Parsed(page_of_planned(planned_file(path)))
        assert parsed.problems == []
        ids = parsed.values("id")
        assert len(ids) == len(set(ids))
        assert {href for href in parsed.values("href") if href != "data:,"} <= {f"#{id}" for id in ids}
        assert {*parsed.values("data-for")} <= {*ids}
        assert parsed.values("src") == []
        assert "undefined" not in parsed.text

    def test_everything_in_the_report_is_on_the_page(self, path: Path) -> None:
        planned = planned_file(path)
        report = inspection_of(planned).report
        parsed = Parsed(page_of_planned(planned))
        text = parsed.text
        for segment in report.segments:
            assert {f"segment-{segment.id}"} <= {*parsed.values("id")} & {*parsed.values("data-for")}
            assert bytes_text(segment.hbm_bytes, segment.hbm_bytes_formula) in text
            for why in segment.why:
                cut, _, reasons = why.partition(": ")
                assert all(part in text for part in (cut, *reasons.split("; ")))
            assert all(kernel in text for kernel in segment.kernels)
            assert all(guard in text for variant in segment.variants for guard in variant.guard)
        for boundary in report.boundaries:
            assert f"%{boundary.fid} {boundary.name}" in text
            assert f"{boundary.dtype}[{', '.join(boundary.shape)}]" in text
            assert bytes_text(boundary.bytes, boundary.bytes_formula) in text
        drawn = [named["data-for"] for tag, named in parsed.tags if str(named.get("class", "")).startswith("edge")]
        assert drawn == [f"tensor-{boundary.fid}" for boundary in report.boundaries]


class TestContent:
    def test_totals_and_doc(self) -> None:
        recipe = recipe_of(text_of({"x": "float[M, N]"}, "a = sum(x, dims=[1])\ny = segment_set(a) * 2.0",
                                   {"y": "float"}, cases="M: 1024, N: 4096"))  # fmt: skip
        text = Parsed(page_of(recipe)).text
        assert "test on sm_90" in text
        assert "sizes M = 1024, N = 4096 segments 2" in text
        assert "boundaries 1, 4.1 kB" in text
        assert "read and written 16.8 MB" in text
        assert "Nothing much." in Parsed(page_of(recipe_of(TINY))).text

    def test_without_a_case_sizes_are_formulas(self) -> None:
        text = Parsed(page_of(recipe_of(text_of({"x": "float[M, N]"}, "y = -x", {"y": "float"})))).text
        assert "sizes no case" in text
        assert "read and written 8*M*N B" in text
        assert "reads and writes 8*M*N bytes" in text

    def test_one_segment_has_no_boundaries(self) -> None:
        assert "None: one segment computes everything" in Parsed(page_of(recipe_of(TINY))).text

    def test_a_view_says_whose_memory_it_shares(self) -> None:
        body = "a = sum(x, dims=[1])\nv = segment_set(broadcast(a, is_broadcast_dim=[False, True]))\n"
        page = page_of(recipe_of(text_of({"x": "float[M, N]"}, body + "y = segment_set(v) + x", {"y": "float"})))
        text = Parsed(page).text
        assert "no memory of its own" in text
        assert "shares the memory of" in text

    def test_what_is_computed_again_is_named(self) -> None:
        recipe = recipe_of(stack(2))
        segments = inspection_of(planned_of(recipe)).segments
        again = {fid for each in segments for fid in each.rematerialized}
        assert again
        text = Parsed(page_of(recipe)).text
        assert all(f"%{fid} {recipe.fusion.value(fid).name}" in text for fid in again)

    def test_thicker_edges_have_more_bytes(self) -> None:
        body = "a = segment_set(sum(x, dims=[1]))\nb = segment_set(x * 2.0)\ny = b + broadcast(a, is_broadcast_dim="
        recipe = recipe_of(text_of({"x": "float[M, N]"}, body + "[False, True])", {"y": "float"}, cases="M: 8, N: 64"))
        parsed = Parsed(page_of(recipe))
        widths = {style for tag, named in parsed.tags if tag == "path" and (style := named.get("style"))}
        assert "stroke-width: 7.0px" in widths
        assert len(widths) == 2

    def test_equal_plans_give_equal_pages(self) -> None:
        assert page_of(recipe_of(stack(3))) == page_of(recipe_of(stack(3)))

    @pytest.mark.parametrize(
        ("text", "want"),
        [("short", "short"), ("x" * 30, "x" * 30), ("a" * 20 + "b" * 20, "a" * 14 + "…" + "b" * 14)],
    )
    def test_long_texts_are_cut_in_the_middle(self, text: str, want: str) -> None:
        assert shortened(text) == want


EVIL = "</style></script><script>alert(1)</script>\"'&"


def test_names_and_docs_are_text() -> None:
    recipe = recipe_of(PAIR)
    inspection = inspection_of(planned_of(recipe))
    plan = inspection.plan
    plan = msgspec.structs.replace(
        plan,
        fusion=EVIL,
        values=tuple(msgspec.structs.replace(value, name=EVIL + str(value.fid)) for value in plan.values),
        targets=tuple(
            msgspec.structs.replace(
                target,
                segments=tuple(msgspec.structs.replace(each, why=(f"{EVIL}: {EVIL}",)) for each in target.segments),
            )
            for target in plan.targets
        ),
    )
    fusion = recipe.fusion.__class__(**{
        name: getattr(recipe.fusion, name) for name in ("name", "values", "exprs", "inputs", "outputs", "recorded")
    }, doc=EVIL)  # fmt: skip
    page = render_page(Inspection(plan=plan, target="sm_90", sizes=None), fusion)
    parsed = Parsed(page)
    assert parsed.problems == []
    assert [tag for tag, _ in parsed.tags].count("script") == 1
    assert [tag for tag, _ in parsed.tags].count("style") == 1
    assert "<script>alert" not in page
    assert page.count(html.escape(EVIL).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")) > 10
    assert EVIL in parsed.text


class TestCommand:
    def test_a_page_is_written(self, tmp_path: Path) -> None:
        page = tmp_path / "made" / "page.html"
        done = CliRunner().invoke(cli, ["inspect", str(ROOT / "recipes" / "softmax.yaml"), "--html", str(page)])
        assert (done.exit_code, done.output) == (0, "")
        assert page.read_text(encoding="utf-8") == page_of(load_recipe(ROOT / "recipes" / "softmax.yaml"))

    def test_a_page_shows_one_target(self, tmp_path: Path) -> None:
        recipe = str(ROOT / "recipes" / "softmax.yaml")
        done = CliRunner().invoke(cli, ["inspect", recipe, "--arch", "sm_80,host", "--html", str(tmp_path / "x.html")])
        assert isinstance(done.exception, UsageError)
        assert str(done.exception) == "a page shows one target, not sm_80, host: name one with --arch"
        assert not (tmp_path / "x.html").exists()

    def test_where_nothing_can_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        target = tmp_path / "file" / "page.html"
        recipe = str(ROOT / "recipes" / "softmax.yaml")
        done = CliRunner().invoke(cli, ["inspect", recipe, "--html", str(target)])
        assert isinstance(done.exception, UsageError)
        assert str(done.exception).startswith(f"cannot write {target}: ")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium; skips where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as started:
        installed = [
            started.chromium.executable_path,
            *map(shutil.which, ("chromium", "chromium-browser", "google-chrome")),
        ]
        found = [path for path in installed if path and Path(path).exists()]
        if not found:
            pytest.skip("needs Chromium: playwright install chromium")
        made = started.chromium.launch(executable_path=found[0], args=["--no-sandbox"])
        yield made
        made.close()


class TestBrowser:
    @pytest.fixture
    def opened(self, browser: Any, tmp_path: Path) -> Iterator[Any]:
        """The page of a stack of 40 segments and more; what the browser complains about fails the test."""
        path = tmp_path / "stack.html"
        path.write_text(page_of(recipe_of(stack(14))), encoding="utf-8")
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.extend([request.url] * (request.url != path.as_uri())))
        page.goto(path.as_uri())
        yield page
        page.close()
        assert complaints == []

    def test_choosing_a_segment_shows_its_details(self, opened: Any) -> None:
        assert opened.locator(".box").count() >= 40
        assert opened.locator(".details:visible").count() == 0
        opened.locator('.box[data-for="segment-3"]').click()
        (shown,) = opened.locator(".details:visible").all()
        assert shown.get_attribute("id") == "segment-3"
        assert "cut from segment" in shown.inner_text()
        opened.locator('.box[data-for="segment-41"]').click()
        assert opened.locator("#segment-41").is_visible()
        assert not opened.locator("#segment-3").is_visible()

    def test_choosing_an_edge_or_a_row_of_the_table(self, opened: Any) -> None:
        opened.locator(".label text").first.click()
        first = opened.locator(".details:visible").get_attribute("id")
        assert first.startswith("tensor-")
        opened.locator(".boundaries td:first-child a").nth(5).click()
        assert opened.locator(".details:visible").get_attribute("id") not in (None, first)
        assert opened.locator(".edge.chosen").count() == 1

    def test_the_keyboard_chooses_too(self, opened: Any) -> None:
        opened.locator('.box[data-for="segment-2"]').focus()
        opened.keyboard.press("Enter")
        opened.locator("#segment-2").wait_for()  # the page answers to its new address, a moment after the key
        assert opened.locator("#segment-2").is_visible()

    def test_zooming(self, opened: Any) -> None:
        width = opened.locator("#graph").bounding_box()["width"]
        opened.locator("#larger").click()
        assert opened.locator("#graph").bounding_box()["width"] == pytest.approx(width * 1.25, abs=2)
        opened.locator("#fit").click()
        fitted = opened.locator("#graph").bounding_box()["width"]
        assert fitted <= opened.locator(".scroll").bounding_box()["width"]

    def test_no_text_leaves_its_box(self, opened: Any) -> None:
        outside = opened.evaluate("""() => [...document.querySelectorAll(".box, .node")].filter((each) => {
            const room = each.querySelector("rect").getBBox();
            return [...each.querySelectorAll("text")].some((text) => {
                const box = text.getBBox();
                return box.x < room.x || box.x + box.width > room.x + room.width + 0.5;
            });
        }).map((each) => each.textContent.trim())""")
        assert outside == []

    def test_dark_and_light(self, opened: Any) -> None:
        backs = []
        for scheme in ("light", "dark"):
            opened.emulate_media(color_scheme=scheme)
            backs.append(opened.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert backs == ["rgb(255, 255, 255)", "rgb(20, 23, 27)"]
