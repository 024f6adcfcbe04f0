"""Engines beside each other: the same model, inputs and threads, each in a process of its own, in turns."""
