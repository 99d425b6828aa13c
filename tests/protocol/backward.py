"""Models the Hopper backward in 16 bits up to head dimension 128, sm90/backward/kernel.cuh."""
import random

from protocol.world import Barrier, Broken, Ring, World


class Sums:
    """State that blocks share if they also round dQ. additions: additions of warps to dQ, per row tile. done: number of
    finished work items. version: a bug of the rounding, or "sound"."""

    def __init__(self, row_tiles, version):
        self.additions, self.done, self.version = [0] * row_tiles, 0, version


def backward(world, items, shape, counter=None, add_counts=None, name="", clears=False, one_warp=False, sums=None,
             early=False, bias=None):
    """One thread block. With share "keys", a reducer warp adds dQ from shared memory, and the loader sends it a message
    (note) with the next row tile.
    items: the work items, [(True if dK and dV are written, [row tiles])].
    shape: as printed by shapes.cpp.
    counter: [next item], shared by several blocks.
    add_counts: additions to dQ so far, per row tile, for `deterministic` (ordered accumulation).
    sums: if given, the blocks also round dQ; each row tile is one more item.
    Bugs that must be found:
    one_warp: one warp of a warpgroup releases the work item for all four.
    early: with share "tiles", K's stage is released before dK is read from that stage. With "keys", the reducer
    releases dQ's buffer before the reducer has read the buffer.
    bias: None, "sound" or "unwaited": the loader also loads the bias of each tile, in two stages. "unwaited" is a bug:
    consumers read the bias without waiting for it."""
    share, consumers, stages, readers, bulk = (shape[key] for key in ("share", "consumers", "stages", "readers", "bulk"))
    alternates = share == "tiles"
    bars = {}
    for what in ("q", "d_o"):
        for stage in range(stages):
            bars[what, "full", stage] = Barrier(f"{name}{what}_full[{stage}]", 1)
            each = 4 if what == "q" else 1  # warps per warpgroup that arrive on the empty barrier
            bars[what, "free", stage] = Barrier(f"{name}{what}_free[{stage}]", readers * each)
    for what in ("k", "v"):
        bars[what, "full"] = Barrier(f"{name}{what}_full", 1)
    bars["exchanged"] = Barrier(f"{name}exchanged", 4 * consumers)
    bars["keys", "free"] = Barrier(f"{name}keys_free", consumers * (4 if alternates else 1))
    for stage in range(2):
        bars["item", "full", stage] = Barrier(f"{name}work_full[{stage}]", 1)
        bars["item", "free", stage] = Barrier(f"{name}work_free[{stage}]", consumers * (1 if one_warp else 4))
    if bulk:
        for i in range(2):
            bars["dq", "full", i] = Barrier(f"{name}dq_full[{i}]", 4)
            bars["dq", "free", i] = Barrier(f"{name}dq_free[{i}]", 1)
            bars["note", "full", i] = Barrier(f"{name}note_full[{i}]", 1)
            bars["note", "free", i] = Barrier(f"{name}note_free[{i}]", 1)
    for stage in range(2):
        bars["bias", "full", stage] = Barrier(f"{name}bias_full[{stage}]", 1)
        bars["bias", "free", stage] = Barrier(f"{name}bias_free[{stage}]", consumers * 4)
    counter = counter if counter is not None else [0]
    last = len(items) + (len(sums.additions) if sums else 0)
    data = lambda *place: (name, *place)

    def loader():
        at, work_at, keys = {"q": Ring(stages), "d_o": Ring(stages), "bias": Ring(2)}, Ring(2), 0
        note_at = Ring(2)

        def load(what, tag):
            ring = at[what]
            yield world.wait(bars[what, "free", ring.stage], ring.round)
            world.load(data(what, ring.stage), tag, bars[what, "full", ring.stage])
            yield world.pause()
            bars[what, "full", ring.stage].arrive(1)
            ring.move()

        def note(content):
            if bulk:
                yield world.wait(bars["note", "free", note_at.stage], note_at.round)
                world.data[data("note", note_at.stage)] = content
                bars["note", "full", note_at.stage].arrive()
                note_at.move()

        def load_keys(what, tag):
            world.load(data(what), tag, bars[what, "full"])
            bars[what, "full"].arrive(1)
        while True:
            item = counter[0]
            counter[0] += 1
            yield world.wait(bars["item", "free", work_at.stage], work_at.round)
            world.data[data("item", work_at.stage)] = item
            bars["item", "full", work_at.stage].arrive()
            work_at.move()
            if item >= last:
                yield from note(None)
                return
            if item >= len(items):
                continue
            rows = items[item][1]
            if bulk and sums and not rows:
                sums.done += 1
            for i, tile in enumerate(rows):
                yield from load("q", (item, tile))
                yield from note((item, tile, i + 1 == len(rows)))
                if i == 0:
                    yield world.wait(bars["keys", "free"], keys)
                    keys += 1
                    load_keys("k", item)
                yield from load("d_o", (item, tile))
                if i == 0:
                    load_keys("v", item)
                if bias:
                    yield from load("bias", (item, tile))

    def reducer():
        note_at, reads = Ring(2), 0
        while True:
            yield world.wait(bars["note", "full", note_at.stage], note_at.round + 1)
            note = world.data[data("note", note_at.stage)]
            bars["note", "free", note_at.stage].arrive()
            note_at.move()
            if note is None:
                return
            item, tile, ends = note
            if add_counts is not None:
                turn = dq_add_index(items, item, tile)
                yield (lambda: add_counts[tile] >= turn), f"turn {turn} of {tile}"
            reads += 1
            for group in range(consumers):
                yield world.wait(bars["dq", "full", group], reads)
                if early:
                    bars["dq", "free", group].arrive()
                yield world.pause()
                for warp in range(4):
                    world.expect("reducer", data("dq", group, warp), (item, tile))
                if not early:
                    bars["dq", "free", group].arrive()
            if sums and ends and sums.version == "unsynced":
                sums.done += 1
            yield world.pause()
            if sums:
                sums.additions[tile] += 4 * readers
            if add_counts is not None:
                add_counts[tile] = max(add_counts[tile], turn + 1)
            if sums and ends and sums.version != "unsynced":
                sums.done += 1

    def warp_of(group, warp):
        bias_at = Ring(2)
        work_at, at, keys, turn, number, rounds, handed = Ring(2), Ring(stages), 0, 0, 0, None, 0
        elected = warp == 0
        leads = warp == 0 and (alternates or group == 0)
        me = f"{name}{group}"

        def start(reads):
            nonlocal number
            number += 1
            return world.matmul(me, warp, number, reads)

        def sync():
            return world.sync((name, "sync"), 8)

        def sync_row_readers():
            return world.sync((name, "rows", group), 4) if alternates else sync()

        def add_up(item):
            given, taken = data("exchange", 0, 0, warp), data("k")
            if group == 1:
                given, taken = taken, given
            yield sync()
            world.data[given] = "sum", item
            bars["exchanged"].arrive()
            yield world.wait(bars["exchanged"], keys)
            if early:
                bars["keys", "free"].arrive()
            yield world.pause()
            world.expect(me, taken, ("sum", item))
            if not early:
                bars["keys", "free"].arrive()
        while True:
            yield world.wait(bars["item", "full", work_at.stage], work_at.round + 1)
            item = world.data[data("item", work_at.stage)]
            if warp == 0 or not one_warp:
                bars["item", "free", work_at.stage].arrive()
            work_at.move()
            if rounds is not None:  # the row tile of the previous item, once the next item is known
                if group == 0 and warp == 0 and sums.version != "early":
                    yield lambda: sums.done >= len(items), "keys that are done"
                yield sync()
                expected = 4 * readers * sum(rounds in rows for _, rows in items)
                if sums.additions[rounds] != expected:
                    raise Broken(f"dQ rounded after {sums.additions[rounds]} of {expected} additions")
                rounds = None
            if item >= last:
                return
            if item >= len(items):
                rounds = item - len(items)
                continue
            written, rows = items[item]
            if rows:
                keys += 1
                yield world.wait(bars["k", "full"], keys)
                yield world.wait(bars["v", "full"], keys)
                if clears:
                    yield world.sync((name, "clear"), 8)
                dk, before, added = None, None, None
                for i, tile in enumerate(rows):
                    if alternates and (len(rows) - i) % 2 == group:
                        at.move()
                        continue
                    stage = at.stage
                    q, d_o = {data("q", stage): (item, tile)}, {data("d_o", stage): (item, tile)}
                    yield world.wait(bars["q", "full", stage], at.round + 1)
                    if clears:
                        yield world.wait(bars["d_o", "full", stage], at.round + 1)
                        yield sync_row_readers()
                    scores = start({**q, data("k"): item})
                    if dk:
                        yield dk
                        bars["q", "free", before].arrive()
                    before = stage
                    yield world.wait(bars["d_o", "full", stage], at.round + 1)
                    gradients = start({**d_o, data("v"): item})
                    at.move()
                    yield scores
                    if bias:
                        if bias == "sound":
                            yield world.wait(bars["bias", "full", bias_at.stage], bias_at.round + 1)
                        yield world.pause()
                        world.expect(me, data("bias", bias_at.stage), (item, tile))
                        bars["bias", "free", bias_at.stage].arrive()
                        bias_at.move()
                    dv = start(d_o)
                    yield gradients
                    world.data[data("exchange", turn, group, warp)] = (item, tile)
                    if bulk and i > 0:  # one fence publishes dS, and dQ of the previous row tile
                        bars["dq", "full", group].arrive()
                    yield sync_row_readers()
                    if not bulk and add_counts is not None and added is not None and leads:
                        add_counts[added[0]] = max(add_counts[added[0]], added[1] + 1)
                    added = add_counts and (tile, dq_add_index(items, item, tile))
                    groups = [group] if alternates else range(2)
                    exchange = {data("exchange", turn, g, w): (item, tile) for g in groups for w in range(4)}
                    if alternates:  # dQ in two matmuls
                        piece = start({**exchange, data("k"): item})
                        yield dv
                        yield piece
                        if add_counts is not None:
                            yield (lambda a=added: add_counts[a[0]] >= a[1]), f"turn {added}"
                    dq = start({**exchange, data("k"): item})
                    dk = start(q)
                    turn ^= 1
                    yield dv
                    yield dq
                    if elected:
                        bars["d_o", "free", stage].arrive()
                    if bulk:
                        yield world.wait(bars["dq", "free", group], handed)
                        handed += 1
                        yield from world.write(data("dq", group, warp), (item, tile))
                        continue
                    if add_counts is not None:
                        if not alternates:
                            yield (lambda a=added: add_counts[a[0]] >= a[1]), f"turn {added}"
                        yield world.pause()
                    if sums:
                        sums.additions[tile] += 1
                if bulk:
                    bars["dq", "full", group].arrive()
                if dk:
                    yield dk
                    bars["q", "free", before].arrive()
                if elected and not alternates:
                    bars["keys", "free"].arrive()
                if add_counts is not None and not bulk:
                    yield sync_row_readers()
                    if leads and added is not None:
                        add_counts[added[0]] = max(add_counts[added[0]], added[1] + 1)
                if alternates:
                    yield from add_up(item)
            if written:
                yield world.pause()  # stores dK and dV
            if bulk:
                continue
            if not (sums and sums.version == "unsynced"):
                yield sync()
            if sums and group == 0 and warp == 0:
                sums.done += 1

    world.spawn(f"{name}loader", loader())
    if bulk:
        world.spawn(f"{name}reducer", reducer())
    for group in range(consumers):
        for warp in range(4):
            world.spawn(f"{name}warp {group}.{warp}", warp_of(group, warp))


def dq_add_index(items, item, tile):
    return sum(tile in rows for _, rows in items[:item])


def try_backward(seed, shape, deterministic, lockstep, one_warp=False, rounds=None, early=False, bias=None):
    rng = random.Random(seed)
    world = World(rng, lockstep)
    most = rng.randint(1, 9 if shape["share"] == "tiles" else 4)
    items = []
    for _ in range(rng.randint(1, 7)):
        first = rng.randrange(most)
        rows = list(range(first, most)) if rng.random() < 0.8 else []
        items.append((bool(rows) or rng.random() < 0.5, rows))
    counter, add_counts = [0], [0] * most if deterministic else None
    sums = Sums(most, rounds) if rounds else None
    for block in range(rng.choice([1, 2, 3]) if deterministic or sums else 1):
        backward(world, items, shape, counter, add_counts, f"b{block} ", rng.random() < 0.3, one_warp, sums, early,
                 bias)
    world.run(2000000)
