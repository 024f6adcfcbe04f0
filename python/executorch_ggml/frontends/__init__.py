"""Frontends: a program of PyTorch, WebNN or ggml as the canonical IR, op by op."""
