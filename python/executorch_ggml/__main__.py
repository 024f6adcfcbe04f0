"""``python -m executorch_ggml``: the command ``executorch-ggml``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
