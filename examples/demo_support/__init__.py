"""The parts of `examples/demo.py`: one per subject, none of them of use elsewhere."""
