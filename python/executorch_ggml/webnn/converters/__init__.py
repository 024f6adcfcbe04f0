"""From a graph to other forms of it, one module each; see :mod:`..registry`."""
