"""What a report says of a program, beside what the program was made of."""

import json
import re
from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from tests.report import models
from torch import nn

import executorch_ggml
from executorch_ggml import GgmlPartitioner
from executorch_ggml.cli import main
from executorch_ggml.profiling.records import NodeProfile, Profile
from executorch_ggml.report import Measured, Report, as_plain, report_of, times_of, to_html
from executorch_ggml.report.errors import layer_errors, node_names
from executorch_ggml.report.model import Kind, Method
from executorch_ggml.report.origins import eager_values, origins_of_etrecord, origins_of_model


@pytest.fixture(scope="module")
def method(program: Path) -> Method:
    (only,) = report_of(program).methods
    return only


def _of(method: Method, kind: Kind) -> list[str]:
    return [node.op for node in method.nodes if node.kind == kind]


def test_nodes_are_where_they_run(method: Method) -> None:
    assert _of(method, Kind.OUTSIDE) == ["aten::cumsum.out", "aten::div.out"]
    assert _of(method, Kind.GGML).count("linear") == 5
    assert {node.part for node in method.nodes if node.kind == Kind.GGML} == {"delegate 0", "delegate 1"}


def test_edges_lead_from_the_input_to_the_output(method: Method) -> None:
    reached = {"in0"}
    for edge in method.edges:  # in the order of computation
        if edge.source in reached:
            reached.add(edge.target)
    assert reached == {node.id for node in method.nodes}
    cumsum, div = (node.id for node in method.nodes if node.kind == Kind.OUTSIDE)
    assert [edge.value for edge in method.edges if (edge.source, edge.target) == (cumsum, div)] == ["float64[2, 16]"]


def test_refusals_have_reasons_and_what_they_cost(method: Method) -> None:
    rows = {row.op: row for row in method.refusals}
    assert set(rows) == {"aten.cumsum.default", "aten.div.Tensor"}
    for row in rows.values():
        assert "float64" in row.reason
        assert row.count == len(row.nodes) == 1
        assert row.boundary_bytes >= 2 * 16 * 8


def test_weights_are_those_of_the_model(method: Method) -> None:
    model, _ = models.build()
    shapes = {name: tuple(value.shape) for name, value in model.named_parameters()}
    found = {weight.key.removesuffix(f".{weight.storage}"): weight for weight in method.weights}
    assert set(found) - set(shapes) == {"_lifted_tensor_constant0.f64"}  # what is divided by
    for name, shape in shapes.items():
        weight = found[name]
        assert weight.module == name.rpartition(".")[0]
        assert weight.shape == shape
        assert weight.bytes >= 4 * torch.Size(weight.shape).numel()
    assert found["layers.0.up.weight"].storage == "matrix_blocks"


def test_modules_come_from_the_weights_names(program: Path, method: Method) -> None:
    linear = [node.module for node in method.nodes if node.op == "linear"]
    assert linear == ["layers.0.up", "layers.0.down", "layers.1.up", "layers.1.down", "head"]
    assert any("names" in note for note in report_of(program).notes)


def test_an_etrecord_says_modules_types_and_lines(tmp_path: Path) -> None:
    model, inputs = models.build()
    edge = to_edge_transform_and_lower(
        torch.export.export(model, inputs), partitioner=[GgmlPartitioner()], generate_etrecord=True
    )
    lowered = edge.to_executorch()
    lowered.save(str(tmp_path / "model.pte"))
    lowered.get_etrecord().save(str(tmp_path / "model.etrecord"))
    _check_origins(report_of(tmp_path / "model.pte", origins_of_etrecord(tmp_path / "model.etrecord")))


def test_the_model_says_modules_types_and_lines(program: Path) -> None:
    origins = {"forward": origins_of_model(torch.export.export(*models.build()))}
    _check_origins(report_of(program, origins))


def _check_origins(report: Report) -> None:
    (method,) = report.methods
    assert not report.notes
    add = next(node for node in method.nodes if node.op == "add")
    assert (add.module, add.module_type) == ("layers.0", "Block")
    assert "models.py:" in add.source
    assert "return x + self.down" in add.source
    up = next(node for node in method.nodes if node.op == "linear")
    assert (up.module, up.module_type) == ("layers.0.up", "Linear")
    cumsum = next(node for node in method.nodes if node.kind == Kind.OUTSIDE)
    assert "cumsum" in cumsum.source


