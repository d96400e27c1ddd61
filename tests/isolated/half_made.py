"""Every extension type of the package, created by `__new__()` alone, and every use of it that needs no arguments.

Prints a line `TYPE PROBLEMS` for each. Each type is used in a child process of its own, so that a crash names its type.
"""

import copy
import importlib
import json
import os
import pickle
import warnings
from pathlib import Path

import mojoview
from mojoview.memory.errors import MojoViewError

HEAP_TYPE = 1 << 9  # of type.__flags__: classes of Python
ASKED = {
    **{f.__name__: f for f in (repr, str, hash, bool, len, iter, next, dir, bytes, memoryview, int, float, abs, list)},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "==": lambda obj: obj == obj,
    "[0]": lambda obj: obj[0],
    "['x']": lambda obj: obj["x"],
    "in": lambda obj: 0 in obj,
    "del": lambda obj: obj.__delitem__(0) if hasattr(obj, "__delitem__") else None,
}


def extension_types():
    """Return {name: type} of every extension module; each has a stub beside it."""
    root = Path(mojoview.__file__).parent
    found = {}
    for stub in sorted(root.glob("*/**/_*.pyi")):
        module = importlib.import_module(".".join(("mojoview", *stub.relative_to(root).with_suffix("").parts)))
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__ and not value.__flags__ & HEAP_TYPE:
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


def problems(kind):
    """Return what fails with an undocumented exception; TypeError is Python's own for what a type does not have."""
    try:
        made = kind.__new__(kind)
    except (MojoViewError, TypeError):
        return []
    found = []

    def ask(words, question):
        try:
            return question()
        except (MojoViewError, TypeError, StopIteration):
            return None
        except BaseException as error:
            found.append(f"{words}: {type(error).__name__}: {error}")

    for words, question in ASKED.items():
        ask(words, lambda q=question: q(made))
    for name in dir(kind):
        value = ask(name, lambda n=name: getattr(made, n))
        if callable(value) and name not in ("__class__", "__new__", "__init_subclass__", "__subclasshook__"):
            answer = ask(f"{name}()", value)
            close = getattr(answer, "close", None)  # of a coroutine that nobody awaits
            if callable(close):
                ask(f"{name}().close()", close)
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, kind in extension_types().items():
        child = os.fork()
        if child == 0:
            print(name, json.dumps(problems(kind)), flush=True)
            os._exit(0)
        if status := os.waitpid(child, 0)[1]:
            print(name, json.dumps([f"the process died with status {status}"]), flush=True)
