"""Benchmarks: `python -m benchmarks.models` and `python -m benchmarks.overhead` write `RESULTS.md` beside this."""

import multiprocessing
import sys

# llama.cpp's process has a ggml of its own, under the same names: there our package does not load the one of ours.
if multiprocessing.current_process().name == "llama.cpp":
    vars(sys)["_executorch_ggml_plugin"] = True
