"""Training, and the files of weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

WEIGHTS = Path(__file__).parent / "weights"


def fit(
    model: nn.Module,
    loss_of_step: Callable[[int], Tensor],
    *,
    steps: int,
    rate: float,
    decay: float = 1e-2,
    report: Callable[[str], None] = print,
) -> float:
    """Train a model by the loss that each step computes; the mean loss of the last tenth of the steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=steps, pct_start=0.15)
    model.train()
    losses: list[float] = []
    for step in range(steps):
        loss = loss_of_step(step)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call] # torch has no types for it
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
        if (step + 1) % max(1, steps // 10) == 0:
            report(f"step {step + 1} of {steps}: loss {losses[-1]:.4f}")
    model.eval()
    last = losses[-max(1, steps // 10) :]
    return sum(last) / len(last)


def save(model: nn.Module, name: str) -> Path:
    """Write a model's weights in float16."""
    path = WEIGHTS / f"{name}.safetensors"
    path.parent.mkdir(exist_ok=True)
    halves = {key: value.half() if value.is_floating_point() else value for key, value in model.state_dict().items()}
    save_file({key: value.contiguous() for key, value in halves.items()}, path)
    return path


def restore(model: nn.Module, name: str) -> nn.Module:
    """Load what :func:`save` wrote; the model, in evaluation mode."""
    state = load_file(WEIGHTS / f"{name}.safetensors")
    model.load_state_dict({key: value.float() if value.is_floating_point() else value for key, value in state.items()})
    return model.eval()
