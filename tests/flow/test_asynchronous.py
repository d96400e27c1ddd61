"""submit() and aio(): states, delivery, cancellation, back-pressure, failures; on asyncio, uvloop, anyio and trio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import threading
import weakref

import numpy as np
import pytest
from safety.hostile import Gate, kernel
from support.descriptors import open_files

import mojoview as mv
from mojoview import kernels
from mojoview.flow.asynchronous import _executor
from mojoview.flow.asynchronous._executor import INLINE_MAX, INLINE_MAX_BUILTIN, CallExecutor
from mojoview.flow.asynchronous.futures import FutureJob, KernelFuture
from mojoview.memory import errors

BIG = np.arange(100_000.0)
NAP = np.zeros(INLINE_MAX)  # as an argument it makes naps() a call that runs on a thread


@pytest.fixture
def threads(monkeypatch):
    """One thread and room for two calls, so that it is known which call waits."""
    one = CallExecutor(1, 2)
    monkeypatch.setattr(_executor, "EXECUTOR", one)
    yield one
    one.close(30)


@pytest.mark.parametrize(
    "array", [np.arange(4.0), BIG, mv.view(BIG), BIG[::2], memoryview(b"abc")], ids=lambda a: type(a).__name__
)
def test_submit(array):
    future = kernels.sum.submit(array)
    assert isinstance(future, concurrent.futures.Future)
    assert future.result(60) == kernels.sum(array)
    assert future.state == "COMPLETED"


def test_submit_with_options():
    table = np.ones((100, 100))
    assert kernels.sum.submit(table, axis=0, threads=2).result(60).tolist() == [100] * 100


@pytest.mark.parametrize("array", [np.ones(3, "f4"), np.ones(INLINE_MAX, "f4")], ids=["small", "large"])
def test_exceptions_are_set_on_the_future(array):
    future = kernel("naps").submit(array, 0)
    assert isinstance(future.exception(60), mv.DTypeError)
    assert future.state == "FAILED"
    with pytest.raises(mv.DTypeError):
        future.result()


@pytest.fixture
def gate(threads):
    """A kernel that occupies the only thread until the gate is opened."""
    gate = Gate(INLINE_MAX)
    yield gate
    gate.open()


def test_states_and_cancellation(gate):
    running = kernel("waits").submit(gate.array)
    waiting = kernel("naps").submit(NAP, 0)
    gate.wait_started()
    assert (running.state, waiting.state) == ("RUNNING", "PENDING")
    assert not running.cancel()
    assert waiting.cancel()
    assert waiting.state == "CANCELLED"
    with pytest.raises(concurrent.futures.TimeoutError):
        running.result(0)
    gate.open()
    assert running.result(60) is None
    assert running.state == "COMPLETED"


def test_futures_work_with_concurrent_futures(threads):
    futures = [kernels.sum.submit(BIG) for _ in range(2)]
    called = []
    futures[0].add_done_callback(called.append)
    done, rest = concurrent.futures.wait(futures, 60)
    assert (done, rest) == (set(futures), set())
    assert {f.result() for f in concurrent.futures.as_completed(futures)} == {BIG.sum()}
    assert called == [futures[0]]


def test_back_pressure(threads, gate):
    first = kernel("waits").submit(gate.array)
    gate.wait_started()
    rest = [kernel("naps").submit(NAP, 0) for _ in range(2)]
    assert threads.waiting == 2
    with pytest.raises(errors.QueueFull, match="2 asynchronous calls wait") as caught:
        threads.put(FutureJob(kernel("naps"), (NAP, 0), {}), 0.01)
    assert isinstance(caught.value, BlockingIOError)
    gate.open()
    more = [kernel("naps").submit(NAP, 0) for _ in range(20)]  # each waits for room
    for future in (first, *rest, *more):
        assert future.result(60) is None


def test_many_threads_submit(threads):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        futures = list(pool.map(lambda k: kernels.sum.submit(BIG[: INLINE_MAX_BUILTIN + k]), range(400)))
    for k, future in enumerate(futures):
        assert future.result(60) == BIG[: INLINE_MAX_BUILTIN + k].sum()


def test_arguments_are_released(threads):
    array = np.ones(INLINE_MAX_BUILTIN)
    kernels.sum.submit(array).result(60)
    kernels.sum.submit(np.ones(INLINE_MAX_BUILTIN)).result(60)
    kept = weakref.ref(array)
    del array
    gc.collect()
    assert kept() is None


def test_awaiting_without_a_loop_is_an_error():
    with pytest.raises(mv.KernelError, match="expected a running event loop of asyncio or trio"):
        kernels.sum.aio(BIG).send(None)


# -- event loops ----------------------------------------------------------------------------------------------------


def uvloop_run(main):
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    return asyncio.run if request.param == "asyncio" else uvloop_run


def test_results_are_delivered_to_the_loop(run):
    async def main():
        home = threading.get_ident()
        assert await kernels.sum.aio(np.arange(4.0)) == 6
        assert await kernels.sum.aio(BIG) == BIG.sum()
        assert await asyncio.gather(*[kernels.sum.aio(BIG[: INLINE_MAX_BUILTIN + k]) for k in range(300)]) == [
            BIG[: INLINE_MAX_BUILTIN + k].sum() for k in range(300)
        ]
        for array in (np.ones(3, "f4"), NAP.astype("f4")):
            with pytest.raises(mv.DTypeError):
                await kernel("naps").aio(array, 0)
        assert threading.get_ident() == home

    run(main())


def test_the_loop_runs_during_a_call(run, gate):
    async def main():
        task = asyncio.ensure_future(kernel("waits").aio(gate.array))
        for _ in range(3):
            await asyncio.sleep(0.01)
        assert not task.done()
        gate.open()
        await task

    run(main())
    assert gate.array[1] == 1


def test_inline_calls_yield_to_other_tasks(run):
    async def main():
        other = asyncio.ensure_future(asyncio.sleep(0, "turn"))
        while not other.done():
            await kernels.sum.aio(np.arange(4.0))
        return other.result()

    assert run(main()) == "turn"


async def started(gate):
    """Wait without blocking the loop until the kernel of the gate runs."""
    async with asyncio.timeout(60):
        while gate.array[1] == 0:
            await asyncio.sleep(0.001)


def test_cancelling_and_timeouts(run, threads, gate):
    ran = np.zeros(INLINE_MAX)

    async def main():
        running = asyncio.ensure_future(kernel("waits").aio(gate.array))
        await started(gate)
        waiting = asyncio.ensure_future(kernel("naps").aio(ran, 0))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await kernel("naps").aio(ran, 0)
        gate.open()
        await running

    run(main())
    threads.close(30)
    assert ran[0] == 0  # removed from the queue before it began


def test_waiting_for_room_does_not_block_the_loop(run, threads, gate):
    async def main():
        first = asyncio.ensure_future(kernel("waits").aio(gate.array))
        await started(gate)
        calls = [asyncio.ensure_future(kernel("naps").aio(NAP, 1)) for _ in range(30)]
        await asyncio.sleep(0.01)
        assert threads.waiting == 2
        for call in calls[10:20]:  # among them some that wait for room
            call.cancel()
        gate.open()
        await first
        return await asyncio.gather(*calls, return_exceptions=True)

    outcomes = run(main())
    assert outcomes[:10] == [None] * 10
    assert outcomes[20:] == [None] * 10
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes[10:20])


def test_a_closed_loop_does_not_stop_the_thread(gate):
    async def main():
        task = asyncio.ensure_future(kernel("waits").aio(gate.array))
        await started(gate)
        task.cancel()

    asyncio.run(main())
    gate.open()
    assert kernels.sum.submit(BIG).result(60) == BIG.sum()  # the thread goes on
    asyncio.run(asyncio.wait_for(kernels.sum.aio(BIG), 60))


def test_two_loops_at_once():
    async def main():
        return sum(await asyncio.gather(*[kernels.sum.aio(BIG) for _ in range(50)]))

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda _: asyncio.run(main()), range(2))) == [BIG.sum() * 50] * 2


def test_each_loop_has_one_pipe_and_closes_it(run):
    def pipes():
        gc.collect()
        return open_files("pipe:")

    async def one():
        return await kernels.sum.aio(BIG)

    run(one())
    before = pipes()
    loops = [asyncio.new_event_loop() for _ in range(2)]
    for _ in range(10):
        for loop in loops:
            assert loop.run_until_complete(one()) == BIG.sum()
    for loop in loops:
        loop.close()
    del loops, loop
    for _ in range(5):
        assert run(one()) == BIG.sum()
    assert len(pipes()) <= len(before) + 2  # those of the loop that ran last in this thread


@pytest.mark.parametrize("fault", [NotImplementedError(), OSError(24, "Too many open files")], ids=repr)
def test_a_loop_without_add_reader_is_an_error(fault):
    class WithoutReaders(asyncio.SelectorEventLoop):
        def add_reader(self, fd, callback, *args):
            raise type(fault)(*fault.args)

    loop = WithoutReaders()
    before = len(open_files("pipe:"))
    with pytest.raises(mv.KernelError, match="results cannot be delivered to this event loop"):
        loop.run_until_complete(kernels.sum.aio(BIG))
    gc.collect()
    assert len(open_files("pipe:")) == before
    loop.close()


def test_a_future_settled_by_its_owner_does_not_stop_the_thread(threads, capsys):
    for _ in range(2):
        gate = Gate(INLINE_MAX)
        future = kernel("waits").submit(gate.array)
        gate.wait_started()
        future.set_result("mine")
        gate.open()
    assert kernels.sum.submit(BIG).result(60) == BIG.sum()  # the only thread goes on
    assert future.result() == "mine"
    assert capsys.readouterr().err.count("InvalidStateError: ") == 2


def test_a_thread_that_cannot_be_started_is_an_error(monkeypatch):
    none = CallExecutor(2, 2)
    monkeypatch.setattr(_executor, "EXECUTOR", none)

    def start(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(mv.KernelError, match=r"sum\(\): no thread .* can be started"):
            kernels.sum.submit(BIG)
    assert none.waiting == 0
    assert kernels.sum.submit(BIG).result(60) == BIG.sum()
    none.close(30)
    with pytest.raises(mv.KernelError, match="shutting down"):
        kernels.sum.submit(BIG)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_anyio(backend, gate):
    anyio = pytest.importorskip("anyio")
    if backend == "trio":
        pytest.importorskip("trio")
    results = []

    async def one(size):
        results.append(await kernels.sum.aio(BIG[:size]))

    async def main():
        await one(10)
        async with anyio.create_task_group() as group:
            for k in range(20):
                group.start_soon(one, INLINE_MAX_BUILTIN + k)
        with pytest.raises(mv.DTypeError):
            await kernel("naps").aio(NAP.astype("f4"), 0)
        with anyio.move_on_after(0.05) as scope:
            await kernel("waits").aio(gate.array)
        assert scope.cancelled_caught
        gate.open()
        await one(INLINE_MAX_BUILTIN)

    anyio.run(main, backend=backend)
    assert sorted(results) == sorted(
        [BIG[:10].sum(), BIG[:INLINE_MAX_BUILTIN].sum(), *(BIG[: INLINE_MAX_BUILTIN + k].sum() for k in range(20))]
    )


def test_future_type():
    assert isinstance(kernels.sum.submit(BIG), KernelFuture)
