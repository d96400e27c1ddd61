"""The many-producer ring as a finite state machine, explored exhaustively.

Every interleaving of two producers and a consumer, of which any may die at any step and be replaced. One step is one
access to shared memory, as in `sharing/ring/mpsc.h`; a position counts lines, a frame has one or two lines. Invariants:

* only committed frames are delivered, each at least once, in the order of each producer;
* no claim is skipped while its producer is alive, and no producer writes to bytes of another;
* from every reachable state the ring can still be emptied: no gap blocks it permanently.

`explore(mutant=...)` leaves out one step of the protocol; each mutant must violate an invariant.
"""

from __future__ import annotations

from typing import NamedTuple

CAPACITY = 4
MUTANTS = {
    "no announcement": "a claim is not announced before `tail` moves",
    "no withdrawal": "an announcement stays although another producer won the claim",
    "alive first": "living slots are queried before `tail` is read",
    "no second look": "the range is not read again after the announcements",
    "all dead": "every producer counts as dead",
    "no zeros": "header words are not zeroed before the bytes are released",
    "head first": "`head` is published before the zeros",
    "no consumed": "a new consumer begins at `head`, although its predecessor had begun to zero",
    "no epoch": "a slot's new owner is taken for its dead predecessor",
}


class Violation(Exception):
    """An invariant of the protocol does not hold."""


class Claim(NamedTuple):  # ground truth, which no step of the protocol may read
    pos: int  # of the padding, if there is any
    need: int
    frame: int
    slot: int
    epoch: int
    done: bool


class Producer(NamedTuple):
    alive: bool
    epoch: int
    at: str  # the next step
    jobs: tuple[int, ...]  # lines of each frame to write
    tail: int  # as last read
    pos: int
    announced_pos: int  # its slot's announcement
    announced_need: int


class Consumer(NamedTuple):
    at: str
    pos: int
    zeroing: int
    tail: int
    gap: int
    alive: tuple[bool, ...]
    slot: int
    need: int


class State(NamedTuple):
    tail: int
    head: int
    consumed: int
    words: tuple[
        object, ...
    ]  # 0 | "x" (payload) | ("claimed", lines, slot, epoch) | ("frame" or "pad", lines, frame's position)
    producers: tuple[Producer, ...]
    consumer: Consumer
    claims: tuple[Claim, ...]
    delivered: frozenset[int]
    deaths: int
    consumer_deaths: int


IDLE = Consumer("look", 0, 0, 0, 0, (), 0, 0)


def explore(jobs=((1, 2), (2,)), *, deaths=1, consumer_deaths=0, heirs=(1,), mutant=None, limit=2_000_000) -> int:
    """Return the number of states; raise `Violation`."""
    assert mutant is None or mutant in MUTANTS
    begin = State(
        0,
        0,
        0,
        (0,) * CAPACITY,
        tuple(Producer(True, 1, "tail", work, 0, 0, 0, 0) for work in jobs),
        IDLE,
        (),
        frozenset(),
        deaths,
        consumer_deaths,
    )
    numbers = {begin: 0}
    todo, back, final = [begin], [[]], []
    while todo:
        state = todo.pop()
        here = numbers[state]
        if is_final(state):
            final.append(here)
        for following in steps(state, heirs, mutant):
            there = numbers.get(following)
            if there is None:
                there = numbers[following] = len(back)
                if there > limit:
                    raise AssertionError(f"more than {limit} states: the model is too large to be explored")
                back.append([])
                todo.append(following)
            back[there].append(here)
    can_end, todo_back = set(final), final
    while todo_back:
        for previous in back[todo_back.pop()]:
            if previous not in can_end:
                can_end.add(previous)
                todo_back.append(previous)
    if len(can_end) != len(numbers):
        raise Violation(f"{len(numbers) - len(can_end)} states from which the ring is never emptied")
    return len(numbers)


def is_final(s: State) -> bool:
    if s.consumer.at != "look" or s.consumer.pos != s.tail or any(p.alive and p.jobs for p in s.producers):
        return False
    missing = [claim.frame for claim in s.claims if claim.done and claim.frame not in s.delivered]
    if missing:
        raise Violation(f"committed frames at {missing} were never delivered")
    return True


