"""The processes of `chaos.py`, one function each, and the ledger in which they count what they did.

Each value that a role writes can be checked by itself: every word of a record follows from its first. A role counts an
operation before and after it, in a file that outlives a SIGKILL; `chaos.py` compares the counts of both sides.
"""

import gc
import json
import mmap
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

import mojoview as mv
from mojoview.memory.errors import (
    BrokenFrame,
    KernelCrashed,
    KernelError,
    KernelTimeout,
    MojoViewError,
    NotReady,
    OwnerGone,
    PeerGone,
    SegmentExists,
    SegmentNotFound,
    ShmFullError,
    WaitTimeout,
)

ROLES = 24  # lines of the ledger
COUNTERS = ("operations", "done", "torn", "lost", "backwards", "failed", "again", "descriptors", "first_descriptors")
LIVES = 1 << 16  # lives of producers: each start of one is a life of its own
STATE = np.dtype([("words", "u8", (10,))])
ODD = np.uint64(0x9E3779B97F4A7C15)
MODES = {"spsc": 1, "mpsc": 2, "broadcast": 1}  # ring -> producers


class Ledger:
    """Counts of all roles, in a file that all processes map."""

    def __init__(self, path, create=False):
        words = 8 + ROLES * len(COUNTERS) + 3 * LIVES
        with open(path, "w+b" if create else "r+b") as file:
            if create:
                file.truncate(words * 8)
            self.memory = np.frombuffer(mmap.mmap(file.fileno(), words * 8), np.int64)
        self.phase = self.memory[:1]  # 0: run; 1: producers end; 2: everybody ends
        self.roles = self.memory[8 : 8 + ROLES * len(COUNTERS)].reshape(ROLES, len(COUNTERS))
        # per life of a producer: messages begun, messages whose write returned, messages received
        self.begun, self.written, self.received = self.memory[8 + ROLES * len(COUNTERS) :].reshape(3, LIVES)


class Counts:
    """The counters of one role; the notes say what was wrong."""

    def __init__(self, ledger, role, name, notes):
        object.__setattr__(self, "row", ledger.roles[role])
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "notes", notes)

    def __getattr__(self, name):
        return int(self.row[COUNTERS.index(name)])

    def __setattr__(self, name, value):
        self.row[COUNTERS.index(name)] = value

    def fault(self, counter, text):
        setattr(self, counter, getattr(self, counter) + 1)
        with open(self.notes, "a") as file:
            file.write(f"{counter}: {self.name}: {text}\n")

    def end_of_step(self):
        """Count an operation, and once in a while the descriptors."""
        self.operations += 1
        if self.operations % 512 == 0:
            self.descriptors = len(os.listdir("/proc/self/fd"))
            if not self.first_descriptors:
                self.first_descriptors = self.descriptors


def words_of(first, count):
    """Return `count` words that follow from the first."""
    with np.errstate(over="ignore"):
        return np.uint64(first) + np.arange(count, dtype=np.uint64) * ODD


def attach(make):
    """Attach to something that another role is about to create."""
    for _ in range(20_000):
        try:
            return make()
        except (SegmentNotFound, NotReady):
            time.sleep(0.001)
    raise TimeoutError(f"{make}: nothing to attach to")


def take_over_or(create, take_over):
    """Return what a first writer creates, or what a later one takes over when the last one has died."""
    for _ in range(20_000):
        try:
            return take_over()
        except SegmentNotFound:
            return create()
        except SegmentExists:  # the system has not ended the last writer yet
            time.sleep(0.001)
    raise TimeoutError("the last writer does not end")


# -- newest values -----------------------------------------------------------------------------------------------------


def state_writer(counts, running, **_):
    state = take_over_or(lambda: mv.State.create("state", STATE), lambda: mv.State.take_over("state", STATE))
    number = int(state.out["words"][0])
    if number < counts.done:
        counts.fault("lost", f"state: {counts.done} was published, the successor finds {number}")
    while running():
        number += 1
        state.out["words"] = words_of(number, 10)
        state.publish()
        counts.done = number
        counts.end_of_step()
    state.close()


def snapshot_writer(counts, running, **_):
    shape = (1 << 14,)
    snapshot = take_over_or(
        lambda: mv.Snapshot.create("snapshot", shape, "u8"), lambda: mv.Snapshot.take_over("snapshot")
    )
    last = snapshot.read()
    number = 0 if last is None else int(np.asarray(last)[0])
    del last
    if number < counts.done:
        counts.fault("lost", f"snapshot: {counts.done} was published, the successor finds {number}")
    while running():
        number += 1
        with snapshot.write(busy="grow") as array:
            array[:] = words_of(number, array.size)
        counts.done = number
        counts.end_of_step()
    snapshot.close()


