"""The many-producer ring as a finite machine, explored exhaustively: every interleaving of two producers and a
consumer, with any of
them dying at any step and another taking its place.

One step is one access to shared memory, as in `sharing/ring/mpsc.h`; a position counts lines, a frame is one or two of them.
What must hold:

* only committed frames are delivered, each at least once, each producer's in order;
* nobody's claim is skipped while its producer lives, and nobody writes where another's bytes are;
* from every state that can be reached the ring can still be emptied: no gap blocks it for ever.

`explore(mutant=...)` leaves out one step of the protocol; each of those must make it fail.
"""

from __future__ import annotations

from typing import NamedTuple

CAPACITY = 4
MUTANTS = {
    "no announcement": "a claim is not announced before `tail` moves",
    "no withdrawal": "an announcement stays although the claim went to somebody else",
    "who lives first": "who lives is asked before `tail` is read",
    "no second look": "the range is not looked at again after the announcements",
    "nobody asked": "every producer is taken for dead",
    "no zeros": "header words are not zeroed before the bytes go back",
    "head first": "`head` is published before the zeros",
    "no consumed": "a new consumer begins at `head`, whatever its predecessor had begun to zero",
    "no epoch": "a slot's new owner passes for the one that died in it",
}


class Violation(Exception):
    """The protocol did what it must not."""


class Claim(NamedTuple):  # what really happened; no step of the protocol may look at it
    pos: int  # of the padding, where there is any
    need: int
    frame: int
    slot: int
    epoch: int
    done: bool


class Producer(NamedTuple):
    alive: bool
    epoch: int
    at: str  # which step comes next
    jobs: tuple[int, ...]  # lines of each frame still to be written
    tail: int  # as it was read
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
    """The number of states; raises `Violation`."""
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
            if p.at.startswith("sit") or p.jobs:
                yield from produce(s, slot, p, mutant)
            if s.deaths and p.jobs and p.at != "tail":
                yield put(s._replace(deaths=s.deaths - 1), slot, p._replace(alive=False))
        elif heirs and p.epoch == 1:  # the lock is free: somebody else takes the slot
            yield put(s, slot, p._replace(alive=True, at="sit need", jobs=tuple(heirs)))
    yield from consume(s, mutant)
    if s.consumer_deaths and (s.consumer.at != "look" or s.consumer.pos != s.consumed):
        begins = Consumer("takeover" if mutant != "no consumed" else "look", s.head, s.head, 0, 0, (), 0, 0)
        yield s._replace(consumer=begins, consumer_deaths=s.consumer_deaths - 1)


def put(s: State, slot: int, p: Producer) -> State:
    return s._replace(producers=(*s.producers[:slot], p, *s.producers[slot + 1 :]))


def store(s: State, slot: int, pos: int, word: object) -> State:
    """A producer's store to a line: it must be its own."""
    owner = max((c for c in s.claims if c.pos <= pos < c.pos + c.need), default=None)
    later = [c for c in s.claims if any((q - pos) % CAPACITY == 0 and q > pos for q in range(c.pos, c.pos + c.need))]
    if owner is None or owner.slot != slot or owner.epoch != s.producers[slot].epoch or later or pos < s.head:
        raise Violation(f"slot {slot} writes at {pos}, which is not its own: {owner}, {later}")
    return s._replace(words=replace(s.words, pos, word))


def replace(words, pos, word):
    k = pos % CAPACITY
    return (*words[:k], word, *words[k + 1 :])


def produce(s: State, slot: int, p: Producer, mutant):
    if p.at == "sit need":
        yield put(s, slot, p._replace(announced_need=0, at="sit epoch"))
        return
    if p.at == "sit epoch":
        yield put(s, slot, p._replace(epoch=p.epoch + 1, at="tail"))
        return
    lines = p.jobs[0]
    rest = CAPACITY - p.tail % CAPACITY
    pad = rest if rest < lines else 0
    if p.at == "tail":
        yield put(s, slot, p._replace(tail=s.tail, at="head"))
    elif p.at == "head":
        if p.tail >= s.head and p.tail + pad + lines - s.head <= CAPACITY:
            yield put(s, slot, p._replace(at="say pos" if mutant != "no announcement" else "cas"))
        elif p.tail != s.tail:
            yield put(s, slot, p._replace(at="tail"))
    elif p.at == "say pos":
        yield put(s, slot, p._replace(announced_pos=p.tail, at="say need"))
    elif p.at == "say need":
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
    """The consumer gives a gap up: nobody who lives may have a claim there, and nothing committed."""
    pos = s.consumer.pos
    for c in s.claims:
        if c.pos < upto and c.pos + c.need > pos and c.frame >= pos:
            p = s.producers[c.slot]
            if c.done or (p.alive and p.epoch == c.epoch and not p.at.startswith("sit")):
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
                first = "gap" if mutant != "who lives first" else "who"
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
        after = "who" if mutant != "who lives first" else "judge"
        yield s._replace(consumer=c._replace(at=after, tail=s.tail, gap=next_word(s, c.pos, s.tail)))
    elif c.at == "who":
        alive = tuple(p.alive and mutant != "nobody asked" for p in s.producers)
        yield s._replace(consumer=c._replace(at="judge" if mutant != "who lives first" else "gap", alive=alive))
    elif c.at == "judge":
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
        said = s.producers[c.slot].announced_pos
        if c.need and said < c.gap and said + c.need > c.pos:
            yield s._replace(consumer=IDLE._replace(pos=c.pos))
        else:
            yield s._replace(consumer=c._replace(at="need", slot=c.slot + 1, need=0))
    elif c.at == "again":
        if mutant != "no second look" and next_word(s, c.pos, c.gap) != c.gap:
            yield s._replace(consumer=IDLE._replace(pos=c.pos))
        else:
            yield skip(s, c.gap)
