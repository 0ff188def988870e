"""`python -m forebear`: the command line, for programs that start Python themselves, such as torchrun.

`-m` puts the working folder first on the search path. It is removed before anything else is imported, so that no file
there replaces a module.
"""

import os
import sys

try:
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]
except FileNotFoundError:  # the working folder was removed
    pass

from forebear.cli.main import run

if __name__ == "__main__":
    run()
