"""The operators as methods. Generated from the operator table by generate.py; do not edit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from .data_types import DataType
from .operand import MLOperand


class Operators:
    """Every operator of the specification. Options are keyword arguments, ``label`` names the operation in errors."""

    def _add(self, name: str, operands: dict[str, Any], options: dict[str, Any], label: str) -> list[MLOperand]:
        raise NotImplementedError

    def abs(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Absolute value."""
        return self._add("abs", {"input": input}, {}, label)[0]

    def ceil(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Rounded up."""
        return self._add("ceil", {"input": input}, {}, label)[0]

    def cos(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Cosine."""
        return self._add("cos", {"input": input}, {}, label)[0]

    def erf(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Error function."""
        return self._add("erf", {"input": input}, {}, label)[0]

    def exp(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Exponential."""
        return self._add("exp", {"input": input}, {}, label)[0]

    def floor(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Rounded down."""
        return self._add("floor", {"input": input}, {}, label)[0]

    def identity(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """The same values."""
        return self._add("identity", {"input": input}, {}, label)[0]

    def log(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Natural logarithm."""
        return self._add("log", {"input": input}, {}, label)[0]

    def neg(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``-x``."""
        return self._add("neg", {"input": input}, {}, label)[0]

    def reciprocal(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``1 / x``."""
        return self._add("reciprocal", {"input": input}, {}, label)[0]

    def round_even(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Rounded, halves to the even neighbour."""
        return self._add("round_even", {"input": input}, {}, label)[0]

    def sin(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Sine."""
        return self._add("sin", {"input": input}, {}, label)[0]

    def sign(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """-1, 0 or 1; 0 for NaN."""
        return self._add("sign", {"input": input}, {}, label)[0]

    def sqrt(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Square root."""
        return self._add("sqrt", {"input": input}, {}, label)[0]

    def tan(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Tangent."""
        return self._add("tan", {"input": input}, {}, label)[0]

    def cast(self, input: MLOperand, data_type: DataType, *, label: str = "") -> MLOperand:
        """The values as another data type.

        Floats lose their fraction on the way to integers; integers that do not fit keep their lowest bits.
        """
        return self._add("cast", {"input": input}, {"data_type": data_type}, label)[0]

    def gelu(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``0.5 * x * (1 + erf(x / sqrt(2)))``."""
        return self._add("gelu", {"input": input}, {}, label)[0]

    def hard_swish(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``x * max(0, min(6, x + 3)) / 6``."""
        return self._add("hard_swish", {"input": input}, {}, label)[0]

    def relu(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``max(0, x)``."""
        return self._add("relu", {"input": input}, {}, label)[0]

    def sigmoid(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``1 / (exp(-x) + 1)``."""
        return self._add("sigmoid", {"input": input}, {}, label)[0]

    def softplus(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``log(1 + exp(x))``."""
        return self._add("softplus", {"input": input}, {}, label)[0]

    def softsign(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``x / (1 + abs(x))``."""
        return self._add("softsign", {"input": input}, {}, label)[0]

    def tanh(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Hyperbolic tangent."""
        return self._add("tanh", {"input": input}, {}, label)[0]

    def elu(self, input: MLOperand, *, alpha: float = 1.0, label: str = "") -> MLOperand:
        """``max(0, x) + alpha * (exp(min(0, x)) - 1)``."""
        return self._add("elu", {"input": input}, {"alpha": alpha}, label)[0]

    def hard_sigmoid(self, input: MLOperand, *, alpha: float = 0.2, beta: float = 0.5, label: str = "") -> MLOperand:
        """``max(0, min(1, alpha * x + beta))``."""
        return self._add("hard_sigmoid", {"input": input}, {"alpha": alpha, "beta": beta}, label)[0]

    def leaky_relu(self, input: MLOperand, *, alpha: float = 0.01, label: str = "") -> MLOperand:
        """``max(0, x) + alpha * min(0, x)``."""
        return self._add("leaky_relu", {"input": input}, {"alpha": alpha}, label)[0]

    def linear(self, input: MLOperand, *, alpha: float = 1.0, beta: float = 0.0, label: str = "") -> MLOperand:
        """``alpha * x + beta``."""
        return self._add("linear", {"input": input}, {"alpha": alpha, "beta": beta}, label)[0]

    def clamp(
        self, input: MLOperand, *, min_value: float = -math.inf, max_value: float = math.inf, label: str = ""
    ) -> MLOperand:
        """Limited to ``min_value`` from below and ``max_value`` from above; NaN is no limit."""
        return self._add("clamp", {"input": input}, {"min_value": min_value, "max_value": max_value}, label)[0]

    def add(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """The sum. Integers wrap."""
        return self._add("add", {"a": a, "b": b}, {}, label)[0]

    def sub(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """The difference. Integers wrap."""
        return self._add("sub", {"a": a, "b": b}, {}, label)[0]

    def mul(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """The product. Integers wrap."""
        return self._add("mul", {"a": a, "b": b}, {}, label)[0]

    def div(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """The quotient. Integers are truncated towards zero."""
        return self._add("div", {"a": a, "b": b}, {}, label)[0]

    def max(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """The greater of the two."""
        return self._add("max", {"a": a, "b": b}, {}, label)[0]

    def min(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """The lesser of the two."""
        return self._add("min", {"a": a, "b": b}, {}, label)[0]

    def pow(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """``a`` to the power of ``b``."""
        return self._add("pow", {"a": a, "b": b}, {}, label)[0]

    def prelu(self, input: MLOperand, slope: MLOperand, *, label: str = "") -> MLOperand:
        """``max(0, x) + slope * min(0, x)``, broadcast both ways."""
        return self._add("prelu", {"input": input, "slope": slope}, {}, label)[0]

    def where(
        self, condition: MLOperand, true_value: MLOperand, false_value: MLOperand, *, label: str = ""
    ) -> MLOperand:
        """``true_value`` where the condition is not 0, else ``false_value``, all broadcast."""
        return self._add(
            "where", {"condition": condition, "true_value": true_value, "false_value": false_value}, {}, label
        )[0]

    def conv2d(
        self,
        input: MLOperand,
        filter: MLOperand,
        *,
        padding: Sequence[int] = (0, 0, 0, 0),
        strides: Sequence[int] = (1, 1),
        dilations: Sequence[int] = (1, 1),
        groups: int = 1,
        input_layout: Literal["nchw", "nhwc"] = "nchw",
        filter_layout: Literal["oihw", "hwio", "ohwi", "ihwo"] = "oihw",
        bias: MLOperand | None = None,
        label: str = "",
    ) -> MLOperand:
        """2-D convolution.

        ``padding`` is beginning and end of the height, then of the width; ``strides`` and ``dilations`` are of height
        and width. The ``i`` of the filter's layout is input channels over ``groups``.
        """
        return self._add(
            "conv2d",
            {"input": input, "filter": filter, "bias": bias},
            {
                "padding": padding,
                "strides": strides,
                "dilations": dilations,
                "groups": groups,
                "input_layout": input_layout,
                "filter_layout": filter_layout,
            },
            label,
        )[0]

    def conv_transpose2d(
        self,
        input: MLOperand,
        filter: MLOperand,
        *,
        padding: Sequence[int] = (0, 0, 0, 0),
        strides: Sequence[int] = (1, 1),
        dilations: Sequence[int] = (1, 1),
        output_padding: Sequence[int] = (0, 0),
        output_sizes: Sequence[int] | None = None,
        groups: int = 1,
        input_layout: Literal["nchw", "nhwc"] = "nchw",
        filter_layout: Literal["iohw", "hwoi", "ohwi"] = "iohw",
        bias: MLOperand | None = None,
        label: str = "",
    ) -> MLOperand:
        """2-D transposed convolution.

        ``output_sizes`` (height and width) or else ``output_padding`` says which of the possible sizes the result has.
        The ``o`` of the filter's layout is output channels over ``groups``.
        """
        return self._add(
            "conv_transpose2d",
            {"input": input, "filter": filter, "bias": bias},
            {
                "padding": padding,
                "strides": strides,
                "dilations": dilations,
                "output_padding": output_padding,
                "output_sizes": output_sizes,
                "groups": groups,
                "input_layout": input_layout,
                "filter_layout": filter_layout,
            },
            label,
        )[0]

    def gather(self, input: MLOperand, indices: MLOperand, *, axis: int = 0, label: str = "") -> MLOperand:
        """The slices along ``axis`` that ``indices`` names, in its shape."""
        return self._add("gather", {"input": input, "indices": indices}, {"axis": axis}, label)[0]

    def gather_elements(self, input: MLOperand, indices: MLOperand, *, axis: int = 0, label: str = "") -> MLOperand:
        """For each index the element at its own place, but for that place in ``axis``."""
        return self._add("gather_elements", {"input": input, "indices": indices}, {"axis": axis}, label)[0]

    def gather_nd(self, input: MLOperand, indices: MLOperand, *, label: str = "") -> MLOperand:
        """The slices of the input at coordinates, which are the last dimension of ``indices``."""
        return self._add("gather_nd", {"input": input, "indices": indices}, {}, label)[0]

    def scatter_elements(
        self, input: MLOperand, indices: MLOperand, updates: MLOperand, *, axis: int = 0, label: str = ""
    ) -> MLOperand:
        """The input with each update written at its own place, but for the index's place in ``axis``."""
        return self._add(
            "scatter_elements", {"input": input, "indices": indices, "updates": updates}, {"axis": axis}, label
        )[0]

    def scatter_nd(self, input: MLOperand, indices: MLOperand, updates: MLOperand, *, label: str = "") -> MLOperand:
        """The input with slices written at coordinates, which are the last dimension of ``indices``."""
        return self._add("scatter_nd", {"input": input, "indices": indices, "updates": updates}, {}, label)[0]

    def equal(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether ``a == b``."""
        return self._add("equal", {"a": a, "b": b}, {}, label)[0]

    def not_equal(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether ``a != b``."""
        return self._add("not_equal", {"a": a, "b": b}, {}, label)[0]

    def greater(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether ``a > b``."""
        return self._add("greater", {"a": a, "b": b}, {}, label)[0]

    def greater_or_equal(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether ``a >= b``."""
        return self._add("greater_or_equal", {"a": a, "b": b}, {}, label)[0]

    def lesser(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether ``a < b``."""
        return self._add("lesser", {"a": a, "b": b}, {}, label)[0]

    def lesser_or_equal(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether ``a <= b``."""
        return self._add("lesser_or_equal", {"a": a, "b": b}, {}, label)[0]

    def logical_and(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether both are not 0."""
        return self._add("logical_and", {"a": a, "b": b}, {}, label)[0]

    def logical_or(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether one of them is not 0."""
        return self._add("logical_or", {"a": a, "b": b}, {}, label)[0]

    def logical_xor(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Whether just one of them is not 0."""
        return self._add("logical_xor", {"a": a, "b": b}, {}, label)[0]

    def logical_not(self, a: MLOperand, *, label: str = "") -> MLOperand:
        """Whether it is 0."""
        return self._add("logical_not", {"a": a}, {}, label)[0]

    def is_nan(self, a: MLOperand, *, label: str = "") -> MLOperand:
        """Whether it is no number."""
        return self._add("is_nan", {"a": a}, {}, label)[0]

    def is_infinite(self, a: MLOperand, *, label: str = "") -> MLOperand:
        """Whether it is an infinity."""
        return self._add("is_infinite", {"a": a}, {}, label)[0]

    def matmul(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """The product of matrices, which are the last two dimensions; those before them are broadcast."""
        return self._add("matmul", {"a": a, "b": b}, {}, label)[0]

    def gemm(
        self,
        a: MLOperand,
        b: MLOperand,
        *,
        c: MLOperand | None = None,
        alpha: float = 1.0,
        beta: float = 1.0,
        a_transpose: bool = False,
        b_transpose: bool = False,
        label: str = "",
    ) -> MLOperand:
        """``alpha * a @ b + beta * c``, with ``a`` and ``b`` transposed first if asked for."""
        return self._add(
            "gemm",
            {"a": a, "b": b, "c": c},
            {"alpha": alpha, "beta": beta, "a_transpose": a_transpose, "b_transpose": b_transpose},
            label,
        )[0]

    def concat(self, inputs: Sequence[MLOperand], axis: int, *, label: str = "") -> MLOperand:
        """The operands one after the other along ``axis``; in the other dimensions they are alike."""
        return self._add("concat", {"inputs": inputs}, {"axis": axis}, label)[0]

    def expand(self, input: MLOperand, new_shape: Sequence[int], *, label: str = "") -> MLOperand:
        """Dimensions of size 1 repeated to ``new_shape``."""
        return self._add("expand", {"input": input}, {"new_shape": new_shape}, label)[0]

    def pad(
        self,
        input: MLOperand,
        beginning_padding: Sequence[int],
        ending_padding: Sequence[int],
        *,
        mode: Literal["constant", "edge", "reflection"] = "constant",
        value: float = 0,
        label: str = "",
    ) -> MLOperand:
        """Elements added before and after each dimension: ``value``, or the edge repeated or mirrored."""
        return self._add(
            "pad",
            {"input": input},
            {"beginning_padding": beginning_padding, "ending_padding": ending_padding, "mode": mode, "value": value},
            label,
        )[0]

    def reshape(self, input: MLOperand, new_shape: Sequence[int], *, label: str = "") -> MLOperand:
        """The same elements in another shape."""
        return self._add("reshape", {"input": input}, {"new_shape": new_shape}, label)[0]

    def reverse(self, input: MLOperand, *, axes: Sequence[int] | None = None, label: str = "") -> MLOperand:
        """The other way round along ``axes``, or all dimensions."""
        return self._add("reverse", {"input": input}, {"axes": axes}, label)[0]

    def slice(
        self,
        input: MLOperand,
        starts: Sequence[int],
        sizes: Sequence[int],
        *,
        strides: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """In each dimension ``sizes`` elements from ``starts``, and of them every ``strides``-th."""
        return self._add("slice", {"input": input}, {"starts": starts, "sizes": sizes, "strides": strides}, label)[0]

    def split(
        self, input: MLOperand, splits: int | Sequence[int], *, axis: int = 0, label: str = ""
    ) -> list[MLOperand]:
        """Cut along ``axis`` into ``splits`` equal parts, or parts of the sizes that it lists."""
        return self._add("split", {"input": input}, {"splits": splits, "axis": axis}, label)

    def tile(self, input: MLOperand, repetitions: Sequence[int], *, label: str = "") -> MLOperand:
        """The whole repeated along each dimension."""
        return self._add("tile", {"input": input}, {"repetitions": repetitions}, label)[0]

    def transpose(self, input: MLOperand, *, permutation: Sequence[int] | None = None, label: str = "") -> MLOperand:
        """Dimension ``permutation[i]`` becomes dimension ``i``; without it the dimensions are reversed."""
        return self._add("transpose", {"input": input}, {"permutation": permutation}, label)[0]

    def triangular(self, input: MLOperand, *, upper: bool = True, diagonal: int = 0, label: str = "") -> MLOperand:
        """The upper or lower triangle of each matrix, from ``diagonal`` on, and 0 elsewhere."""
        return self._add("triangular", {"input": input}, {"upper": upper, "diagonal": diagonal}, label)[0]

    def batch_normalization(
        self,
        input: MLOperand,
        mean: MLOperand,
        variance: MLOperand,
        *,
        scale: MLOperand | None = None,
        bias: MLOperand | None = None,
        axis: int = 1,
        epsilon: float = 1e-05,
        label: str = "",
    ) -> MLOperand:
        """``(input - mean) / sqrt(variance + epsilon) * scale + bias``, each for one feature along ``axis``."""
        return self._add(
            "batch_normalization",
            {"input": input, "mean": mean, "variance": variance, "scale": scale, "bias": bias},
            {"axis": axis, "epsilon": epsilon},
            label,
        )[0]

    def instance_normalization(
        self,
        input: MLOperand,
        *,
        scale: MLOperand | None = None,
        bias: MLOperand | None = None,
        epsilon: float = 1e-05,
        layout: Literal["nchw", "nhwc"] = "nchw",
        label: str = "",
    ) -> MLOperand:
        """Each channel of each image to mean 0 and variance 1, times ``scale`` plus ``bias``."""
        return self._add(
            "instance_normalization",
            {"input": input, "scale": scale, "bias": bias},
            {"epsilon": epsilon, "layout": layout},
            label,
        )[0]

    def layer_normalization(
        self,
        input: MLOperand,
        *,
        scale: MLOperand | None = None,
        bias: MLOperand | None = None,
        axes: Sequence[int] | None = None,
        epsilon: float = 1e-05,
        label: str = "",
    ) -> MLOperand:
        """Mean 0 and variance 1 over ``axes`` (all but the first), times ``scale`` plus ``bias`` of those axes."""
        return self._add(
            "layer_normalization",
            {"input": input, "scale": scale, "bias": bias},
            {"axes": axes, "epsilon": epsilon},
            label,
        )[0]

    def softmax(self, input: MLOperand, axis: int, *, label: str = "") -> MLOperand:
        """Exponentials divided by their sum along ``axis``."""
        return self._add("softmax", {"input": input}, {"axis": axis}, label)[0]

    def average_pool2d(
        self,
        input: MLOperand,
        *,
        window_dimensions: Sequence[int] | None = None,
        padding: Sequence[int] = (0, 0, 0, 0),
        strides: Sequence[int] = (1, 1),
        dilations: Sequence[int] = (1, 1),
        layout: Literal["nchw", "nhwc"] = "nchw",
        output_shape_rounding: Literal["floor", "ceil"] = "floor",
        output_sizes: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """The mean of each window, padding left out.

        A window is the whole image unless ``window_dimensions`` says otherwise. ``output_sizes`` says itself which of
        the two roundings the result's size has. (It leaves the padding as it is: so do all implementations and the
        conformance tests, though a step of the specification says otherwise.)
        """
        return self._add(
            "average_pool2d",
            {"input": input},
            {
                "window_dimensions": window_dimensions,
                "padding": padding,
                "strides": strides,
                "dilations": dilations,
                "layout": layout,
                "output_shape_rounding": output_shape_rounding,
                "output_sizes": output_sizes,
            },
            label,
        )[0]

    def l2_pool2d(
        self,
        input: MLOperand,
        *,
        window_dimensions: Sequence[int] | None = None,
        padding: Sequence[int] = (0, 0, 0, 0),
        strides: Sequence[int] = (1, 1),
        dilations: Sequence[int] = (1, 1),
        layout: Literal["nchw", "nhwc"] = "nchw",
        output_shape_rounding: Literal["floor", "ceil"] = "floor",
        output_sizes: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """The square root of each window's sum of squares.

        A window is the whole image unless ``window_dimensions`` says otherwise. ``output_sizes`` says itself which of
        the two roundings the result's size has. (It leaves the padding as it is: so do all implementations and the
        conformance tests, though a step of the specification says otherwise.)
        """
        return self._add(
            "l2_pool2d",
            {"input": input},
            {
                "window_dimensions": window_dimensions,
                "padding": padding,
                "strides": strides,
                "dilations": dilations,
                "layout": layout,
                "output_shape_rounding": output_shape_rounding,
                "output_sizes": output_sizes,
            },
            label,
        )[0]

    def max_pool2d(
        self,
        input: MLOperand,
        *,
        window_dimensions: Sequence[int] | None = None,
        padding: Sequence[int] = (0, 0, 0, 0),
        strides: Sequence[int] = (1, 1),
        dilations: Sequence[int] = (1, 1),
        layout: Literal["nchw", "nhwc"] = "nchw",
        output_shape_rounding: Literal["floor", "ceil"] = "floor",
        output_sizes: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """The greatest element of each window.

        A window is the whole image unless ``window_dimensions`` says otherwise. ``output_sizes`` says itself which of
        the two roundings the result's size has. (It leaves the padding as it is: so do all implementations and the
        conformance tests, though a step of the specification says otherwise.)
        """
        return self._add(
            "max_pool2d",
            {"input": input},
            {
                "window_dimensions": window_dimensions,
                "padding": padding,
                "strides": strides,
                "dilations": dilations,
                "layout": layout,
                "output_shape_rounding": output_shape_rounding,
                "output_sizes": output_sizes,
            },
            label,
        )[0]

    def dequantize_linear(
        self, input: MLOperand, scale: MLOperand, zero_point: MLOperand, *, label: str = ""
    ) -> MLOperand:
        """``(input - zero_point) * scale``; every scale and zero point is for a block of the input."""
        return self._add("dequantize_linear", {"input": input, "scale": scale, "zero_point": zero_point}, {}, label)[0]

    def quantize_linear(
        self, input: MLOperand, scale: MLOperand, zero_point: MLOperand, *, label: str = ""
    ) -> MLOperand:
        """``round_even(input / scale) + zero_point``, limited to the zero point's data type."""
        return self._add("quantize_linear", {"input": input, "scale": scale, "zero_point": zero_point}, {}, label)[0]

    def gru(
        self,
        input: MLOperand,
        weight: MLOperand,
        recurrent_weight: MLOperand,
        steps: int,
        hidden_size: int,
        *,
        bias: MLOperand | None = None,
        recurrent_bias: MLOperand | None = None,
        initial_hidden_state: MLOperand | None = None,
        reset_after: bool = True,
        return_sequence: bool = False,
        direction: Literal["forward", "backward", "both"] = "forward",
        layout: Literal["zrn", "rzn"] = "zrn",
        activations: Sequence[Literal["relu", "sigmoid", "tanh"]] = ("sigmoid", "tanh"),
        label: str = "",
    ) -> list[MLOperand]:
        """A gated recurrent unit over ``steps`` steps: the last hidden state and, if asked for, all of them."""
        return self._add(
            "gru",
            {
                "input": input,
                "weight": weight,
                "recurrent_weight": recurrent_weight,
                "bias": bias,
                "recurrent_bias": recurrent_bias,
                "initial_hidden_state": initial_hidden_state,
            },
            {
                "steps": steps,
                "hidden_size": hidden_size,
                "reset_after": reset_after,
                "return_sequence": return_sequence,
                "direction": direction,
                "layout": layout,
                "activations": activations,
            },
            label,
        )

    def gru_cell(
        self,
        input: MLOperand,
        weight: MLOperand,
        recurrent_weight: MLOperand,
        hidden_state: MLOperand,
        hidden_size: int,
        *,
        bias: MLOperand | None = None,
        recurrent_bias: MLOperand | None = None,
        reset_after: bool = True,
        layout: Literal["zrn", "rzn"] = "zrn",
        activations: Sequence[Literal["relu", "sigmoid", "tanh"]] = ("sigmoid", "tanh"),
        label: str = "",
    ) -> MLOperand:
        """One step of a gated recurrent unit: the new hidden state."""
        return self._add(
            "gru_cell",
            {
                "input": input,
                "weight": weight,
                "recurrent_weight": recurrent_weight,
                "hidden_state": hidden_state,
                "bias": bias,
                "recurrent_bias": recurrent_bias,
            },
            {"hidden_size": hidden_size, "reset_after": reset_after, "layout": layout, "activations": activations},
            label,
        )[0]

    def lstm(
        self,
        input: MLOperand,
        weight: MLOperand,
        recurrent_weight: MLOperand,
        steps: int,
        hidden_size: int,
        *,
        bias: MLOperand | None = None,
        recurrent_bias: MLOperand | None = None,
        peephole_weight: MLOperand | None = None,
        initial_hidden_state: MLOperand | None = None,
        initial_cell_state: MLOperand | None = None,
        return_sequence: bool = False,
        direction: Literal["forward", "backward", "both"] = "forward",
        layout: Literal["iofg", "ifgo"] = "iofg",
        activations: Sequence[Literal["relu", "sigmoid", "tanh"]] = ("sigmoid", "tanh", "tanh"),
        label: str = "",
    ) -> list[MLOperand]:
        """A long short-term memory over ``steps`` steps: the last hidden and cell states, maybe all hidden ones."""
        return self._add(
            "lstm",
            {
                "input": input,
                "weight": weight,
                "recurrent_weight": recurrent_weight,
                "bias": bias,
                "recurrent_bias": recurrent_bias,
                "peephole_weight": peephole_weight,
                "initial_hidden_state": initial_hidden_state,
                "initial_cell_state": initial_cell_state,
            },
            {
                "steps": steps,
                "hidden_size": hidden_size,
                "return_sequence": return_sequence,
                "direction": direction,
                "layout": layout,
                "activations": activations,
            },
            label,
        )

    def lstm_cell(
        self,
        input: MLOperand,
        weight: MLOperand,
        recurrent_weight: MLOperand,
        hidden_state: MLOperand,
        cell_state: MLOperand,
        hidden_size: int,
        *,
        bias: MLOperand | None = None,
        recurrent_bias: MLOperand | None = None,
        peephole_weight: MLOperand | None = None,
        layout: Literal["iofg", "ifgo"] = "iofg",
        activations: Sequence[Literal["relu", "sigmoid", "tanh"]] = ("sigmoid", "tanh", "tanh"),
        label: str = "",
    ) -> list[MLOperand]:
        """One step of a long short-term memory: the new hidden and cell states."""
        return self._add(
            "lstm_cell",
            {
                "input": input,
                "weight": weight,
                "recurrent_weight": recurrent_weight,
                "hidden_state": hidden_state,
                "cell_state": cell_state,
                "bias": bias,
                "recurrent_bias": recurrent_bias,
                "peephole_weight": peephole_weight,
            },
            {"hidden_size": hidden_size, "layout": layout, "activations": activations},
            label,
        )

    def reduce_l1(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """The sum of absolute values.

        Over ``axes``, or all dimensions; over no axes each element is taken alone. ``keep_dimensions`` keeps what is
        reduced as dimensions of size 1.
        """
        return self._add("reduce_l1", {"input": input}, {"axes": axes, "keep_dimensions": keep_dimensions}, label)[0]

    def reduce_l2(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """The square root of the sum of squares.

        Over ``axes``, or all dimensions; over no axes each element is taken alone. ``keep_dimensions`` keeps what is
        reduced as dimensions of size 1.
        """
        return self._add("reduce_l2", {"input": input}, {"axes": axes, "keep_dimensions": keep_dimensions}, label)[0]

    def reduce_log_sum(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """The logarithm of the sum.

        Over ``axes``, or all dimensions; over no axes each element is taken alone. ``keep_dimensions`` keeps what is
        reduced as dimensions of size 1.
        """
        return self._add("reduce_log_sum", {"input": input}, {"axes": axes, "keep_dimensions": keep_dimensions}, label)[
            0
        ]

    def reduce_log_sum_exp(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """The logarithm of the sum of exponentials.

        Over ``axes``, or all dimensions; over no axes each element is taken alone. ``keep_dimensions`` keeps what is
        reduced as dimensions of size 1.
        """
        return self._add(
            "reduce_log_sum_exp", {"input": input}, {"axes": axes, "keep_dimensions": keep_dimensions}, label
        )[0]

    def reduce_max(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """The greatest.

        Over ``axes``, or all dimensions; over no axes each element is taken alone. ``keep_dimensions`` keeps what is
        reduced as dimensions of size 1.
        """
        return self._add("reduce_max", {"input": input}, {"axes": axes, "keep_dimensions": keep_dimensions}, label)[0]

    def reduce_mean(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """The mean.

        Over ``axes``, or all dimensions; over no axes each element is taken alone. ``keep_dimensions`` keeps what is
        reduced as dimensions of size 1.
        """
        return self._add("reduce_mean", {"input": input}, {"axes": axes, "keep_dimensions": keep_dimensions}, label)[0]

    def reduce_min(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """The least.

        Over ``axes``, or all dimensions; over no axes each element is taken alone. ``keep_dimensions`` keeps what is
        reduced as dimensions of size 1.
        """
        return self._add("reduce_min", {"input": input}, {"axes": axes, "keep_dimensions": keep_dimensions}, label)[0]

    def reduce_product(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """The product.

        Over ``axes``, or all dimensions; over no axes each element is taken alone. ``keep_dimensions`` keeps what is
        reduced as dimensions of size 1.
        """
        return self._add("reduce_product", {"input": input}, {"axes": axes, "keep_dimensions": keep_dimensions}, label)[
            0
        ]

    def reduce_sum(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """The sum.

        Over ``axes``, or all dimensions; over no axes each element is taken alone. ``keep_dimensions`` keeps what is
        reduced as dimensions of size 1.
        """
        return self._add("reduce_sum", {"input": input}, {"axes": axes, "keep_dimensions": keep_dimensions}, label)[0]

    def reduce_sum_square(
        self, input: MLOperand, *, axes: Sequence[int] | None = None, keep_dimensions: bool = False, label: str = ""
    ) -> MLOperand:
        """The sum of squares.

        Over ``axes``, or all dimensions; over no axes each element is taken alone. ``keep_dimensions`` keeps what is
        reduced as dimensions of size 1.
        """
        return self._add(
            "reduce_sum_square", {"input": input}, {"axes": axes, "keep_dimensions": keep_dimensions}, label
        )[0]

    def arg_min(
        self,
        input: MLOperand,
        axis: int,
        *,
        keep_dimensions: bool = False,
        output_data_type: DataType = "int32",
        label: str = "",
    ) -> MLOperand:
        """Where along ``axis`` the least element is, the first of equals."""
        return self._add(
            "arg_min",
            {"input": input},
            {"axis": axis, "keep_dimensions": keep_dimensions, "output_data_type": output_data_type},
            label,
        )[0]

    def arg_max(
        self,
        input: MLOperand,
        axis: int,
        *,
        keep_dimensions: bool = False,
        output_data_type: DataType = "int32",
        label: str = "",
    ) -> MLOperand:
        """Where along ``axis`` the greatest element is, the first of equals."""
        return self._add(
            "arg_max",
            {"input": input},
            {"axis": axis, "keep_dimensions": keep_dimensions, "output_data_type": output_data_type},
            label,
        )[0]

    def cumulative_sum(
        self, input: MLOperand, axis: int, *, exclusive: bool = False, reversed: bool = False, label: str = ""
    ) -> MLOperand:
        """The sum so far along ``axis``: without the element itself if ``exclusive``, from the end if ``reversed``."""
        return self._add(
            "cumulative_sum", {"input": input}, {"axis": axis, "exclusive": exclusive, "reversed": reversed}, label
        )[0]

    def resample2d(
        self,
        input: MLOperand,
        *,
        mode: Literal["nearest-neighbor", "linear"] = "nearest-neighbor",
        scales: Sequence[float] = (1.0, 1.0),
        sizes: Sequence[int] | None = None,
        axes: Sequence[int] = (2, 3),
        label: str = "",
    ) -> MLOperand:
        """Two dimensions, ``axes``, resized to ``sizes``, or by ``scales``."""
        return self._add(
            "resample2d", {"input": input}, {"mode": mode, "scales": scales, "sizes": sizes, "axes": axes}, label
        )[0]