def steps(s: State, heirs, mutant):
    for slot, p in enumerate(s.producers):
        if p.alive:
            if p.at in ("clear need", "new epoch") or p.jobs:
                yield from produce(s, slot, p, mutant)
            if s.deaths and p.jobs and p.at != "tail":
                yield put(s._replace(deaths=s.deaths - 1), slot, p._replace(alive=False))
        elif heirs and p.epoch == 1:  # the lock is free: another process takes the slot
            yield put(s, slot, p._replace(alive=True, at="clear need", jobs=tuple(heirs)))
    yield from consume(s, mutant)
    if s.consumer_deaths and (s.consumer.at != "look" or s.consumer.pos != s.consumed):
        begins = Consumer("takeover" if mutant != "no consumed" else "look", s.head, s.head, 0, 0, (), 0, 0)
        yield s._replace(consumer=begins, consumer_deaths=s.consumer_deaths - 1)


def put(s: State, slot: int, p: Producer) -> State:
    return s._replace(producers=(*s.producers[:slot], p, *s.producers[slot + 1 :]))


def store(s: State, slot: int, pos: int, word: object) -> State:
    """Store a producer's word to a line, which must be its own."""
    owner = max((c for c in s.claims if c.pos <= pos < c.pos + c.need), default=None)
    later = [c for c in s.claims if any((q - pos) % CAPACITY == 0 and q > pos for q in range(c.pos, c.pos + c.need))]
    if owner is None or owner.slot != slot or owner.epoch != s.producers[slot].epoch or later or pos < s.head:
        raise Violation(f"slot {slot} writes at {pos}, which is not its own: {owner}, {later}")
    return s._replace(words=replace(s.words, pos, word))


def replace(words, pos, word):
    k = pos % CAPACITY
    return (*words[:k], word, *words[k + 1 :])


def produce(s: State, slot: int, p: Producer, mutant):
    if p.at == "clear need":
        yield put(s, slot, p._replace(announced_need=0, at="new epoch"))
        return
    if p.at == "new epoch":
        yield put(s, slot, p._replace(epoch=p.epoch + 1, at="tail"))
        return
    lines = p.jobs[0]
    rest = CAPACITY - p.tail % CAPACITY
    pad = rest if rest < lines else 0
    if p.at == "tail":
        yield put(s, slot, p._replace(tail=s.tail, at="head"))
    elif p.at == "head":
        if p.tail >= s.head and p.tail + pad + lines - s.head <= CAPACITY:
            yield put(s, slot, p._replace(at="announce pos" if mutant != "no announcement" else "cas"))
        elif p.tail != s.tail:
            yield put(s, slot, p._replace(at="tail"))
    elif p.at == "announce pos":
        yield put(s, slot, p._replace(announced_pos=p.tail, at="announce need"))
    elif p.at == "announce need":
        yield put(s, slot, p._replace(announced_need=pad + lines, at="cas"))
    elif p.at == "cas":
        if s.tail != p.tail:
            yield put(s, slot, p._replace(at="withdraw" if mutant != "no withdrawal" else "tail"))
            return
        claim = Claim(p.tail, pad + lines, p.tail + pad, slot, p.epoch, False)
        moved = s._replace(tail=s.tail + pad + lines, claims=(*s.claims, claim))
        yield put(moved, slot, p._replace(pos=p.tail + pad, at="pad" if pad else "claimed"))
    elif p.at == "withdraw":
        yield put(s, slot, p._replace(announced_need=0, at="tail"))
    elif p.at == "pad":
        yield put(store(s, slot, p.tail, ("pad", pad, p.tail)), slot, p._replace(at="claimed"))
    elif p.at == "claimed":
        word = ("claimed", lines, slot, p.epoch)
        yield put(store(s, slot, p.pos, word), slot, p._replace(at="fill" if lines > 1 else "commit"))
    elif p.at == "fill":
        yield put(store(s, slot, p.pos + 1, "x"), slot, p._replace(at="commit"))
    elif p.at == "commit":
        done = tuple(c._replace(done=True) if c.frame == p.pos and c.slot == slot else c for c in s.claims)
        yield put(
            store(s, slot, p.pos, ("frame", lines, p.pos))._replace(claims=done),
            slot,
            p._replace(jobs=p.jobs[1:], at="tail"),
        )


def next_word(s: State, pos: int, end: int) -> int:
    while pos < end and s.words[pos % CAPACITY] == 0:
        pos += 1
    return pos


