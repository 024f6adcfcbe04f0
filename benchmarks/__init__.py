"""Benchmarks: `python -m benchmarks.models` and `python -m benchmarks.overhead` write `RESULTS.md` beside this."""
