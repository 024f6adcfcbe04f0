"""What runs graphs, one module each; see :mod:`..registry`."""
