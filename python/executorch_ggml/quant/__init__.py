"""Weights in ggml's quantized types."""
