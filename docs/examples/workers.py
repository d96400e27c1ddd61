"""Share a frame, an array and a state with all kinds of workers: threads, processes under each start method, executors,
joblib. What travels to a worker is the identity of the memory, never its contents; what a worker gets reads.

    python docs/examples/workers.py [threads|fork|spawn|forkserver|executor|joblib ...]
"""

import multiprocessing
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pandas as pd

import mojoview as mv

EXPECTED = (1, 4.0, 45.0)


def work(state, frame, array):
    """Return the state's number, a sum over the frame and a sum over the array."""
    return state.refresh(), float(frame.read()["price"].sum()), float(np.asarray(array).sum())


def report(answers, *shared):
    answers.put(work(*shared))


def threads(state, frame, array):
    """Run in threads: a handle belongs to one thread at a time, so each thread gets its own reader."""
    results = []

    def run(reader):
        with reader:
            results.append(work(reader, frame, array))

    workers = [threading.Thread(target=run, args=(state.reader(),)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    with ThreadPoolExecutor(2) as executor:
        futures = [executor.submit(run, state.reader()) for _ in range(4)]
    return results if all(future.exception() is None for future in futures) else []


def processes(method, *shared):
    """Run in processes: handles are passed as arguments, and through a pool."""
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    workers = [context.Process(target=report, args=(answers, *shared)) for _ in range(2)]
    for worker in workers:
        worker.start()
    results = [answers.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    with context.Pool(2) as pool:
        return results + pool.starmap(work, [shared] * 4)


def executor(*shared):
    with ProcessPoolExecutor(2) as workers:
        return [future.result(60) for future in [workers.submit(work, *shared) for _ in range(4)]]


def joblib_workers(*shared):
    import joblib

    return joblib.Parallel(2)(joblib.delayed(work)(*shared) for _ in range(4))


def main(*kinds):
    df = pd.DataFrame({"price": [1.5, 2.5], "city": pd.Categorical(["Rome", "Oslo"])})
    with mv.State.create(None, "f8") as state, df.mojo.share(None) as frame, mv.share(np.arange(10.0)) as array:
        state.publish()
        ways = {
            "threads": threads,
            **{method: lambda *shared, m=method: processes(m, *shared) for method in ("fork", "spawn", "forkserver")},
            "executor": executor,
            "joblib": joblib_workers,
        }
        for kind in kinds or ways:
            results = ways[kind](state, frame, array)
            assert results, kind
            assert all(result == EXPECTED for result in results), (kind, results)
            print(f"{kind}: {len(results)} workers read the same memory")


if __name__ == "__main__":
    main(*sys.argv[1:])