def frame_of(number):
    import pandas as pd

    rows = np.arange(300)
    return pd.DataFrame(
        {
            "a": rows + number,
            "b": (rows + number) * 0.5,
            "c": pd.array(rows + number, "Int64"),
            "d": pd.Categorical.from_codes((rows + number) % 3, ["x", "y", "z"]),
            "e": [f"v{number}"] * rows.size,
        }
    )


def number_of(frame):
    """Return the number whose frame it is, or None if columns disagree."""
    number = int(frame["a"].iloc[0])
    expected = frame_of(number)
    return number if all(frame[name].tolist() == expected[name].tolist() for name in expected) else None


def frame_writer(counts, running, **_):
    def take_over():
        return mv.SharedFrame.take_over("frame")

    shared = take_over_or(lambda: frame_of(0).mojo.share("frame"), take_over)
    if not shared.version:  # the first writer died before its first publication
        shared.publish(frame_of(0))
    number = number_of(shared.read())
    if number is None or number < counts.done:
        counts.fault("lost", f"frame: {counts.done} was published, the successor finds {number}")
        number = counts.done
    while running():
        number += 1
        shared.publish(frame_of(number))
        counts.done = number
        counts.end_of_step()
    shared.close()


def newest_reader(counts, running, ledger, writer, read):
    """Read the newest value again and again: whole, and never older than what was published before the read."""
    seen = counts.done
    while running():
        published = int(ledger.roles[writer][COUNTERS.index("done")])
        number = read()
        if number is None:
            counts.fault("torn", "columns or words of different publications")
        elif number < seen or number < published:
            counts.fault("backwards", f"read {number} after {seen}; {published} was published")
        else:
            seen = counts.done = number
        counts.end_of_step()


def whole(words):
    words = np.asarray(words)
    return int(words[0]) if (words == words_of(words[0], words.size)).all() else None


def state_reader(counts, running, ledger, writer, **_):
    state, child = attach(lambda: mv.State.attach("state", STATE)), 0

    def read_in_child():
        """Read by a handle of its own, and by the parent's, and end."""
        status = 77
        try:
            fresh = attach(lambda: mv.State.attach("state", STATE)).read()
            status = 0 if None not in (whole(fresh["words"]), whole(state.read()["words"])) else 78
        finally:
            os._exit(status)

    def read():
        state.poll()
        nonlocal child
        if counts.operations % 4096 == 0:
            child = os.fork()
            if child == 0:
                read_in_child()
        elif child and counts.operations % 4096 == 100:
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if status not in (0, -signal.SIGKILL):
                counts.fault("failed", f"a forked child ended with status {status}")
            child = 0
        return whole(state.out["words"])

    while not state.poll() and running():
        time.sleep(0.001)
    newest_reader(counts, running, ledger, writer, read)
    state.close()


def snapshot_reader(counts, running, ledger, writer, **_):
    snapshot = attach(lambda: mv.Snapshot.attach("snapshot"))
    while snapshot.read() is None and running():
        time.sleep(0.001)
    newest_reader(counts, running, ledger, writer, lambda: whole(snapshot.read()))
    snapshot.close()


def frame_reader(counts, running, ledger, writer, **_):
    shared = attach(lambda: mv.attach("frame"))
    newest_reader(counts, running, ledger, writer, lambda: number_of(shared.read(timeout=20)))
    shared.close()


# -- rings -------------------------------------------------------------------------------------------------------------


def producer(counts, running, ledger, ring, life, rng, **_):
    handle = attach(lambda: mv.Ring.attach(ring, wait_for_peer=True))
    index, pending = 0, None
    while running():
        if pending is None:
            index += 1
            pending = words_of((life << 40) + index, rng.choice((1, 2, 3, 7, 33, 120)))
            ledger.begun[life] = index
        try:
            handle.write(pending.tobytes(), timeout=0.2)
        except (WaitTimeout, PeerGone):  # nobody reads: later, the same message
            counts.end_of_step()
            continue
        except mv.memory.errors.Busy:  # the system has not ended the last producer yet
            time.sleep(0.001)
            continue
        pending = None
        ledger.written[life] = index
        counts.done += 1
        counts.end_of_step()
    handle.close()


