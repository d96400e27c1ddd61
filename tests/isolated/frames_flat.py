"""Call the accessors' methods up to 1e5 times, successfully and not, and check that references, leases, pins and memory
do not grow.

Run as a script, with the share of the calls to make and the names of cases (default: all), since objects of other
tests would disturb the counts.
"""

import gc
import sys
from weakref import ref

import numpy as np
import pandas as pd
import psutil

import mojoview as mv
from mojoview.memory._lease import live_leases
from mojoview.memory.errors import MojoViewError

if int(pd.__version__.split(".")[0]) < 3:
    pd.set_option("mode.copy_on_write", True)

DF = pd.DataFrame({"x": np.arange(8.0), "y": np.arange(8.0), "n": np.arange(8)})
ODD = pd.DataFrame(
    {
        "x": np.arange(8.0),
        "m": pd.array([1, None] * 4, dtype="Int64"),
        "o": [object()] * 8,
        "be": np.arange(8, dtype=">i4"),
    }
)
S, INDEX = DF["x"].copy(), pd.Index(np.arange(8.0))


def refused(call):
    try:
        call()
    except MojoViewError:
        return
    raise AssertionError("expected a refusal")


def lease():
    with DF.mojo.lease("n") as v:
        v[0] = 1


def escaping_lease():
    kept = []

    def body():
        with DF.mojo.lease("n") as v:
            kept.append(v[1:])

    refused(body)
    kept[0].release()


def refused_lease():
    view = DF.mojo.view("x")

    def body():
        with DF.mojo.lease("x"):
            raise AssertionError

    refused(body)
    view.release()


def refused_view_in_lease():
    with DF.mojo.lease("x"):
        refused(lambda: DF.mojo.view("x"))


def assign():
    DF.mojo.assign("y", mv.view(np.zeros(8), writable=True))


def arrow_frame():
    try:
        import pyarrow as pa
    except ImportError:
        return None
    chunked = pa.chunked_array([[1, None], [3]])
    return pd.DataFrame(
        {
            "n": pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array([1, None, 3])])),
            "s": pd.array(["a", None, "b"], dtype="string[pyarrow]"),
            "k": pd.arrays.ArrowExtensionArray(chunked),
        }
    )


ARROW = arrow_frame()
C_ORDER = pd.DataFrame(np.zeros((4, 3)), columns=["a", "b", "c"], copy=False)
MULTI = pd.MultiIndex.from_product([[1, 2], ["a", "b"]])

