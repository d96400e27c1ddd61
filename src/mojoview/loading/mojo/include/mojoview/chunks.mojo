"""Long loops in chunks: for short accumulators, for caches, and for threads or processes that share an array."""


struct Chunk(Sized, TrivialRegisterPassable):
    """The elements from `start` to `stop` - 1."""

    var start: Int
    var stop: Int

    @always_inline
    def __init__(out self, start: Int, stop: Int):
        self.start = start
        self.stop = stop

    @always_inline
    def __len__(self) -> Int:
        """Number of elements."""
        return self.stop - self.start


struct Chunks(Sized, TrivialRegisterPassable):
    """`count` elements in chunks of `size`, the last of which may be shorter.

    for k in range(len(chunks)):
        for i in range(chunks[k].start, chunks[k].stop): …
    """

    var count: Int
    var size: Int

    @always_inline
    def __init__(out self, count: Int, size: Int):
        """A size below 1 counts as 1, a count below 0 as 0."""
        self.count = max(count, 0)
        self.size = max(size, 1)

    @always_inline
    def __len__(self) -> Int:
        """Number of chunks."""
        return self.count // self.size + (1 if self.count % self.size != 0 else 0)

    @always_inline
    def __getitem__(self, k: Int) -> Chunk:
        var start = k * self.size
        return {start, start + min(self.size, self.count - start)}


@always_inline
def share_of(count: Int, parts: Int, k: Int, multiple: Int = 1) -> Chunk:
    """The k-th of `parts` nearly equal shares of `count` elements.

    Every share but the last ends at a multiple of `multiple`: with the number of elements in a cache line, no two parts
    write to the same line.
    """
    var units = count // multiple + (1 if count % multiple != 0 else 0)
    var each = units // parts
    var longer = units % parts
    var start = k * each + min(k, longer)
    var stop = start + each + (1 if k < longer else 0)
    return {min(start * multiple, count), min(stop * multiple, count)}
