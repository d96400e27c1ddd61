"""Kill, stop, fork, damage and starve a running system, and count what it lost.

State, Snapshot, SharedFrame, three rings and isolated calls run in about twenty processes (`chaos_roles.py`). This
program injects faults into them at random: SIGKILL, SIGSTOP and SIGCONT, kills of worker processes, lives in another
time namespace (their monotonic clock differs by a day), damaged copies of living segments, full disks, no descriptors,
limits of file sizes. Each role checks each value that it reads and counts its operations in a ledger. At the end the
ledger must show nothing lost, torn, stuck or leaked. If it does not, the program leaves out kinds of faults as long as
the run still fails, and prints the command that repeats it. Exit status 0 or 1.

    python benchmarks/chaos.py --seconds 60
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import mojoview as mv

sys.path.insert(0, str(Path(__file__).parent))
from chaos_roles import C_KERNELS, COUNTERS, LIVES, MODES, Ledger

FAULTS = ("kill", "stop", "worker", "clock", "damage")
STUCK = 30.0  # seconds without an operation, on a loaded machine, while the role itself is neither stopped nor dead


class Role:
    """A process that is started again whenever it dies, and its line of the ledger."""

    def __init__(self, chaos, number, name, function, last_phase=2, **options):
        self.chaos, self.number, self.name, self.last_phase = chaos, number, name, last_phase
        self.options = {"function": function, "role": number, "name": name, "last_phase": last_phase, **options}
        self.process, self.lives, self.killed, self.stopped = None, 0, False, False
        self.operations, self.moved = -1, time.monotonic()

    def start(self, clock=()):
        chaos = self.chaos
        options = {
            **self.options,
            "seed": chaos.random.random(),
            "ledger": str(chaos.ledger_path),
            "notes": str(chaos.notes),
        }
        if self.options["function"] == "producer":
            options["life"] = chaos.life = chaos.life + 1
            if chaos.life >= LIVES:
                raise SystemExit("more lives of producers than the ledger has room for")
            if self.options["ring"] != "broadcast":
                chaos.lossless.append(chaos.life)
        program = [sys.executable, str(Path(__file__).with_name("chaos_roles.py")), json.dumps(options)]
        self.process = subprocess.Popen([*clock, *program], stderr=chaos.errors, start_new_session=True)
        self.killed, self.lives, self.moved = False, self.lives + 1, time.monotonic()

    def signal(self, number):
        """Signal the role and what it started (a forked child, a shell in another time namespace)."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def watch(self):
        """Start the role again when it has died; return what is wrong with it, or None."""
        status = self.process.poll()
        if status is not None:
            if self.chaos.ledger.phase[0] >= self.last_phase:
                return None if status in (0, 3) or self.killed else f"{self.name} ended with status {status}"
            wrong = None if self.killed or status == 3 else f"{self.name} ended with status {status}"
            self.start()
            return wrong
        operations = int(self.chaos.ledger.roles[self.number][0])
        if operations != self.operations or self.stopped:
            self.operations, self.moved = operations, time.monotonic()
        if time.monotonic() - self.moved > STUCK:
            return f"{self.name} made no step in {STUCK:.0f} s"
        return None


