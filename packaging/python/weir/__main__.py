"""``python -m weir``: the program itself."""

import os
import sys

from ._find import find_weir_bin

if __name__ == "__main__":
    program = find_weir_bin()
    os.execv(program, [program, *sys.argv[1:]])
