"""Networks written with the WebNN builder: MobileNetV2, an encoder as BERT has it, and the digits' own."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from executorch_ggml.webnn import MLGraphBuilder, MLOperand

# Expansion, channels, repetitions and first stride of MobileNetV2's stages.
MOBILENET_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class Weights:
    """Random weights of a size that keeps activations in range."""

    def __init__(self, builder: MLGraphBuilder, seed: int = 0) -> None:
        self.builder = builder
        self.random = np.random.default_rng(seed)

    def of(self, *shape: int, fan_in: int) -> MLOperand:
        """A constant with a variance of two over its number of inputs."""
        scale = np.sqrt(2.0 / fan_in)
        return self.builder.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def zeros(self, *shape: int) -> MLOperand:
        """A constant of zeros."""
        return self.builder.constant(np.zeros(shape, np.float32))

    def ones(self, *shape: int) -> MLOperand:
        """A constant of ones."""
        return self.builder.constant(np.ones(shape, np.float32))


def mobilenet(builder: MLGraphBuilder, image: MLOperand, classes: int = 1000) -> MLOperand:
    """MobileNetV2 of an NCHW image, batch norms folded as an exporter has them: the classes' probabilities."""
    weights = Weights(builder)

    def conv(
        x: MLOperand, outputs: int, size: int, stride: int = 1, *, groups: int = 1, relu6: bool = True
    ) -> MLOperand:
        inputs = x.shape[1] // groups
        half = size // 2
        y = builder.conv2d(
            x,
            weights.of(outputs, inputs, size, size, fan_in=inputs * size * size),
            bias=weights.zeros(outputs),
            padding=[half, half, half, half],
            strides=[stride, stride],
            groups=groups,
        )
        return builder.clamp(y, min_value=0, max_value=6) if relu6 else y

    def block(x: MLOperand, expansion: int, outputs: int, stride: int) -> MLOperand:
        inputs = x.shape[1]
        y = x if expansion == 1 else conv(x, inputs * expansion, 1)
        y = conv(y, y.shape[1], 3, stride, groups=y.shape[1])
        y = conv(y, outputs, 1, relu6=False)
        return builder.add(x, y) if stride == 1 and inputs == outputs else y

    x = conv(image, 32, 3, 2)
    for expansion, channels, repetitions, stride in MOBILENET_STAGES:
        for i in range(repetitions):
            x = block(x, expansion, channels, stride if i == 0 else 1)
    x = builder.average_pool2d(conv(x, 1280, 1))
    x = builder.reshape(x, [x.shape[0], 1280])
    logits = builder.gemm(x, weights.of(1280, classes, fan_in=1280), c=weights.zeros(classes))
    return builder.softmax(logits, axis=1)


def encoder(
    builder: MLGraphBuilder, tokens: MLOperand, *, layers: int, width: int, heads: int, words: int
) -> MLOperand:
    """A BERT-type encoder of int32 tokens [1, n]: the words' vectors [1, n, width]."""
    weights = Weights(builder)
    length, size = tokens.shape[1], width // heads

    def linear(x: MLOperand, outputs: int) -> MLOperand:
        product = builder.matmul(x, weights.of(x.shape[-1], outputs, fan_in=2 * x.shape[-1]))
        return builder.add(product, weights.zeros(outputs))

    def norm(x: MLOperand) -> MLOperand:
        return builder.layer_normalization(x, scale=weights.ones(width), bias=weights.zeros(width), axes=[2])

    def split_heads(x: MLOperand) -> MLOperand:
        return builder.transpose(builder.reshape(x, [1, length, heads, size]), permutation=[0, 2, 1, 3])

    def attention(x: MLOperand) -> MLOperand:
        q, k, v = (split_heads(linear(x, width)) for _ in range(3))
        scores = builder.matmul(q, builder.transpose(k, permutation=[0, 1, 3, 2]))
        shares = builder.softmax(builder.linear(scores, alpha=size**-0.5), axis=3)
        mixed = builder.transpose(builder.matmul(shares, v), permutation=[0, 2, 1, 3])
        return linear(builder.reshape(mixed, [1, length, width]), width)

    x = builder.add(builder.gather(weights.of(words, width, fan_in=2), tokens), weights.of(length, width, fan_in=2))
    x = norm(x)
    for _ in range(layers):
        x = norm(builder.add(x, attention(x)))
        x = norm(builder.add(x, linear(builder.gelu(linear(x, 4 * width)), width)))
    return x


def digits(builder: MLGraphBuilder, images: MLOperand, model: Any) -> MLOperand:
    """The network of :mod:`examples.demo_support.digits` with its trained weights: the digits' logits."""

    def constant(tensor: Any) -> MLOperand:
        return builder.constant(tensor.detach().numpy())

    x = images
    for layer in model.features:
        if isinstance(layer, nn.Conv2d):
            x = builder.conv2d(x, constant(layer.weight), padding=[1, 1, 1, 1])
        elif isinstance(layer, nn.BatchNorm2d):
            mean, variance = constant(layer.running_mean), constant(layer.running_var)
            scale, bias = constant(layer.weight), constant(layer.bias)
            x = builder.batch_normalization(x, mean, variance, scale=scale, bias=bias, epsilon=layer.eps)
        elif isinstance(layer, nn.MaxPool2d):
            x = builder.max_pool2d(x, window_dimensions=[2, 2], strides=[2, 2])
        else:
            x = builder.relu(x)
    x = builder.reduce_mean(x, axes=[2, 3])
    return builder.gemm(x, constant(model.classifier.weight), c=constant(model.classifier.bias), b_transpose=True)
