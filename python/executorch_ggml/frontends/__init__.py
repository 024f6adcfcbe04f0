"""Frontends: a program of PyTorch or WebNN as the canonical IR, op by op."""
