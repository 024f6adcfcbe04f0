"""PT2E quantization with the configurations that the int8 kernels run.

Layers are annotated by ExecuTorch's XNNPACK quantizer. What stands between them is annotated here: functions of one
tensor, sums and products of two, pooling and what moves elements stay integers where both sides are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    QuantPattern,
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationConfig,
    QuantizationSpec,
    QuantizationSpecBase,
    SharedQuantizationSpec,
)
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

aten = torch.ops.aten

_LAYERS = {"conv_bn_relu", "conv_bn", "conv_relu", "conv", "linear_relu", "linear"}
"""The patterns of ExecuTorch's quantizer that the int8 layers run."""

_CLAMPS = {
    *(aten.relu.default, aten.relu_.default, aten.relu6.default, aten.relu6_.default),
    *(aten.hardtanh.default, aten.hardtanh_.default, aten.clamp.default, aten.clamp_.default),
}
"""What becomes the bounds of the layer or sum before it."""

_FUNCTIONS = {
    *_CLAMPS,
    *(aten.hardswish.default, aten.hardswish_.default, aten.hardsigmoid.default, aten.hardsigmoid_.default),
    *(aten.sigmoid.default, aten.sigmoid_.default, aten.tanh.default, aten.tanh_.default),
    *(aten.silu.default, aten.silu_.default, aten.mish.default, aten.mish_.default),
    *(aten.gelu.default, aten.gelu_.default, aten.elu.default, aten.elu_.default),
    *(aten.leaky_relu.default, aten.leaky_relu_.default, aten.softplus.default),
    *(aten.neg.default, aten.abs.default),
}
"""Functions of one tensor: a table of 256 elements."""

_BINARY = {*(aten.add.Tensor, aten.add_.Tensor, aten.sub.Tensor, aten.sub_.Tensor, aten.mul.Tensor, aten.mul_.Tensor)}
"""One kernel where both operands are tensors; a function of one tensor where the other is a number."""

_AVERAGES = {aten.avg_pool2d.default, aten.adaptive_avg_pool2d.default, aten.mean.dim}
"""Summed in int32 and rounded once, to a grid of their own."""

_MOVEMENT = {
    *(aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.unflatten.int),
    *(aten.permute.default, aten.transpose.int, aten.t.default, aten.contiguous.default, aten.clone.default),
    *(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default),
    *(aten.slice.Tensor, aten.select.int, aten.flip.default, aten.roll.default, aten.expand.default),
    *(aten.repeat.default, aten.pixel_shuffle.default, aten.pixel_unshuffle.default, aten.channel_shuffle.default),
    *(aten.max_pool2d.default, aten.upsample_nearest2d.vec, aten.upsample_nearest2d.default),
    *(aten.dropout.default, aten.dropout_.default),
}
"""What gives some of the elements of one tensor, or the largest ones: on the same grid."""

_KWARGS = {"approximate", "min", "max", "keepdim"}
"""Keyword arguments that leave an op what it is."""


def int8_config(
    *, per_channel: bool = True, symmetric: bool = False, dynamic: bool = False, qat: bool = False
) -> QuantizationConfig:
    """A configuration that the int8 kernels run, for :class:`GgmlQuantizer`.

    Weights are int8 around 0, with one scale for each output channel, or one for all of a layer. Activations are int8
    with one scale a tensor: a zero point of their own, or 0 where they are ``symmetric``. Their scales come from
    calibration (static), from the tensor at run time (``dynamic``), or from training (``qat``).
    """
    config = get_symmetric_quantization_config(is_per_channel=per_channel, is_dynamic=dynamic, is_qat=qat)
    if not symmetric:
        return config
    activation = replace(config.input_activation, qscheme=torch.per_tensor_symmetric, quant_min=-127)
    output = None if config.output_activation is None else activation
    return replace(config, input_activation=activation, output_activation=output)


class GgmlQuantizer(XNNPACKQuantizer):
    """A quantizer for PT2E (``prepare_pt2e``, ``prepare_qat_pt2e``) whose models compute in int8 in ggml.

    ``config`` is for the whole model; ``set_module_name``, ``set_module_type``, ``set_operator_type`` and
    ``set_filter_function``, as ExecuTorch's quantizer has them, say it for parts. With a static configuration a layer
    whose result only floats read (a norm, attention, the model's output) gives floats, which loses nothing.
    """

    def __init__(self, config: QuantizationConfig | None = None) -> None:
        super().__init__()
        self.set_global(int8_config() if config is None else config)

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """The model as it is: numbers beside a tensor are part of its table."""
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        # Looking for batch norms, which only training has left in the graph, takes seconds.
        self.SUPPORTED_PATTERNS = [
            pattern for pattern in XNNPACKQuantizer.SUPPORTED_PATTERNS if self._is_pattern_of_layers(pattern)
        ]
        model = self._annotate_for_quantization_config(model)
        for node in model.graph.nodes:
            if node.op == "call_function" and not _is_annotated(node) and self._is_chosen(node):
                _annotate_between(node)
        for node in reversed(model.graph.nodes):
            _leave_floats(node)
        return model

    def _is_pattern_of_layers(self, pattern: QuantPattern) -> bool:
        configs = (
            self.global_config,
            *self.operator_type_config.values(),
            *self.module_type_config.values(),
            *self.module_name_config.values(),
        )
        is_qat = any(config is not None and config.is_qat for config in configs)
        return pattern.name in _LAYERS and (is_qat or "_bn" not in pattern.name)

    def _is_chosen(self, node: Node) -> bool:
        return self.filter_fn is None or self.filter_fn(node)


