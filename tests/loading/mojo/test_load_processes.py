"""`load` in several processes: one compiles, the others wait; killed processes leave no files."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import mojoview as mv
from mojoview.loading.mojo import cache
from mojoview.memory import errors

CALL = "import sys, mojoview as mv; sys.exit(mv.load(sys.argv[1]).add(1.5, 2.0) != 3.5)"


def start(source, code=CALL):
    return subprocess.Popen([sys.executable, "-c", code, str(source)], stderr=subprocess.PIPE, text=True)


def alive(pid):
    """Return whether a process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition):
    while not condition():  # the time limit of the suite ends what never comes
        time.sleep(0.02)


def test_processes_that_load_at_once_compile_once(fake):
    fake.mode("slow")
    processes = [start(fake.source) for _ in range(4)]
    assert [(p.communicate()[1], p.returncode) for p in processes] == [("", 0)] * 4
    assert len(fake.builds) == 1
    assert fake.left_over() == []


def test_threads_that_load_at_once_compile_once(fake):
    fake.mode("slow")
    results = []
    threads = [threading.Thread(target=lambda: results.append(mv.load(fake.source).add(1, 2))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [3.0] * 4
    assert len(fake.builds) == 1
    assert fake.left_over() == []


def test_without_locks_all_may_compile_and_all_are_right(fake, monkeypatch):
    fake.mode("slow")
    code = "import mojoview.loading.mojo.cache as c; c._try_lock = lambda descriptor: None; " + CALL
    processes = [start(fake.source, code) for _ in range(3)]
    assert [(p.communicate()[1], p.returncode) for p in processes] == [("", 0)] * 3
    assert len(fake.builds) > 1
    assert mv.load(fake.source).add(1, 2) == 3
    assert fake.left_over() == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_kills_the_compiler_and_leaves_nothing(fake, how):
    fake.mode("hang")
    code = "import signal; signal.signal(signal.SIGTERM, lambda *a: sys.exit(3)); " + CALL
    process = start(fake.source, "import sys; " + code)
    until(lambda: sum(line.startswith("child") for line in fake.lines) == 3)
    pids = [int(line.split()[1]) for line in fake.lines]
    assert len(pids) == 6
    assert all(map(alive, pids))
    process.send_signal(how)
    said = process.communicate()[1]
    assert ("KeyboardInterrupt" in said) == (how == signal.SIGINT)
    assert process.returncode == (-signal.SIGINT if how == signal.SIGINT else 3)
    until(lambda: not any(map(alive, pids)))
    assert fake.left_over() == []


def test_timeout_kills_the_compiler(fake):
    fake.mode("hang")
    with pytest.raises(errors.CompileTimeoutError, match="not finished within 1 s; it was killed") as caught:
        mv.load(fake.source, timeout=1)
    assert isinstance(caught.value, TimeoutError)
    until(lambda: not any(alive(int(line.split()[1])) for line in fake.lines))
    assert fake.left_over() == []


def test_progress_that_raises_kills_the_compiler(fake):
    def progress(text):
        if " s" in text:
            raise BrokenPipeError("nobody reads")

    fake.mode("hang")
    with pytest.raises(BrokenPipeError, match="nobody reads"):
        mv.load(fake.source, progress=progress)
    until(lambda: not any(alive(int(line.split()[1])) for line in fake.lines))
    assert fake.left_over() == []


def test_waiting_for_another_process_has_its_timeout(fake):
    fake.mode("hang")
    process = start(fake.source)
    until(lambda: fake.builds)
    with pytest.raises(errors.CompileTimeoutError, match=r"another process .* within 0.2 s \(it holds .*\.lock\)"):
        mv.load(fake.source, timeout=0.2)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert fake.left_over() == []


def test_files_of_a_killed_process_block_no_other_process(fake):
    fake.mode("hang")
    process = start(fake.source)
    until(lambda: sum(line.startswith("child") for line in fake.lines) == 3)
    process.kill()
    process.communicate()
    assert len(fake.left_over()) == 2
    for line in fake.lines:
        os.kill(int(line.split()[1]), signal.SIGKILL)
    fake.mode("")
    assert mv.load(fake.source).add(1, 2) == 3
    assert fake.left_over() == []


def test_lock_is_released_although_a_child_shares_it(fake):
    store, path, entered = cache.Cache.open(fake.cache), fake.cache / "k.lock", threading.Event()

    def wait():
        with store.lock("k", 60):
            entered.set()

    thread = threading.Thread(target=wait)
    with store.lock("k", 60):
        thread.start()
        until(lambda: len(descriptors(path)) == 2)
        sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
        child = subprocess.Popen(sleeper, pass_fds=descriptors(path))
    until(entered.is_set)
    assert child.poll() is None
    child.kill()
    child.wait()
    thread.join()


def test_lock_on_a_removed_file_is_not_a_lock(fake):
    store, entered = cache.Cache.open(fake.cache), threading.Event()
    path = fake.cache / "k.lock"

    def wait():
        with store.lock("k", 60):
            entered.set()

    with open(path, "w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: len(descriptors(path)) == 2)
        path.unlink()
        with store.lock("k", 60):  # of a new file
            fcntl.flock(first, fcntl.LOCK_UN)
            assert not entered.wait(0.5)
        thread.join()
    assert entered.is_set()


def descriptors(path):
    """Our own of a file that is open."""
    links = {fd: f"/proc/self/fd/{fd}" for fd in map(int, os.listdir("/proc/self/fd"))}
    return [fd for fd, link in links.items() if os.path.exists(link) and os.path.samefile(link, path)]


def test_loaded_kernels_work_in_a_forked_child(fake):
    code = """
import os, sys, warnings, mojoview as mv
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 counts the threads of NumPy's BLAS
module = mv.load(sys.argv[1])
if (pid := os.fork()) == 0:
    os._exit(0 if module.add(1.5, 2) == 3.5 and mv.load(sys.argv[1]).add(1, 2) == 3 else 9)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) or module.add(1.5, 2) != 3.5)
"""
    process = start(fake.source, code)
    assert (process.communicate()[1], process.returncode) == ("", 0)