# name: (call, how many thousand times)
CASES = {
    "view": (lambda: DF.mojo.view(), 100),
    "view_column": (lambda: DF.mojo.view("x"), 100),
    "view_list": (lambda: DF.mojo.view(["y", "n"])["n"], 20),
    "iview": (lambda: DF.mojo.iview(-1), 100),
    "items": (lambda: [c for _, c in DF.mojo.view().items()], 20),
    "series": (lambda: S.mojo.view(), 100),
    "index": (lambda: INDEX.mojo.view(), 100),
    "masked": (lambda: ODD.mojo.view("m", na="mask"), 50),
    "copied": (lambda: ODD.mojo.view("be", copy="if_needed"), 50),
    "asarray": (lambda: np.asarray(DF.mojo.view("x")), 100),
    "block": (lambda: DF.mojo.block("float64"), 10),
    "blocks": (lambda: DF.mojo.blocks(), 5),
    "stale": (lambda: DF.mojo.view().stale, 50),
    "repr": (lambda: (repr(DF.mojo), DF.mojo._repr_html_(), repr(DF.mojo.view("x"))), 2),
    "explain": (lambda: DF.mojo.explain(), 1),
    "lease": (lease, 20),
    "assign": (assign, 5),
    "refused_view": (lambda: refused(lambda: ODD.mojo.view()), 20),
    "refused_column": (lambda: refused(lambda: ODD.mojo.view("o")), 50),
    "refused_mask": (lambda: refused(lambda: ODD.mojo.view("m")), 20),
    "refused_label": (lambda: refused(lambda: ODD.mojo.view("zz")), 50),
    "refused_option": (lambda: refused(lambda: DF.mojo.view(copy="maybe")), 50),
    "refused_block": (lambda: refused(lambda: DF.mojo.block()), 10),
    "refused_lease": (refused_lease, 10),
    "refused_view_in_lease": (refused_view_in_lease, 10),
    "refused_assign": (lambda: refused(lambda: DF.mojo.assign("x", np.zeros(3))), 20),
    "escaping_lease": (escaping_lease, 10),
    "level": (lambda: MULTI.mojo.view(level=1), 50),
    "to_pandas": (lambda: ODD.mojo.view(["x", "m"], na="mask").to_pandas(), 1),
    "to_series": (lambda: DF.mojo.view("x").to_series(), 5),
    "stream": (lambda: DF.mojo.view().__arrow_c_stream__(), 10),
    "read_stream": (lambda: mv.view(DF.mojo.view()), 5),
    "refused_stream": (lambda: refused(lambda: C_ORDER.mojo.view().__arrow_c_stream__()), 10),
}
if ARROW is not None:
    CASES |= {
        "arrow_column": (lambda: ARROW.mojo.view("n", na="mask"), 20),
        "arrow_text": (lambda: ARROW.mojo.view("s", na="mask").bytes, 20),
        "arrow_chunks": (lambda: ARROW.mojo.view("k", na="mask"), 10),
        "arrow_frame": (lambda: list(ARROW.mojo.view(na="mask").values()), 5),
        "arrow_explain": (lambda: (ARROW.mojo.explain(), repr(ARROW.mojo)), 1),
        "arrow_combined": (lambda: ARROW.mojo.view("k", na="mask", copy="if_needed"), 5),
        "to_table": (lambda: ARROW.mojo.view(na="mask").to_arrow(), 5),
        "arrow_to_pandas": (lambda: ARROW.mojo.view(na="mask").to_pandas(), 1),
        "refused_arrow": (lambda: refused(lambda: ARROW.mojo.view("n")), 10),
    }


def tracked():
    """Count the collector's objects since `main` froze the others, except weak references.

    pandas drops those of dead pins about 500 at once.
    """
    return sum(type(obj) is not ref for obj in gc.get_objects())


def counts():
    gc.collect()
    refs = [sys.getrefcount(obj) for obj in (None, DF, ODD, S, INDEX, DF.columns, ODD.columns)]
    pins = sum(len(block.refs.referenced_blocks) for df in (DF, ODD) for block in df._mgr.blocks)
    return refs, live_leases(), pins, tracked()


def check(name, share):
    call, thousands = CASES[name]
    gc.disable()  # so that objects in cycles stay, and are counted
    for _ in range(600):  # more than pandas waits for before it drops dead pins
        call()
    before, memory = counts(), psutil.Process().memory_info().rss
    for _ in range(int(thousands * 1000 * share)):
        call()
    objects = tracked()
    after, grown = counts(), psutil.Process().memory_info().rss - memory
    assert after[1] == before[1], f"leases: {before[1]} -> {after[1]}"
    for old, new in zip(before[0], after[0], strict=True):
        assert abs(new - old) < 500, f"references: {before[0]} -> {after[0]}"
    blocks = len(DF._mgr.blocks) + len(ODD._mgr.blocks)
    assert after[2] < 600 * blocks, (
        f"pins registered: {after[2]} in {blocks} blocks"
    )  # pandas clears dead ones lazily, about 500 at once
    assert abs(objects - before[3]) < 500, f"objects that only the collector frees: {objects - before[3]}"
    assert grown < 8 << 20, f"memory grew by {grown} bytes"


def main(share, names):
    gc.collect()
    gc.freeze()  # the counts need not go through all of pandas
    for name in names:
        try:
            check(name, share)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None
        print(name)


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:] or CASES)