def _annotation(node: Node) -> QuantizationAnnotation | None:
    annotation: QuantizationAnnotation | None = node.meta.get(Q_ANNOTATION_KEY)
    return annotation


def _is_annotated(node: Node) -> bool:
    annotation = _annotation(node)
    return annotation is not None and annotation._annotated


def _output_spec(node: Any) -> QuantizationSpec | None:
    """How the integers of a node are made; None where its result is floats."""
    annotation = _annotation(node) if isinstance(node, Node) else None
    spec: QuantizationSpecBase | None = None if annotation is None else annotation.output_qspec
    while isinstance(spec, SharedQuantizationSpec):
        source = spec.edge_or_node
        spec = _output_spec(source if isinstance(source, Node) else source[0])
    return spec


def _annotate_between(node: Node) -> None:
    """Annotate a node that is no layer, where what it reads is on a grid."""
    annotator = _ANNOTATORS.get(cast("Callable[..., Any]", node.target))
    if annotator is not None and _is_float32(node) and not node.kwargs.keys() - _KWARGS:
        annotator(node)


def _is_float32(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def _tensors_of(node: Node) -> Iterator[Node]:
    first = node.args[0]
    yield from node.all_input_nodes if not isinstance(first, (list, tuple)) else cast("list[Node]", first)


def _mark(node: Node, output: QuantizationSpecBase) -> None:
    """Annotate a node and what it reads, each on the grid that it has."""
    inputs: dict[Node, QuantizationSpecBase | None] = {each: _output_spec(each) for each in _tensors_of(node)}
    node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(inputs, output, _annotated=True)


def _clamp(node: Node) -> None:
    """The bounds of the layer or sum before it, which then is rounded after them; else a function."""
    (x,) = node.all_input_nodes
    before, spec = _annotation(x), _output_spec(x)
    if before is None or spec is None:
        return
    is_bounded = x.target in _MOVEMENT or x.target in _FUNCTIONS - _CLAMPS or x.target in _AVERAGES
    if is_bounded or len(x.users) > 1 or not isinstance(before.output_qspec, QuantizationSpec):
        _function(node)
        return
    before.output_qspec = None
    node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation({}, spec, _annotated=True)


def _function(node: Node) -> None:
    (x,) = node.all_input_nodes
    if (spec := _output_spec(x)) is not None:
        _mark(node, spec)


def _movement(node: Node) -> None:
    x = node.args[0]
    if isinstance(x, Node) and node.all_input_nodes == [x] and _output_spec(x) is not None:
        shared = SharedQuantizationSpec(x)
        node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation({x: shared}, shared, _annotated=True)


def _binary(node: Node) -> None:
    """A function of the tensors that a node reads, where all are on a grid."""
    specs = [_output_spec(each) for each in _tensors_of(node)]
    if specs and specs[0] is not None and None not in specs:
        _mark(node, specs[0])


_ANNOTATORS: dict[Callable[..., Any], Callable[[Node], None]] = {
    **dict.fromkeys(_FUNCTIONS, _function),
    **dict.fromkeys(_CLAMPS, _clamp),
    **dict.fromkeys(_AVERAGES, _function),
    **dict.fromkeys(_MOVEMENT, _movement),
    **dict.fromkeys(_BINARY, _binary),
    aten.cat.default: _binary,
}


def _reads_integers(reader: Node, node: Node) -> bool:
    annotation = _annotation(reader)
    return annotation is not None and annotation.input_qspec_map.get(node) is not None


def _leave_floats(node: Node) -> None:
    """Drop the rounding of a result that nothing reads as integers."""
    annotation = _annotation(node)
    if annotation is None or annotation.output_qspec is None or any(_reads_integers(user, node) for user in node.users):
        return
    if node.target in _ANNOTATORS:
        del node.meta[Q_ANNOTATION_KEY]
    else:
        annotation.output_qspec = None
