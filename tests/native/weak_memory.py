"""Every outcome of an AArch64 litmus test, by exhaustion: a small operational model of the architecture.

Instructions of a thread take effect one at a time on one shared memory (AArch64 is other-multi-copy-atomic), in any
order that keeps: barriers, acquire and release, same-address order, data and control dependencies of stores. Loads
may run ahead of branches, and may take a value from the thread's own store that has not reached memory yet. After the
flat model of Pulte et al., "Simplifying ARM Concurrency" (POPL 2018), cut down to what tests without loops and
address dependencies need. herd7 is the reference where it is installed; where they differ this model errs towards
allowing (release-only LSE atomics).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

LOADS = {"LDR": "", "LDAR": "A", "LDXR": "X", "LDAXR": "AX"}
STORES = {"STR": "", "STLR": "L", "STXR": "X", "STLXR": "LX"}
ATOMICS = {f"{op}{order}": order for op in ("SWP", "LDADD", "CAS") for order in ("", "A", "L", "AL")}


@dataclass(frozen=True)
class Event:
    """One instruction that the memory sees, or that computes a register."""

    kind: str  # load, store, atomic, fence, move, branch
    order: str = ""  # A acquire, L release, X exclusive; the fence's domain
    register: int = -1  # written by loads, atomics and moves; status of an exclusive store
    source: int = -1  # register whose value is stored, compared or added
    place: str = ""
    value: int = (
        0  # of a move, added to its source if it has one; what a branch compares with; the register CAS compares
    )
    taken: bool = False  # whether this path takes the branch
    op: str = ""


@dataclass
class Test:
    name: str
    memory: dict[str, int]
    registers: list[dict[int, int | str]]
    programs: list[list[str]]
    exists: str
    paths: list[list[list[Event]]] = field(default_factory=list)


def parse(text: str) -> Test:
    header, _, rest = text.partition("{")
    initial, _, body = rest.partition("}")
    if not header.startswith("AArch64"):
        raise ValueError("expected an AArch64 litmus test")
    memory: dict[str, int] = {}
    registers: dict[int, dict[int, int | str]] = {}
    for item in filter(None, (part.strip() for part in initial.split(";"))):
        left, right = (part.strip() for part in item.split("="))
        if ":" in left:
            thread, register = left.split(":")
            registers.setdefault(int(thread), {})[int(register[1:])] = (
                int(right) if right.lstrip("-").isdigit() else right
            )
        else:
            memory[left.removeprefix("int ").strip()] = int(right)
    code, _, condition = body.partition("exists")
    rows = [[cell.strip() for cell in line.split("|")] for line in code.replace(";", "").strip().splitlines()]
    threads = len(rows[0])
    programs = [[row[k] for row in rows[1:] if k < len(row) and row[k]] for k in range(threads)]
    test = Test(header.split()[1], memory, [registers.get(k, {}) for k in range(threads)], programs, condition.strip())
    for thread, program in enumerate(programs):
        for place in (where for where in test.registers[thread].values() if isinstance(where, str)):
            memory.setdefault(place, 0)
        test.paths.append(list(unfold(program, test.registers[thread], 0)))
    return test


def unfold(program: list[str], places: dict[int, int | str], at: int) -> list[list[Event]]:
    """Every way through the program: branches go forward, so there are finitely many."""
    events: list[Event] = []
    compared: tuple[int, int] = (-1, 0)
    while at < len(program):
        line = program[at]
        at += 1
        if line.endswith(":"):
            continue
        op, _, rest = line.partition(" ")
        words = [word.strip("[]") for word in re.split(r"\s*,\s*", rest.strip())]
        numbers = [int(word[1:]) if re.fullmatch(r"[WX]\d+", word) else -1 for word in words]
        if op == "MOV":
            constant = int(words[1].lstrip("#")) if numbers[1] < 0 else 0
            events.append(Event("move", register=numbers[0], source=numbers[1], value=constant))
        elif op == "ADD":
            events.append(Event("move", register=numbers[0], source=numbers[1], value=int(words[2].lstrip("#"))))
        elif op in LOADS:
            events.append(Event("load", LOADS[op], numbers[0], place=str(places[numbers[1]])))
        elif op in STORES:
            status, source, where = (-1, *numbers) if "X" not in STORES[op] else numbers
            events.append(Event("store", STORES[op], status, source, str(places[where])))
        elif op in ATOMICS:
            swap = op.startswith("CAS")
            read, stored = (numbers[0], numbers[1]) if swap else (numbers[1], numbers[0])
            events.append(
                Event("atomic", ATOMICS[op], read, stored, str(places[numbers[2]]), read if swap else 0, op=op[:3])
            )
        elif op == "DMB":
            events.append(Event("fence", words[0]))
        elif op == "CMP":
            compared = (numbers[0], int(words[1].lstrip("#")))
        elif op in ("B.EQ", "B.NE", "CBNZ", "CBZ"):
            source, value = compared if op[0] == "B" and op[1] == "." else (numbers[0], 0)
            target = program.index(words[-1] + ":")
            wanted = op in ("B.EQ", "CBZ")
            ways = []
            for equal in (True, False):
                branch = Event("branch", source=source, value=value, taken=equal)
                ways += [
                    [*events, branch, *tail] for tail in unfold(program, places, target if equal == wanted else at)
                ]
            return ways
        else:
            raise ValueError(f"unknown instruction {line!r}")
    return [events]


def before(first: Event, second: Event, first_at: int, second_at: int, path: list[Event]) -> bool:
    """Whether the architecture keeps these two, in program order, in that order."""
    if "fence" in (first.kind, second.kind):
        fence, other = (first, second) if first.kind == "fence" else (second, first)
        if other.kind == "fence":
            return True
        if other.kind in ("move", "branch"):
            return False
        domain = fence.order
        reads, writes = other.kind in ("load", "atomic"), other.kind in ("store", "atomic")
        return domain == "ISH" or (domain == "ISHST" and writes) or (domain == "ISHLD" and (fence is first or reads))
    used = {second.source, second.value if second.op == "CAS" else -1} - {-1}
    if any(last_writer(path, second_at, register) == first_at for register in used):
        return True  # data dependency, or what a branch compares
    memory = ("load", "store", "atomic")
    if first.kind == "branch":
        return second.kind in ("store", "atomic", "branch")  # control dependency
    if first.kind not in memory or second.kind not in memory:
        return False
    if "A" in first.order and first.kind != "store":
        return True
    if "L" in second.order and second.kind != "load":
        return True
    if "L" in first.order and "A" in second.order and first.kind != "load" and second.kind != "store":
        return True  # release, then acquire
    if first.place == second.place:
        return not (first.kind == "store" and second.kind == "load")  # that one forwards
    return False


def last_writer(path: list[Event], before_at: int, register: int) -> int:
    writers = [k for k in range(before_at) if path[k].register == register]
    return writers[-1] if writers else -1


def outcomes(test: Test) -> list[dict[str, int]]:
    """Final registers and memory of every complete execution."""
    found: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
    for chosen in product(*test.paths):
        needs = [
            [[j for j in range(k) if before(path[j], path[k], j, k, path)] for k in range(len(path))] for path in chosen
        ]
        start = (
            tuple(0 for _ in chosen),
            tuple(() for _ in chosen),
            tuple(sorted(test.memory.items())),
            tuple(() for _ in chosen),
        )
        seen = {start}
        todo = [start]
        while todo:
            state = todo.pop()
            if all(done == (1 << len(path)) - 1 for done, path in zip(state[0], chosen, strict=True)):
                final = dict(state[2])
                for thread, (path, values) in enumerate(zip(chosen, state[1], strict=True)):
                    final |= {
                        f"{thread}:X{path[k].register}": value for k, value in values
                    }  # in program order: the last wins
                found[tuple(sorted(final.items()))] = final
                continue
            for following in steps(state, chosen, needs, test.registers):
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
    return list(found.values())


def steps(state, chosen, needs, given):
    """Every state one instruction further."""
    done, results, memory, reserved = state
    for thread, path in enumerate(chosen):
        for k, event in enumerate(path):
            if done[thread] >> k & 1 or any(not done[thread] >> j & 1 for j in needs[thread][k]):
                continue
            values, cells, exclusive = dict(results[thread]), dict(memory), list(reserved)

            def operand(register, at, path=path, values=values, given=given[thread]):
                writer = last_writer(path, at, register)  # by instruction, not by register: names are used again
                return values[writer] if writer >= 0 else given.get(register, 0)

            if event.kind == "move":
                values[k] = event.value + (operand(event.source, k) if event.source >= 0 else 0)
            elif event.kind == "branch":
                if (operand(event.source, k) == event.value) != event.taken:
                    continue  # not this path
            elif event.kind == "load":
                own = [
                    j
                    for j in range(k)
                    if path[j].kind == "store" and path[j].place == event.place and not done[thread] >> j & 1
                ]
                if own:  # forwarding needs the value that the store will have
                    writer = last_writer(path, own[-1], path[own[-1]].source)
                    if "X" in path[own[-1]].order or (writer >= 0 and not done[thread] >> writer & 1):
                        continue
                    values[k] = operand(path[own[-1]].source, own[-1])
                else:
                    values[k] = cells[event.place]
                if "X" in event.order:
                    exclusive[thread] = (event.place,)
            elif event.kind == "store":
                if "X" in event.order:
                    if exclusive[thread] != (event.place,):
                        continue  # it fails and the loop comes round: another execution covers that
                    values[k] = 0
                cells[event.place] = operand(event.source, k)
                exclusive = [() if mark == (event.place,) else mark for mark in exclusive]
            elif event.kind == "atomic":
                old, new = cells[event.place], operand(event.source, k)
                values[k] = old
                if event.op != "CAS" or old == operand(event.value, k):
                    cells[event.place] = new + (old if event.op == "LDA" else 0)
                    exclusive = [() if mark == (event.place,) else mark for mark in exclusive]
            yield (
                tuple(mask | 1 << k if t == thread else mask for t, mask in enumerate(done)),
                tuple(tuple(sorted(values.items())) if t == thread else kept for t, kept in enumerate(results)),
                tuple(sorted(cells.items())),
                tuple(exclusive),
            )


def holds(condition: str, final: dict[str, int]) -> bool:
    r"""An `exists` clause of /\, \/, ~, parentheses and equalities."""
    text = condition.replace("/\\", " and ").replace("\\/", " or ").replace("~", " not ")
    text = re.sub(r"(\d+:X\d+|[A-Za-z_]\w*)\s*=\s*(-?\d+)", lambda m: f"(final.get({m[1]!r}, 0) == {m[2]})", text)
    return bool(eval(text, {"final": final}))


def verdict(path: Path) -> str:
    """ "Never" or "Sometimes": whether the outcome of the `exists` clause can happen."""
    test = parse(path.read_text())
    return "Sometimes" if any(holds(test.exists, final) for final in outcomes(test)) else "Never"
