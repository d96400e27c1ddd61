"""Handles of every kind given to worker processes: as arguments, through queues, pools and executors.

start_methods.py METHOD anonymous|named
"""

import concurrent.futures
import multiprocessing
import os
import sys

import numpy as np

import mojoview as mv
from mojoview.memory.errors import NotOwnerError


def work(state, snapshot, array):
    """What a worker sees; a writer's handle came as a reader's."""
    try:
        state.publish()
    except NotOwnerError:
        refused = True
    view = snapshot.read()
    return (
        state.refresh(),
        state.out["t"].item(),
        view.owner.version,
        float(np.asarray(view).sum()),
        float(np.asarray(array).sum()),
        refused,
    )


def from_argument(handles, answers):
    answers.put((os.getpid(), work(*handles)))


def from_queue(handles, answers):
    answers.put((os.getpid(), work(*handles.get(timeout=30))))


def fails(array, answers):
    try:
        array.read()[99]
    except IndexError as error:
        answers.put((os.getpid(), str(error)))


def main(method: str, naming: str) -> None:
    context = multiprocessing.get_context(method)
    prefix = f"methods-{os.getpid()}" if naming == "named" else None
    names = [prefix and f"{prefix}-{k}" for k in range(3)]
    state = mv.State.create(names[0], [("t", "i8"), ("q", "f8", 4)])
    snapshot = mv.Snapshot.create(names[1], (100, 3), "f4")
    array = mv.share(np.arange(10.0), names[2])
    state.out["t"] = 42
    state.publish()
    with snapshot.write() as slot:
        slot[:] = 2
    handles = (state, snapshot, array)
    expected = (1, 42, 1, 600.0, 45.0, True)
    answers = context.Queue()
    through = context.Queue()

    worker = context.Process(target=from_argument, args=(handles, answers))
    worker.start()
    assert answers.get(timeout=60) == (worker.pid, expected)
    worker.join(30)
    assert worker.exitcode == 0

    worker = context.Process(target=from_queue, args=(through, answers))
    worker.start()
    through.put(handles)
    assert answers.get(timeout=60) == (worker.pid, expected)
    worker.join(30)
    assert worker.exitcode == 0

    worker = context.Process(target=fails, args=(array, answers))
    worker.start()
    assert "out of bounds" in answers.get(timeout=60)[1]
    worker.join(30)

    with context.Pool(2) as pool:
        assert pool.starmap(work, [handles] * 4) == [expected] * 4
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        assert [future.result(60) for future in [executor.submit(work, *handles) for _ in range(4)]] == [expected] * 4
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        readers = [(state.reader(), snapshot.reader(), array) for _ in range(4)]
        assert [future.result(60) for future in [executor.submit(work, *each) for each in readers]] == [expected] * 4
        for reader in readers:
            reader[0].close()
            reader[1].close()

    assert state.refresh() == 1, "a worker's end has taken the writer's State away"
    for handle in handles:
        handle.close()
    print("ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
