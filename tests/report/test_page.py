"""The page in a real browser: what it shows, beside Python's data, and what keys and clicks do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Page
from tests.report import models
from tests.report.browser import chromium

from executorch_ggml.report import Measured, Report, report_of, to_html
from executorch_ggml.report.model import Edge, Kind, Method, Node
from executorch_ggml.report.origins import origins_of_model


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with ExitStack() as stack:
        try:
            browser = stack.enter_context(chromium())
        except FileNotFoundError as error:
            pytest.skip(str(error))
        yield browser


@pytest.fixture(scope="module")
def report(program: Path) -> Report:
    """With times and errors that are easy to add up."""
    origins = {"forward": origins_of_model(torch.export.export(*models.build()))}
    ids = [node.id for node in report_of(program, memory=False).methods[0].calls]
    times = {id_: 10.0 * (number + 1) for number, id_ in enumerate(ids)}
    errors = {id_: 1e-7 * (number + 1) for number, id_ in enumerate(ids)}
    return report_of(program, origins, {"forward": Measured(times, sum(times.values()), errors)})


@pytest.fixture
def page(browser: Browser, report: Report, tmp_path: Path) -> Iterator[Page]:
    yield from _opened(browser, report, tmp_path)


@pytest.fixture(scope="module")
def seen(browser: Browser, report: Report, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page for tests that look and do not touch."""
    yield from _opened(browser, report, tmp_path_factory.mktemp("seen"))


def _opened(browser: Browser, report: Report, folder: Path) -> Iterator[Page]:
    """The page; fails where it asks for anything, or says anything on the console."""
    path = folder / "report.html"
    path.write_text(to_html(report), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if request.url.startswith("http") else None)
    page.goto(path.as_uri())
    yield page
    page.close()
    assert said == []


def _shown(page: Page) -> set[str]:
    return set(page.evaluate("graph.cy.nodes().map((node) => node.id())"))


def test_facts_are_those_of_the_data(seen: Page, report: Report) -> None:
    (method,) = report.methods
    kinds = [node.kind for node in method.calls]
    facts = dict(
        seen.evaluate(
            "[...document.querySelectorAll('#facts div')].map((d) => [d.dataset.fact, d.lastChild.textContent])"
        )
    )
    assert facts["in ggml"] == str(kinds.count(Kind.GGML))
    assert facts["outside"] == str(kinds.count(Kind.OUTSIDE)) == "2"
    total = sum(weight.bytes for weight in method.weights)
    assert facts["weights"] == f"{total / 1024:.3g} KiB"
    assert facts["a run"] == f"{method.microseconds:.1f} µs"


def test_all_nodes_of_a_small_graph_are_shown(seen: Page, report: Report) -> None:
    (method,) = report.methods
    assert {node.id for node in method.nodes} <= _shown(seen)
    assert seen.evaluate("graph.cy.edges().length") == len({(edge.source, edge.target) for edge in method.edges})
    boxes = seen.evaluate(
        "graph.cy.nodes(':childless').map((n) => n.boundingBox({includeLabels: false, includeEdges: false}))"
    )
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a["x2"] <= b["x1"] or b["x2"] <= a["x1"] or a["y2"] <= b["y1"] or b["y2"] <= a["y1"]


def test_delegated_and_outside_differ_in_colour(seen: Page, report: Report) -> None:
    (method,) = report.methods
    colours: dict[Kind, set[str]] = {}
    for node in method.calls:
        colour = seen.evaluate("(id) => graph.cy.getElementById(id).style('background-color')", node.id)
        colours.setdefault(node.kind, set()).add(colour)
    (ggml,), (outside,) = colours[Kind.GGML], colours[Kind.OUTSIDE]
    assert ggml != outside


def test_modules_close_and_open(page: Page, report: Report) -> None:
    page.click("#collapse-all")
    closed = _shown(page)
    assert "module:layers" in closed
    assert not any(node.id in closed for node in report.methods[0].nodes if node.module.startswith("layers."))
    place = page.evaluate("graph.cy.getElementById('module:layers').renderedPosition()")
    box = page.locator("#cy").bounding_box()
    assert box is not None
    page.mouse.dblclick(box["x"] + place["x"], box["y"] + place["y"])
    assert "module:layers.0" in _shown(page)
    page.click("#expand-all")
    assert {node.id for node in report.methods[0].nodes} <= _shown(page)


def test_zoom_by_buttons_keys_and_wheel(page: Page) -> None:
    def zoom() -> float:
        return float(page.evaluate("graph.cy.zoom()"))

    before = zoom()
    page.click("#zoom-in")
    assert zoom() > before
    page.focus("#cy")
    page.keyboard.press("-")
    assert zoom() == pytest.approx(before)
    page.hover("#cy")
    page.mouse.wheel(0, -200)
    page.wait_for_function("(before) => graph.cy.zoom() > before", arg=before)


def test_search_by_keyboard_finds_a_node_in_a_closed_module(page: Page) -> None:
    page.click("#collapse-all")
    page.keyboard.press("/")
    page.keyboard.type("linear layers.1.down")
    page.keyboard.press("Enter")
    (hit,) = page.evaluate("graph.cy.nodes('.hit').map((node) => node.data('node').module)")
    assert hit == "layers.1.down"
    details = page.inner_text("#details")
    assert "models.py:" in details
    assert "f32[2, 16]" in details
    center = page.evaluate("graph.cy.nodes('.hit')[0].renderedPosition()")
    size = page.locator("#cy").bounding_box()
    assert size is not None
    assert center["x"] == pytest.approx(size["width"] / 2, abs=3)
    assert center["y"] == pytest.approx(size["height"] / 2, abs=3)