def skip(s: State, upto: int) -> State:
    """Skip a gap: it may contain neither a living producer's claim nor a committed frame."""
    pos = s.consumer.pos
    for c in s.claims:
        if c.pos < upto and c.pos + c.need > pos and c.frame >= pos:
            p = s.producers[c.slot]
            if c.done or (p.alive and p.epoch == c.epoch and p.at not in ("clear need", "new epoch")):
                raise Violation(f"skipped {pos} to {upto}, where {c} is")
    return s._replace(consumer=IDLE._replace(pos=upto))


def consume(s: State, mutant):
    c = s.consumer
    if c.at == "look":
        word = s.words[c.pos % CAPACITY]
        if c.pos < s.tail:
            if word == "x":
                raise Violation(f"payload taken for a header at {c.pos}")
            if word != 0 and word[0] != "claimed":
                kind, lines, pos = word
                if pos != c.pos or (kind == "frame" and not any(k.frame == pos and k.done for k in s.claims)):
                    raise Violation(f"delivered {word} at {c.pos}")
                delivered = s.delivered | {pos} if kind == "frame" else s.delivered
                yield s._replace(delivered=delivered, consumer=c._replace(pos=c.pos + lines))
            else:
                first = "gap" if mutant != "alive first" else "query"
                yield s._replace(consumer=c._replace(at=first, slot=0))
        if c.pos > s.consumed:
            yield s._replace(consumed=c.pos, consumer=c._replace(at="zero", zeroing=s.head))
    elif c.at == "takeover":
        yield s._replace(consumer=c._replace(at="zero", zeroing=s.head, pos=s.consumed))
    elif c.at == "zero":
        upto = c.pos
        if mutant == "head first" and s.head < upto:
            yield s._replace(head=upto, consumer=c._replace(zeroing=s.head))
        elif c.zeroing < upto:
            words = s.words if mutant == "no zeros" else replace(s.words, c.zeroing, 0)
            yield s._replace(words=words, consumer=c._replace(zeroing=c.zeroing + 1))
        else:
            yield s._replace(head=upto, consumer=IDLE._replace(pos=upto))
    elif c.at == "gap":
        after = "query" if mutant != "alive first" else "decide"
        yield s._replace(consumer=c._replace(at=after, tail=s.tail, gap=next_word(s, c.pos, s.tail)))
    elif c.at == "query":
        alive = tuple(p.alive and mutant != "all dead" for p in s.producers)
        yield s._replace(consumer=c._replace(at="decide" if mutant != "alive first" else "gap", alive=alive))
    elif c.at == "decide":
        word = s.words[c.pos % CAPACITY]
        if word == 0:
            yield s._replace(consumer=c._replace(at="need", slot=0) if c.gap > c.pos else IDLE._replace(pos=c.pos))
        elif word[0] != "claimed":
            yield s._replace(consumer=IDLE._replace(pos=c.pos))
        else:
            _, lines, slot, epoch = word
            same = mutant == "no epoch" or s.producers[slot].epoch == epoch
            if c.alive[slot] and same:
                yield s._replace(consumer=IDLE._replace(pos=c.pos))
            else:
                yield s._replace(consumer=c._replace(at="claim again", need=lines))
    elif c.at == "claim again":
        if s.words[c.pos % CAPACITY][0] != "claimed":
            yield s._replace(consumer=IDLE._replace(pos=c.pos))
        else:
            yield skip(s, c.pos + c.need)
    elif c.at == "need":  # the announcements, slot by slot, word by word
        if c.slot == len(s.producers):
            yield s._replace(consumer=c._replace(at="again"))
        elif not c.alive[c.slot]:
            yield s._replace(consumer=c._replace(slot=c.slot + 1))
        else:
            yield s._replace(consumer=c._replace(at="pos", need=s.producers[c.slot].announced_need))
    elif c.at == "pos":
        announced = s.producers[c.slot].announced_pos
        if c.need and announced < c.gap and announced + c.need > c.pos:
            yield s._replace(consumer=IDLE._replace(pos=c.pos))
        else:
            yield s._replace(consumer=c._replace(at="need", slot=c.slot + 1, need=0))
    elif c.at == "again":
        if mutant != "no second look" and next_word(s, c.pos, c.gap) != c.gap:
            yield s._replace(consumer=IDLE._replace(pos=c.pos))
        else:
            yield skip(s, c.gap)