def test_what_is_no_etrecord_is_said(program: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no ETRecord"):
        origins_of_etrecord(program)
    with pytest.raises(FileNotFoundError, match="nothing"):
        origins_of_etrecord(tmp_path / "nothing")


def test_arenas_hold_what_passes_and_what_ggml_computes(method: Method) -> None:
    names = [arena.name for arena in method.arenas]
    assert names == ["ExecuTorch, memory 1", "ggml, delegate 0", "ggml, delegate 1"]
    for arena in method.arenas:
        assert arena.blocks
        assert all(0 <= block.first <= block.last < len(arena.steps) for block in arena.blocks)
        assert max(block.offset + block.size for block in arena.blocks) <= arena.bytes
    ids = {node.id for node in method.nodes}
    assert {block.node for block in method.arenas[1].blocks} <= ids


def test_planned_values_of_a_method_do_not_overlap(method: Method) -> None:
    for arena in method.arenas:
        for i, a in enumerate(arena.blocks):
            for b in arena.blocks[:i]:
                at_once = a.first <= b.last and b.first <= a.last
                assert not (at_once and a.offset < b.offset + b.size and b.offset < a.offset + a.size), (a, b)


def test_methods_and_states(tmp_path: Path) -> None:
    """Two inputs of largest sizes, and what the plan is for is said."""
    batch = torch.export.Dim("batch", max=8)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).eval()
    path = tmp_path / "model.pte"
    executorch_ggml.export(model, (torch.randn(2, 4),), dynamic_shapes=({0: batch},)).save(str(path))
    (method,) = report_of(path).methods
    (arena,) = [arena for arena in method.arenas if arena.name.startswith("ggml")]
    assert arena.sizes.endswith("=8")
    assert max(block.size for block in arena.blocks) == 8 * 4 * 4


def test_errors_begin_in_the_layer_that_differs(program: Path) -> None:
    changed, inputs = models.build()
    with torch.no_grad():
        changed.get_parameter("layers.1.up.weight").mul_(1.01)
    origins, values = eager_values(torch.export.export(changed, inputs), inputs)
    errors = {layer.id: layer.error for layer in layer_errors(program, values, inputs, "forward")}
    (method,) = report_of(program, {"forward": origins}, {"forward": Measured(errors=errors)}).methods
    found = {node.module: node.error for node in method.calls if node.op == "linear"}
    assert list(found) == ["layers.0.up", "layers.0.down", "layers.1.up", "layers.1.down", "head"]
    before, after = list(found.values())[:2], list(found.values())[2:4]
    assert all(error is not None and error < 1e-6 for error in before)
    assert all(error is not None and 1e-3 < error < 1e-1 for error in after)


@pytest.mark.parametrize("generate_etrecord", [False, True])
def test_errors_of_images_whose_channels_are_innermost_on_the_cpu(generate_etrecord: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 6, 3), nn.Flatten()]
    model, inputs = nn.Sequential(*layers, nn.Linear(6 * 8, 3)).eval(), (torch.randn(1, 3, 12, 8),)
    path = tmp_path / "model.pte"
    executorch_ggml.export(model, inputs, generate_etrecord=generate_etrecord).save(str(path))
    origins, values = eager_values(torch.export.export(model, inputs), inputs, node_names(path, "forward"))
    assert {origin.module for origin in origins.values()} == {str(number) for number in range(len(layers) + 1)}
    errors = {layer.id: layer.error for layer in layer_errors(path, values, inputs, "forward")}
    (method,) = report_of(path, memory=False).methods
    layers_ = [node.id for node in method.calls if node.op in {"conv_2d", "linear", "pool_2d"} or node.weights]
    assert len(layers_) >= 3
    assert all(errors[id_] < 1e-6 for id_ in layers_)


def test_times_of_a_profile_are_those_of_its_nodes(program: Path) -> None:
    ids = [node.id for node in report_of(program, memory=False).methods[0].calls]
    nodes = tuple(
        NodeProfile(*_place(id_), "", "", "own", "f32", (), "CPU", (), 5, 1000.0 * (i + 1), 0.0)
        for i, id_ in enumerate(ids)
    )
    profile = Profile("", "forward", 5, 2e6, 1e7, 1.5e6, (), nodes)
    (method,) = report_of(program, measured={"forward": times_of(profile)}, memory=False).methods
    assert [node.microseconds for node in method.calls] == [i + 1.0 for i in range(len(ids))]
    assert method.microseconds == 1500.0
    outside = [node.microseconds for node in method.calls if node.kind == Kind.OUTSIDE]
    assert sorted(row.microseconds or 0 for row in method.refusals) == outside


