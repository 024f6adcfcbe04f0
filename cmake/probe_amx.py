"""Whether a C++ compiler gets AMX right: ``probe_amx.py COMPILER [ARGUMENT...]`` exits with 1 where it does not.

gcc before 12.4, 13.3 and 14 drops stores to the tile configuration: its header tells the compiler that ``ldtilecfg``
reads 8 bytes of 64 (gcc bug 114098). So a function is compiled with and without such stores; they are lost where the
two come out the same. A compiler without AMX counts as right: nothing is compiled for AMX by it.
"""

from __future__ import annotations

import subprocess
import sys

SOURCE = """
#include <immintrin.h>
struct alignas(64) Configuration {
  unsigned char palette, start, reserved[14];
  unsigned short bytes[16];
  unsigned char rows[16];
};
void configure(unsigned char rows, unsigned short bytes) {
  Configuration tiles{};
  tiles.palette = 1;
#ifdef STORE
  tiles.rows[0] = rows;
  tiles.bytes[0] = bytes;
#else
  (void)rows, (void)bytes;
#endif
  _tile_loadconfig(&tiles);
}
"""


def assembly(compiler: list[str], *flags: str) -> str | None:
    """The function in assembly, or None where the compiler does not take it."""
    command = [*compiler, "-x", "c++", "-std=c++17", "-O3", "-mamx-tile", *flags, "-S", "-o", "-", "-"]
    result = subprocess.run(command, input=SOURCE, capture_output=True, text=True, check=False)
    return result.stdout if result.returncode == 0 else None


def loses_tile_configuration(compiler: list[str]) -> bool:
    """Whether stores before ``ldtilecfg`` are dropped."""
    stored = assembly(compiler, "-DSTORE")
    return stored is not None and stored == assembly(compiler)


if __name__ == "__main__":
    sys.exit(1 if loses_tile_configuration(sys.argv[1:]) else 0)
