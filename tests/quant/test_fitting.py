"""Types that keep to an error or a size, beside all combinations of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
import torch
from torch import nn

from executorch_ggml.quant import (
    GgmlQuantConfig,
    Importance,
    QuantReport,
    Sensitivity,
    dequantized,
    report,
    sensitivity,
)

TYPES = ("q2_k", "q4_k", "q8_0")
LIMITED = 0.1  # between the errors of q2_k and q4_k


def model() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Embedding(40, 256), nn.Linear(256, 256), nn.Linear(256, 256), nn.Linear(256, 2))
    with torch.no_grad():
        layers.get_parameter("1.weight")[:, ::2] *= 20  # harder to quantize
    return layers.eval()


def found(keep: Sequence[tuple[str, str]] = ()) -> Sensitivity:
    return sensitivity(model(), GgmlQuantConfig(rules=keep), TYPES, torch.tensor([[1, 2]]))


def types_of(config: GgmlQuantConfig) -> dict[str, str]:
    return {tensor.name: tensor.type for tensor in reported(config).tensors}


def reported(config: GgmlQuantConfig) -> QuantReport:
    return report(model(), config, example=(torch.tensor([[1, 2]]),))


def test_an_error_is_kept_to_by_the_smallest_type() -> None:
    config = found().with_max_error(LIMITED)
    assert types_of(config) == {"0.weight": "q4_k", "1.weight": "q4_k", "2.weight": "q4_k", "3.weight": "f32"}
    assert max(tensor.error for tensor in reported(config).tensors) <= LIMITED
    assert set(types_of(found().with_max_error(1.0)).values()) == {"q2_k", "f32"}
    with pytest.raises(ValueError, match=r"weight: no type keeps to an error of 0.0001, the best of q2_k, q4_k, q8_0"):
        found().with_max_error(1e-4)


def test_rules_stay() -> None:
    config = found([("2.*", "q8_0")]).with_max_error(LIMITED)
    assert types_of(config)["2.weight"] == "q8_0"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 1.0])
def test_a_size_is_kept_to_with_the_least_of_the_largest_errors(share: float) -> None:
    costs = found()
    limit = int(costs.bytes("q2_k") + share * (costs.bytes("q8_0") - costs.bytes("q2_k")))
    chosen = reported(costs.with_size(limit))
    assert chosen.bytes + costs.other_bytes <= limit
    weights = list(zip(*costs.by_type.values(), strict=True))
    possible = [each for each in itertools.product(*weights) if sum(t.bytes for t in each) + costs.other_bytes <= limit]
    assert max(t.error for t in chosen.tensors) == min(max(t.error for t in each) for each in possible)
    with pytest.raises(
        ValueError, match=r"the parameters take .* bytes or more in q2_k, q4_k, q8_0, and are to take 9;"
    ):
        costs.with_size(9)


def test_a_tied_weight_has_its_type_under_all_its_names() -> None:
    tied = nn.Sequential(nn.Embedding(40, 256), nn.Linear(256, 40, bias=False)).eval()
    tied[1].weight = tied[0].weight
    config = sensitivity(tied, GgmlQuantConfig(), ["q4_k"], torch.tensor([[1, 2]])).with_max_error(1.0)
    assert dict(config.rules) == {"0.weight": "q4_k", "1.weight": "q4_k"}
    assert config.default is None


def test_the_error_of_a_weight_is_that_of_its_product() -> None:
    """With an importance matrix, for inputs whose columns are not correlated."""
    torch.manual_seed(0)
    layer, x = nn.Linear(256, 64, bias=False), torch.randn(20_000, 256) * torch.linspace(0.01, 3, 256)
    config = GgmlQuantConfig("q4_k", importance=Importance.collect(layer, [(x,)]))
    (tensor,) = report(layer, config, [(x,)]).tensors
    with torch.no_grad():
        exact, rounded = layer(x), dequantized(layer, config, x)(x)
    error = float((rounded - exact).norm() / exact.norm())
    assert tensor.error == pytest.approx(error, rel=0.03)
    (plain,) = report(layer, GgmlQuantConfig("q4_k"), [(x,)]).tensors
    assert tensor.error < plain.error
