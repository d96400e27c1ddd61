"""The accessors are registered when pandas is imported, before or after mojoview, beside other import hooks."""

import subprocess
import sys

import pytest

TAIL = """
import pandas
frame = pandas.DataFrame({"x": [1.0, 2.0]})
assert frame.mojo.view("x").size == 2 and frame["x"].mojo.view().size == 2
assert frame.columns.mojo and frame["x"].array.mojo
loader = pandas.__loader__
assert loader is pandas.__spec__.loader and type(loader).__module__ != "mojoview.memory.when_imported", loader
assert loader.get_data(pandas.__file__)
assert not [f for f in sys.meta_path if type(f).__name__ == "ImportWatch"]
"""
SITUATIONS = {
    "mojoview alone does not import pandas": "import mojoview; assert 'pandas' not in sys.modules",
    "pandas first": "import pandas, mojoview",
    "a name of pandas": "import mojoview; from pandas import DataFrame",
    "a submodule of pandas": "import mojoview; import pandas.api.types",
    "mojoview imported again": "import importlib, mojoview; importlib.reload(mojoview)",
    "pandas reloaded": "import importlib, mojoview, pandas; importlib.reload(pandas)",
    "a view of NumPy memory before": "import numpy, mojoview as mv; mv.kernels.sum(mv.view(numpy.ones(3)))",
    "names of frames": "import mojoview.frames; mojoview.frames.FrameView; mojoview.frames.register()",
    "pyarrow imports pandas, under a lock": """
import importlib.util, mojoview
if importlib.util.find_spec("pyarrow"):
    import pyarrow
    pyarrow.array([1.0, 2.0])
""",
    "an import of pandas that fails": """
import os, tempfile, mojoview
with tempfile.TemporaryDirectory() as place:
    with open(os.path.join(place, "pandas.py"), "w") as file:
        file.write("raise ImportError('not now')")
    sys.path.insert(0, place)
    for _ in range(2):
        try:
            import pandas
        except ImportError as error:
            assert "not now" in str(error)
        else:
            raise AssertionError
    sys.path.remove(place)
""",
    "pandas that is not found": """
import importlib, mojoview
path, sys.path[:] = sys.path[:], []
try:
    import pandas
except ModuleNotFoundError as error:
    assert error.name == "pandas"
else:
    raise AssertionError
assert importlib.util.find_spec("pandas") is None
sys.path[:] = path
""",
    "a finder that comes first and asks the others": """
import importlib.util, mojoview
class Asking:
    busy = False
    def find_spec(self, name, path=None, target=None):
        if name != "pandas" or self.busy:
            return None
        self.busy = True
        return importlib.util.find_spec(name)
sys.meta_path.insert(0, Asking())
""",
    "a finder that comes first and does not ask": """
import importlib.machinery, mojoview
class Taking(importlib.machinery.PathFinder):
    pass
sys.meta_path.insert(0, Taking)
import pandas
assert not hasattr(pandas.DataFrame, "mojo")
import mojoview.frames
mojoview.frames.register()
sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != "ImportWatch"]
""",
    "the spec is asked for without an import": """
import importlib.util, mojoview
assert importlib.util.find_spec("pandas").origin.endswith("__init__.py")
""",
    "eight threads": """
import threading, mojoview
seen, start = [], threading.Barrier(8)
def work():
    start.wait()
    import pandas
    seen.append(hasattr(pandas.DataFrame, "mojo"))
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert seen == [True] * 8, seen
""",
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_accessors_are_registered(situation):
    program = f"import sys\n{SITUATIONS[situation]}\n{TAIL}"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