class Chaos:
    """One run of the system."""

    def __init__(self, seed, seconds, faults, place):
        self.random, self.seconds, self.faults = random.Random(seed), seconds, faults
        self.place, self.life, self.lossless, self.injected = Path(place), 0, [], Counter()
        self.ledger_path, self.notes = self.place / "ledger", self.place / "notes"
        self.ledger = Ledger(self.ledger_path, create=True)
        self.notes.touch()
        self.errors = (self.place / "errors").open("w")
        self.small = self._small_disk()
        self.library = self._library()
        self.rings = [mv.Ring.create(name, 1 << 16, name, crc=True) for name in MODES]
        self.roles = []
        for function, readers in (("state", 3), ("snapshot", 2), ("frame", 2)):
            writer = self._add(f"{function} writer", f"{function}_writer").number
            for k in range(readers):
                self._add(f"{function} reader {k}", f"{function}_reader", last_phase=1, writer=writer)
        for ring, producers in MODES.items():
            for k in range(producers):
                self._add(f"{ring} producer {k}", "producer", last_phase=1, ring=ring)
            if ring == "broadcast":
                for k in range(2):
                    self._add(f"{ring} reader {k}", "lossy_reader", ring=ring)
            else:
                self._add(f"{ring} consumer", "consumer", ring=ring)
                self._add(f"{ring} observer", "lossy_reader", ring=ring, observe=True)
        if self.library:
            self._add("isolated calls", "caller", last_phase=1, library=self.library)
        if "damage" in faults:
            self._add("prober", "prober", last_phase=1, directory=os.environ["MOJOVIEW_SHM_DIR"], small=self.small)

    def _add(self, name, function, **options):
        role = Role(self, len(self.roles), name, function, **options)
        self.roles.append(role)
        return role

    def _small_disk(self):
        """Return a file system of 1 MB, or None without the right to mount one."""
        small = self.place / "small"
        small.mkdir(0o700)
        command = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", small]
        done = shutil.which("mount") and subprocess.run(command, capture_output=True, check=False).returncode == 0
        return str(small) if done else None

    def _library(self):
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            return None
        source, library = self.place / "kernels.c", self.place / "libkernels.so"
        source.write_text(C_KERNELS)
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", source, "-o", library], check=True)
        return str(library)

    def run(self):
        """Run the system, then end it in order; return the list of what was wrong."""
        wrong = []
        for role in self.roles:
            role.start()
        end = time.monotonic() + self.seconds
        stopped = []  # (time at which it continues, role)
        while time.monotonic() < end and not wrong:
            time.sleep(self.random.uniform(0.0, 0.2))
            now = time.monotonic()
            for until, role in stopped[:]:
                if now >= until:
                    role.signal(signal.SIGCONT)
                    role.stopped = False
                    stopped.remove((until, role))
            self._inject(stopped)
            wrong += [text for role in self.roles if (text := role.watch())]
        for _, role in stopped:
            role.signal(signal.SIGCONT)
            role.stopped = False
        for phase in (1, 2):
            self.ledger.phase[0] = phase
            wrong += self._wait_for([role for role in self.roles if role.last_phase == phase])
        for role in self.roles:
            role.signal(signal.SIGKILL)
            role.process.wait()
        for ring in self.rings:
            ring.close()
        return wrong + self._balance()

    def _inject(self, stopped):
        kind = self.random.choices(("kill", "stop", "worker", "clock"), (2, 6, 2, 1))[0]
        if kind not in self.faults:
            return
        role = self.random.choice(self.roles)
        if role.stopped or role.process.poll() is not None:
            return
        if kind == "kill":
            role.killed = True
            role.signal(signal.SIGKILL)
        elif kind == "stop":
            role.stopped = True
            role.signal(signal.SIGSTOP)
            stopped.append((time.monotonic() + self.random.choice((0.01, 0.1, 1.0)), role))
        elif kind == "worker":
            if not (workers := workers_of(str(self.place))):
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.random.choice(workers), signal.SIGKILL)
        else:
            day = self.random.choice(("86400", "-3600"))
            clock = ("unshare", "--time", "--fork", "--kill-child", "--monotonic", day)
            if not shutil.which("unshare") or subprocess.run([*clock, "true"], capture_output=True).returncode:
                return
            role.killed = True
            role.signal(signal.SIGKILL)
            role.process.wait()
            role.start(clock)
        self.injected[kind] += 1

    def _wait_for(self, roles):
        end, wrong = time.monotonic() + 2 * STUCK, []
        while waiting := [role for role in roles if role.process.poll() is None]:
            if time.monotonic() > end:
                return [*wrong, *(f"{role.name} does not end" for role in waiting)]
            time.sleep(0.02)
        return wrong + [text for role in roles if (text := role.watch())]

    def _balance(self):
        """Compare what was written with what arrived, and look for what stayed; return the list of what is wrong."""
        ledger, wrong = self.ledger, []
        for life in self.lossless:
            begun, written, received = ledger.begun[life], ledger.written[life], ledger.received[life]
            if not written <= received <= begun:
                wrong.append(f"lost: life {life} wrote {written} of {begun} messages, {received} arrived")
        for role in self.roles:
            counts = dict(zip(COUNTERS, ledger.roles[role.number].tolist(), strict=True))
            if counts["descriptors"] > counts["first_descriptors"] + 16:
                wrong.append(
                    f"leaked: {role.name}: {counts['first_descriptors']} descriptors became {counts['descriptors']}"
                )
        wrong += self.notes.read_text().splitlines()
        mv.cleanup()
        if left := os.listdir(os.environ["MOJOVIEW_SHM_DIR"]):
            wrong.append(f"leaked: {left} in the directory of segments")
        end = time.monotonic() + STUCK  # workers end on their own when their parent has died
        while (left := processes_with(str(self.place))) and time.monotonic() < end:
            time.sleep(0.05)
        wrong += [f"leaked: process {pid}: {command}" for pid, command in left]
        return wrong

    def close(self):
        if self.small:
            subprocess.run(["umount", "-l", self.small], check=False)
        self.errors.close()

    def table(self):
        lines = [f"{'role':<22}{'lives':>7}{'operations':>14}"]
        for role in self.roles:
            lines.append(f"{role.name:<22}{role.lives:>7}{int(self.ledger.roles[role.number][0]):>14,}")
        return "\n".join(lines)


