"""Entry point of a worker process: `python -P -X mojoview-worker PATH-OF-THIS-FILE FD FD FD SYS-PATH...`.

The parent runs this file by its path, because it may have found the package on a `sys.path` that a new interpreter
does not have. With the option -X, `import mojoview` registers no accessors and so does not import pandas.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def import_package() -> None:
    """Import mojoview from the directory that holds this file."""
    root = __file__.rsplit("/", 4)[0]
    spec = PathFinder.find_spec("mojoview", [root])
    assert spec is not None
    assert spec.loader is not None
    package = sys.modules["mojoview"] = module_from_spec(spec)
    spec.loader.exec_module(package)


if __name__ == "__main__":
    descriptors, sys.path[:] = [int(argument) for argument in sys.argv[1:4]], sys.argv[4:]
    os.write(descriptors[0], b"\n")  # the parent waits for this line: it has started Python, and not something else
    import_package()
    from mojoview.safety.workers.worker import main

    main(*descriptors)
