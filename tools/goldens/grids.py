"""The grids of the IQ formats as text, from the gguf package.

    python tools/goldens/grids.py        # with tools/requirements.txt installed

Prints the constants of crates/quant/src/grids.rs. An entry of a grid is a number whose digits, in base 3 or 8, are the
indices of its values, the first value in the lowest digit. Entries ascend, so each is stored as the difference from the one
before (the first: from -1), less 1: `0` to `Y` are differences of 0 to 41, `Z` adds 42 to what follows.
"""

import textwrap

import numpy as np
from gguf import quants

GRIDS = {
    "IQ1": quants.IQ1_S,
    "IQ2_XXS": quants.IQ2_XXS,
    "IQ2_XS": quants.IQ2_XS,
    "IQ2_S": quants.IQ2_S,
    "IQ3_XXS": quants.IQ3_XXS,
    "IQ3_S": quants.IQ3_S,
}


def text(difference: int) -> str:
    return "Z" * (difference // 42) + chr(ord("0") + difference % 42)


def main() -> None:
    for name, kind in GRIDS.items():
        kind.init_grid()
        base = len(kind.grid_map)
        indices = np.searchsorted(kind.grid_map, kind.grid.reshape(kind.grid_shape))
        entries = (indices * base ** np.arange(kind.grid_shape[1])).sum(1)
        assert (np.diff(entries) > 0).all()
        gaps = "".join(map(text, np.diff(entries, prepend=-1) - 1))
        print(f"\nconst {name}: &str = \"\\")
        print("\\\n".join(f"    {line}" for line in textwrap.wrap(gaps, 110)) + '";')


if __name__ == "__main__":
    main()