def processes_with(text):
    """Return (pid, command) of every other process whose environment has the text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if text.encode() in (entry / "environ").read_bytes():
                    found.append(
                        (int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
                    )
    return found


def workers_of(text):
    return [pid for pid, command in processes_with(text) if "mojoview-worker" in command]


def attempt(seed, seconds, faults):
    """Run once in a directory of its own; return (what was wrong, operations, faults injected, table)."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(prefix="mojoview-chaos-") as place,
        tempfile.TemporaryDirectory(prefix="mojoview-chaos-", dir=memory) as segments,
    ):
        os.environ["MOJOVIEW_SHM_DIR"] = segments
        os.environ["MOJOVIEW_CHAOS"] = place
        chaos = Chaos(seed, seconds, faults, place)
        try:
            wrong = chaos.run()
            errors = Path(place, "errors").read_text()
            if wrong and errors:
                wrong.append("standard error of the roles:\n" + errors[:2500] + "\n...\n" + errors[-2500:])
            return wrong, int(chaos.ledger.roles[:, 0].sum()), chaos.injected, chaos.table()
        finally:
            for role in chaos.roles:
                if role.process is not None and role.process.poll() is None:
                    role.signal(signal.SIGKILL)
                    role.process.wait()
            chaos.close()


def smallest(seed, seconds, faults):
    """Leave out one kind of fault after the other as long as the run still fails."""
    for fault in faults:
        fewer = [kind for kind in faults if kind != fault]
        if attempt(seed, seconds, fewer)[0]:
            return smallest(seed, seconds, fewer)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--faults", default=",".join(FAULTS), help=f"some of {', '.join(FAULTS)}")
    options = parser.parse_args()
    faults = [fault for fault in options.faults.split(",") if fault]
    if unknown := set(faults) - set(FAULTS):
        parser.error(f"unknown faults: {', '.join(sorted(unknown))}")
    print(f"seed {options.seed}, {options.seconds:.0f} s, faults: {', '.join(faults) or 'none'}", flush=True)
    wrong, operations, injected, table = attempt(options.seed, options.seconds, faults)
    print(table)
    print("injected: " + (", ".join(f"{count} {kind}" for kind, count in sorted(injected.items())) or "nothing"))
    if not wrong:
        print(f"{operations:,} operations, 0 lost, 0 torn, 0 stuck, 0 leaked")
        return
    print("\n".join(wrong[:40]))
    print(
        f"{operations:,} operations, {len(wrong)} faults; looking for fewer kinds of faults that suffice ...",
        flush=True,
    )
    needed = smallest(options.seed, min(options.seconds, 30.0), faults)
    print(f"python benchmarks/chaos.py --seconds 30 --seed {options.seed} --faults '{','.join(needed)}'")
    sys.exit(1)


if __name__ == "__main__":
    main()