def message_of(counts, payload):
    """Return life and index of a message, or None if it is torn."""
    words = np.frombuffer(payload, "u8")
    first = whole(words) if words.size else None
    if first is None:
        counts.fault("torn", f"a message of {words.size} words is damaged")
        return None
    return first >> 40, first & ((1 << 40) - 1)


def batches(counts, handle, running):
    """Yield batches until the producers have ended and nothing is left."""
    idle = 0
    while running() or idle < 20:
        try:
            batch = handle.read(64, timeout=0.1)
        except (WaitTimeout, PeerGone):
            idle += 1
            counts.end_of_step()
            time.sleep(0.001)
            continue
        except mv.memory.errors.Busy:  # the system has not ended the last reader yet
            time.sleep(0.001)
            continue
        except BrokenFrame as error:
            counts.fault("torn", f"{error}")
            continue
        idle = 0 if len(batch) else idle + 1  # empty: every producer has closed the ring
        yield batch
        counts.end_of_step()


def consumer(counts, running, ledger, ring, **_):
    """Read a lossless ring: each life's messages arrive one after the other, again only after a reader died."""
    handle = attach(lambda: mv.Ring.attach(ring, wait_for_peer=True))
    fresh = set()  # lives of which this reader has had a message that no earlier one had
    for batch in batches(counts, handle, running):
        frame = None
        for frame in batch:
            message = message_of(counts, frame)
            if message is None:
                continue
            life, index = message
            last = int(ledger.received[life])
            if index <= last:
                if life in fresh:
                    counts.fault("lost", f"{ring}: message {index} of life {life} came twice to one reader")
                counts.again += 1
                continue
            if index != last + 1:
                counts.fault("lost", f"{ring}: after message {last} of life {life} came {index}")
            fresh.add(life)
            ledger.received[life] = index
            counts.done += 1
        del frame  # a batch cannot be released while one of its frames is in use
        batch.release()
    handle.close()


def lossy_reader(counts, running, ring, observe=False, **_):
    """Read as one of many: whole messages, numbers that grow, and every gap counted."""
    handle = attach(lambda: mv.Ring.attach(ring, observe=observe, wait_for_peer=True))
    last, lost = {}, None  # by producer: the number of its last frame; frames that are missing between them
    for batch in batches(counts, handle, running):
        frame = None
        for frame in batch:
            message_of(counts, frame)
            producer, counts.done = frame.source % 64, counts.done + 1
            if producer in last:
                if frame.seq <= last[producer]:
                    counts.fault("backwards", f"frame {frame.seq} of producer {producer} after {last[producer]}")
                lost += frame.seq - last[producer] - 1
            elif lost is None:
                lost = handle.lost
            last[producer] = frame.seq
        del frame  # a batch cannot be released while one of its frames is in use
        batch.release()
        if last and handle.lost < lost:
            counts.fault("lost", f"{lost} frames are missing, the reader reports {handle.lost}")
            lost = handle.lost
    handle.close()


# -- calls -------------------------------------------------------------------------------------------------------------

C_KERNELS = """
#include <signal.h>
#include <stddef.h>
#include <unistd.h>
double total(size_t n, const double *x) { double s = 0; for (size_t i = 0; i < n; i++) s += x[i]; return s; }
double wild(size_t n, const double *x) { return *(volatile double *)(n * 8 + 1); }
double dies(size_t n, const double *x) { raise(SIGABRT); return 0; }
double hangs(size_t n, const double *x) { for (;;) pause(); return 0; }
double leaks(size_t n, const double *x) { return fork() ? 0 : (sleep(1), _exit(0), 0); }
"""