def test_search_for_nothing_says_so(page: Page) -> None:
    page.fill("#search", "no such node")
    assert page.inner_text("#found") == "nothing found"


def test_hover_shows_shape_type_and_line(page: Page, report: Report) -> None:
    add = next(node for node in report.methods[0].nodes if node.op == "add")
    page.evaluate("(id) => { goTo(id); }", add.id)
    place = page.evaluate("(id) => graph.cy.getElementById(id).renderedPosition()", add.id)
    box = page.locator("#cy").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + place["x"] - 3, box["y"] + place["y"])
    page.mouse.move(box["x"] + place["x"], box["y"] + place["y"])
    tip = page.inner_text("#tip")
    assert add.result in tip
    assert add.source in tip


def test_what_stayed_outside_and_its_cost(seen: Page, report: Report) -> None:
    rows = seen.evaluate(
        "[...document.querySelectorAll('#outside tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    )
    assert [row[0] for row in rows] == [row.op for row in report.methods[0].refusals]
    for shown, row in zip(rows, report.methods[0].refusals, strict=True):
        assert row.reason == shown[1]
        assert f"{row.boundary_bytes} B" == shown[4]
        assert f"{row.microseconds:.1f} µs" == shown[3]


def test_times_add_up(page: Page, report: Report) -> None:
    (method,) = report.methods
    rows = page.evaluate(
        "[...document.querySelectorAll('#time-by-op tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    )
    linear = sum(node.microseconds or 0 for node in method.calls if node.op == "linear")
    assert next(row[3] for row in rows if row[0] == "linear") == f"{linear:.1f} µs"
    assert sum(float(row[4].removesuffix(" %")) for row in rows) == pytest.approx(100, abs=1)
    page.select_option("#colour", "time")
    slowest = max(method.calls, key=lambda node: node.microseconds or 0)
    colours = page.evaluate("graph.cy.nodes(':childless').map((n) => [n.id(), n.data('colour')])")
    assert [id_ for id_, colour in colours if colour == dict(colours)[slowest.id]] == [slowest.id]


def test_memory_is_drawn_by_arena(page: Page, report: Report) -> None:
    for number, arena in enumerate(report.methods[0].arenas):
        page.select_option("#arena", str(number))
        assert page.locator("#arena-chart rect.block").count() == len(arena.blocks)


def test_weights_by_type(seen: Page, report: Report) -> None:
    rows = seen.evaluate(
        "[...document.querySelectorAll('#weights-by-type tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    )
    counts = {row[0]: int(row[1]) for row in rows}
    weights = report.methods[0].weights
    assert sum(counts.values()) == len(weights)
    assert counts["f32, matrix_blocks"] == sum(weight.storage == "matrix_blocks" for weight in weights)


def test_largest_error_is_first(page: Page, report: Report) -> None:
    worst = max(node.error or 0 for node in report.methods[0].calls)
    first = page.locator("#error-by-node tbody tr").first
    assert first.locator("td").nth(2).inner_text() == f"{worst:.2e}".replace("e-0", "e-").replace("e+0", "e+")
    first.locator("a").click()
    assert page.evaluate("graph.cy.nodes('.hit').length") == 1


def test_the_method_is_chosen(browser: Browser, report: Report, tmp_path: Path) -> None:
    (forward,) = report.methods
    decode = replace(forward, name="decode", nodes=forward.nodes[:3], edges=[], refusals=[])
    for page in _opened(browser, replace(report, methods=[forward, decode]), tmp_path):
        assert page.locator("#method option").all_text_contents() == ["forward", "decode"]
        page.select_option("#method", label="decode")
        assert page.locator("[data-fact='in ggml'] dd").text_content() == "2"
        assert page.evaluate("report.method.name") == "decode"


def test_dark_and_light(page: Page) -> None:
    """The page follows the system's scheme while it is open: the graph too, once it hears of the change."""
    colour = "graph.cy.getElementById('d0.0').style('background-color')"
    light = page.evaluate(colour)
    light_page = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"(light) => {colour} !== light", arg=light)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light_page
    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"(light) => {colour} === light", arg=light)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light_page


def test_two_thousand_nodes_open_with_few_shown(browser: Browser, tmp_path: Path) -> None:
    for page in _opened(browser, _large(2000), tmp_path):
        assert page.evaluate("graph.cy.nodes(':childless').length") <= 150
        page.fill("#search", "layers.123.act")
        page.keyboard.press("Enter")
        assert page.evaluate("graph.cy.nodes('.hit')[0].data('node').module") == "layers.123.act"


@pytest.mark.slow  # a time, which a busy machine makes longer
def test_two_thousand_nodes_open_within_seconds(browser: Browser, tmp_path: Path) -> None:
    for page in _opened(browser, _large(2000), tmp_path):
        assert page.evaluate("graph.milliseconds") < 3000


def _large(count: int) -> Report:
    """A chain of layers of four nodes, each with a way around it."""
    nodes = [Node("in0", Kind.INPUT, "input", "input 0")]
    edges = []
    parts = ("norm", "up", "act", "")
    for i in range(count):
        name = f"layers.{i // 4}" + (f".{parts[i % 4]}" if parts[i % 4] else "")
        nodes.append(Node(f"d0.{i}", Kind.GGML, "op", f"aten_{i}", "delegate 0", name, result="f32[1, 8]"))
        edges.append(Edge(nodes[-2].id, nodes[-1].id, "f32[1, 8]"))
        if i % 4 == 3:
            edges.append(Edge(nodes[-5].id, nodes[-1].id, "f32[1, 8]"))
    return Report("large.pte", 0, "", [Method("forward", [], nodes, edges, [], [], [])], [])