def _place(id_: str) -> tuple[int | None, int]:
    """The delegate and the number that an id has."""
    part, number = id_[1:].split(".")
    return int(part) if id_[0] == "d" else None, int(number)


def test_a_page_needs_nothing_else_and_closes_no_element(program: Path) -> None:
    report = report_of(program)
    report.methods[0].nodes[0].name = "</script><script>alert(1)</script>"
    page = to_html(report)
    assert page.count("</script>") == page.count("<script")
    assert not re.search(r'(src|href)="(?!#|data:)', page)
    assert len(page) < 2_000_000
    for library in ("cytoscape", "@dagrejs/dagre", "d3"):
        assert f"{library} " in page  # in the licences


def test_numbers_that_json_lacks_are_text(program: Path) -> None:
    report = report_of(program)
    report.methods[0].nodes[1].error = float("inf")
    plain = json.loads(json.dumps(as_plain(report), allow_nan=False))
    assert plain["methods"][0]["nodes"][1]["error"] == "inf"


def test_inspect_prints_json_and_dot(program: Path, method: Method, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(program), "--to", "json"]) == 0
    (printed,) = json.loads(capsys.readouterr().out)["methods"]
    assert [node["id"] for node in printed["nodes"]] == [node.id for node in method.nodes]
    assert main(["inspect", str(program), "--to", "dot"]) == 0
    dot = capsys.readouterr().out
    assert dot.startswith("digraph program {")
    assert dot.count(" -> ") == len(method.edges)
    assert dot.count("{") == dot.count("}")
    assert main(["inspect", str(program), "--to", "dot", "--summary"]) == 2


def test_report_is_written(program: Path, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "report.html"
    assert main(["report", str(program), "-o", str(output), "--against", model, "--profile", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["bytes"] == output.stat().st_size
    page = output.read_text()
    assert "layers.0.up" in page
    assert '"error":' in page
    assert "Errors add up" in page
    (method,) = json.loads(page.partition('id="data">')[2].partition("</script>")[0])["methods"]
    calls = [node for node in method["nodes"] if node["kind"] in ("ggml", "outside")]
    assert all(node["microseconds"] > 0 for node in calls if not node["joined_to"])
    times = {node["id"]: node["microseconds"] for node in calls}
    joined = [node for node in calls if node["joined_to"]]  # layers with a residual behind them
    assert joined
    assert all(node["microseconds"] is None and times[node["joined_to"]] > 0 for node in joined)
    assert method["microseconds"] > 0


@pytest.fixture(scope="module")
def two_methods(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose methods read one matrix, which is in a .ptd file."""
    folder = tmp_path_factory.mktemp("methods")
    linear = nn.Linear(64, 64, bias=False).eval()
    modules = {"forward": nn.Sequential(linear), "decode": nn.Sequential(linear, nn.ReLU())}
    exported = {name: torch.export.export(module, (torch.randn(2, 64),)) for name, module in modules.items()}
    edge = to_edge_transform_and_lower(exported, partitioner=[GgmlPartitioner(weights_file="weights")])
    program = edge.to_executorch()
    program.save(str(folder / "model.pte"))
    program.write_tensor_data_to_file(str(folder))
    return folder / "model.pte"


def test_weights_in_a_file_of_their_own_are_shown(two_methods: Path) -> None:
    assert two_methods.stat().st_size < 64 * 64 * 4
    for method in report_of(two_methods).methods:
        (weight,) = method.weights
        assert (weight.dtype, weight.shape) == ("f32", (64, 64))
        assert 64 * 64 * 4 <= weight.bytes <= 1.1 * 64 * 64 * 4  # in blocks, with room between them


def test_all_methods_are_measured_or_those_that_are_named(two_methods: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    command = ["report", str(two_methods), "-o", str(output), "--data", str(two_methods.with_name("weights.ptd"))]
    for options, measured in (([], {"forward", "decode"}), (["--method", "decode"], {"decode"})):
        assert main([*command, "--profile", *options]) == 0
        methods = json.loads(output.read_text().partition('id="data">')[2].partition("</script>")[0])["methods"]
        assert {method["name"] for method in methods if method["microseconds"]} == measured
    assert main([*command, "--method", "decode"]) == 2


def test_what_is_no_program_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(b"not a program")
    assert main(["report", str(path), "-o", str(tmp_path / "report.html")]) == 1
    assert "is not an ExecuTorch program" in capsys.readouterr().err