def caller(counts, running, library, rng, **_):
    """Make isolated calls from threads; good calls have the right answer beside all that goes wrong."""
    kernels = mv.load_library(
        library,
        "\n".join(f"double {name}(size_t n, const double *x);" for name in ("total", "wild", "dies", "hangs", "leaks")),
    )
    data = np.arange(1000.0)
    lock = threading.Lock()

    def call(name):
        kernel = getattr(kernels, name)
        try:
            answer = mv.safe_call(kernel, data, isolate=True, timeout=0.3 if name == "hangs" else 20)
        except KernelCrashed as error:
            # a kill from outside may meet any call
            right = name in ("wild", "dies") or error.signal == signal.SIGKILL
            text = f"{type(error).__name__}: {error}"
        except KernelTimeout as error:
            right, text = name == "hangs", f"{type(error).__name__}: {error}"
        except KernelError as error:  # or a worker that is starting
            right, text = "did not start" in str(error), f"{type(error).__name__}: {error}"
        else:
            right, text = name in ("total", "leaks") and (name != "total" or answer == data.sum()), f"answer {answer}"
        with lock:
            if not right:
                counts.fault("failed", f"isolated {name}(): {text}")
            counts.done += 1
            counts.end_of_step()

    def work(seed):
        choose = random.Random(seed)
        while running():
            call(choose.choices(("total", "wild", "dies", "hangs", "leaks"), (960, 12, 12, 4, 12))[0])

    threads = [threading.Thread(target=work, args=(rng.random(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# -- damage ------------------------------------------------------------------------------------------------------------


def prober(counts, running, rng, directory, small, **_):
    """Attach to damaged copies of living segments; create without descriptors, without disk, above the limit."""
    import resource

    place = Path(directory)
    kinds = (mv.attach, lambda name: mv.State.attach(name), mv.Snapshot.attach, mv.Ring.attach)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def expect(what, errors, action):
        try:
            thing = action()
        except errors:
            return
        except BaseException as error:
            counts.fault("failed", f"{what}: {type(error).__name__}: {error}")
            return
        close = getattr(thing, "close", getattr(thing, "release", None))
        if close is not None:
            close()

    def damaged():
        sources = [path for path in place.iterdir() if not path.name.startswith("chaos-damaged")]
        if not sources:
            return
        try:
            content = bytearray(rng.choice(sources).read_bytes())
        except FileNotFoundError:
            return
        if not content:
            return
        if rng.random() < 0.5:
            del content[rng.randrange(len(content)) :]
        for _ in range(rng.choice((0, 1, 8))):
            if content:
                content[rng.randrange(min(len(content), rng.choice((64, 4096, 1 << 20))))] ^= 1 << rng.randrange(8)
        copy = place / "chaos-damaged"
        copy.touch(0o600)
        copy.write_bytes(content)

        def use():
            thing = rng.choice(kinds)("chaos-damaged")
            if isinstance(thing, mv.Ring):
                thing.read(timeout=0)
            elif hasattr(thing, "read"):
                thing.read()
            return thing

        expect("a damaged segment", MojoViewError, use)
        expect("the list of segments", MojoViewError, mv.segments)
        copy.unlink(missing_ok=True)

    def no_descriptors():
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, hard))
        try:
            expect("no descriptors", MojoViewError, lambda: mv.State.create(None, STATE))
            expect("no descriptors", MojoViewError, lambda: mv.State.attach("state", STATE))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def no_disk():
        if small is None:
            return
        os.environ["MOJOVIEW_SHM_DIR"] = small
        try:
            expect("a full disk", ShmFullError, lambda: mv.Snapshot.create("big", (1 << 24,), "u8"))
            if os.listdir(small):
                counts.fault("failed", f"a full disk: {os.listdir(small)} stayed")
        finally:
            os.environ["MOJOVIEW_SHM_DIR"] = directory

    def limited_files():
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
        try:
            expect("a file size limit", MojoViewError, lambda: mv.Snapshot.create(None, (1 << 20,), "u8"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, handler)

    while running():
        rng.choice((damaged, damaged, damaged, no_descriptors, no_disk, limited_files))()
        counts.done += 1
        counts.end_of_step()
        time.sleep(0.002)


FUNCTIONS = {
    function.__name__: function
    for function in (
        state_writer,
        state_reader,
        snapshot_writer,
        snapshot_reader,
        frame_writer,
        frame_reader,
        producer,
        consumer,
        lossy_reader,
        caller,
        prober,
    )
}


def main(arguments):
    options = json.loads(arguments)
    ledger = Ledger(options["ledger"])
    counts = Counts(ledger, options["role"], options["name"], options["notes"])
    counts.first_descriptors = counts.descriptors = 0
    last_phase = options.pop("last_phase")

    def running():
        return ledger.phase[0] < last_phase

    rng = random.Random(options.pop("seed"))
    try:
        FUNCTIONS[options["function"]](counts, running, rng=rng, **{**options, "ledger": ledger})
    except OwnerGone:
        if running():  # somebody was killed; the next life attaches to the successor
            sys.exit(3)
    gc.collect()


if __name__ == "__main__":
    main(sys.argv[1])
