"""Where the installer put the program: in the folder for scripts of whichever scheme it used."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Iterator


def _folders() -> Iterator[str]:
    # PREFIX/lib/pythonX.Y/site-packages/weir: an environment's, a user's, --prefix; whoever imports it.
    # TARGET/weir: pip install --target.
    here = os.path.dirname(os.path.abspath(__file__))
    for up in ("../../../..", ".."):
        yield os.path.normpath(os.path.join(here, up, "bin"))
    # Where packages and programs have no folder in common.
    yield sysconfig.get_path("scripts")
    yield sysconfig.get_path("scripts", vars={"base": sys.base_prefix})


def find_weir_bin() -> str:
    """The path of the program ``weir`` that this package was installed with.

    Raises FileNotFoundError if it is in none of the folders where installers put programs.
    """
    folders = list(dict.fromkeys(_folders()))
    for folder in folders:
        program = os.path.join(folder, "weir")
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    raise FileNotFoundError("the program 'weir' is in none of " + ", ".join(folders))
