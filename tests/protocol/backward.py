"""Models the Hopper backward in 16 bits up to head dimension 128, sm90/backward/kernel.cuh."""
import random

from protocol.world import Barrier, Broken, PipelineState, World


class Sums:
    """State that blocks share if they also round dQ. additions: additions of warps to dQ, per row tile. done: number of
    finished work items. version: a bug of the rounding, or "sound"."""

    def __init__(self, row_tiles, version):
        self.additions, self.done, self.version = [0] * row_tiles, 0, version


def backward(world, items, shape, counter=None, add_counts=None, name="", clears=False, one_warp=False, sums=None,
             early=False):
    """One thread block. With share "keys", a reducer warp adds dQ from shared memory, and the loader sends it a message
    with the next row tile.
    items: the work items, [(True if dK and dV are written, [row tiles])].
    shape: as printed by shapes.cpp.
    counter: [next item], shared by several blocks.
    add_counts: additions to dQ so far, per row tile, for `deterministic` (ordered accumulation).
    sums: if given, the blocks also round dQ; each row tile is one more item.
    Bugs that must be found:
    one_warp: one warp of a warpgroup releases the work item for all four.
    early: with share "tiles", K's stage is released before dK is read from that stage. With "keys", the reducer
    releases dQ's buffer before the reducer has read the buffer."""
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
            bars["message", "full", i] = Barrier(f"{name}message_full[{i}]", 1)
            bars["message", "free", i] = Barrier(f"{name}message_free[{i}]", 1)
    counter = counter if counter is not None else [0]
    last = len(items) + (len(sums.additions) if sums else 0)
    data = lambda *place: (name, *place)

    def loader():
        states, work_state, keys = {"q": PipelineState(stages), "d_o": PipelineState(stages)}, PipelineState(2), 0
        message_state = PipelineState(2)

        def load(what, tag):
            state = states[what]
            yield world.wait(bars[what, "free", state.stage], state.round)
            world.load(data(what, state.stage), tag, bars[what, "full", state.stage])
            yield world.pause()
            bars[what, "full", state.stage].arrive(1)
            state.move()

        def message(content):
            if bulk:
                yield world.wait(bars["message", "free", message_state.stage], message_state.round)
                world.data[data("message", message_state.stage)] = content
                bars["message", "full", message_state.stage].arrive()
                message_state.move()

        def load_keys(what, tag):
            world.load(data(what), tag, bars[what, "full"])
            bars[what, "full"].arrive(1)
        while True:
            item = counter[0]
            counter[0] += 1
            yield world.wait(bars["item", "free", work_state.stage], work_state.round)
            world.data[data("item", work_state.stage)] = item
            bars["item", "full", work_state.stage].arrive()
            work_state.move()
            if item >= last:
                yield from message(None)
                return
            if item >= len(items):
                continue
            rows = items[item][1]
            if bulk and sums and not rows:
                sums.done += 1
            for i, tile in enumerate(rows):
                yield from load("q", (item, tile))
                yield from message((item, tile, i + 1 == len(rows)))
                if i == 0:
                    yield world.wait(bars["keys", "free"], keys)
                    keys += 1
                    load_keys("k", item)
                yield from load("d_o", (item, tile))
                if i == 0:
                    load_keys("v", item)

    def reducer():
        message_state, reads = PipelineState(2), 0
        while True:
            yield world.wait(bars["message", "full", message_state.stage], message_state.round + 1)
            message = world.data[data("message", message_state.stage)]
            bars["message", "free", message_state.stage].arrive()
            message_state.move()
            if message is None:
                return
            item, tile, ends = message
            if add_counts is not None:
                index = dq_add_index(items, item, tile)
                yield (lambda: add_counts[tile] >= index), f"addition {index} to row tile {tile}"
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
                add_counts[tile] = max(add_counts[tile], index + 1)
            if sums and ends and sums.version != "unsynced":
                sums.done += 1

    def warp_of(group, warp):
        work_state, row_state = PipelineState(2), PipelineState(stages)
        keys, buffer, number, rounded_tile, dq_sent = 0, 0, 0, None, 0
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
            sent, received = data("exchange", 0, 0, warp), data("k")
            if group == 1:
                sent, received = received, sent
            yield sync()
            world.data[sent] = "sum", item
            bars["exchanged"].arrive()
            yield world.wait(bars["exchanged"], keys)
            if early:
                bars["keys", "free"].arrive()
            yield world.pause()
            world.expect(me, received, ("sum", item))
            if not early:
                bars["keys", "free"].arrive()
        while True:
            yield world.wait(bars["item", "full", work_state.stage], work_state.round + 1)
            item = world.data[data("item", work_state.stage)]
            if warp == 0 or not one_warp:
                bars["item", "free", work_state.stage].arrive()
            work_state.move()
            if rounded_tile is not None:  # the row tile of the previous item, once the next item is known
                if group == 0 and warp == 0 and sums.version != "early":
                    yield lambda: sums.done >= len(items), "keys that are done"
                yield sync()
                expected = 4 * readers * sum(rounded_tile in rows for _, rows in items)
                if sums.additions[rounded_tile] != expected:
                    raise Broken(f"dQ rounded after {sums.additions[rounded_tile]} of {expected} additions")
                rounded_tile = None
            if item >= last:
                return
            if item >= len(items):
                rounded_tile = item - len(items)
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
                        row_state.move()
                        continue
                    stage = row_state.stage
                    q, d_o = {data("q", stage): (item, tile)}, {data("d_o", stage): (item, tile)}
                    yield world.wait(bars["q", "full", stage], row_state.round + 1)
                    if clears:
                        yield world.wait(bars["d_o", "full", stage], row_state.round + 1)
                        yield sync_row_readers()
                    scores = start({**q, data("k"): item})
                    if dk:
                        yield dk
                        bars["q", "free", before].arrive()
                    before = stage
                    yield world.wait(bars["d_o", "full", stage], row_state.round + 1)
                    gradients = start({**d_o, data("v"): item})
                    row_state.move()
                    yield scores
                    dv = start(d_o)
                    yield gradients
                    world.data[data("exchange", buffer, group, warp)] = (item, tile)
                    if bulk and i > 0:  # one fence publishes dS, and dQ of the previous row tile
                        bars["dq", "full", group].arrive()
                    yield sync_row_readers()
                    if not bulk and add_counts is not None and added is not None and leads:
                        add_counts[added[0]] = max(add_counts[added[0]], added[1] + 1)
                    added = add_counts and (tile, dq_add_index(items, item, tile))
                    groups = [group] if alternates else range(2)
                    exchange = {data("exchange", buffer, g, w): (item, tile) for g in groups for w in range(4)}
                    if alternates:  # dQ in two matmuls
                        piece = start({**exchange, data("k"): item})
                        yield dv
                        yield piece
                        if add_counts is not None:
                            yield (lambda a=added: add_counts[a[0]] >= a[1]), f"addition {added}"
                    dq = start({**exchange, data("k"): item})
                    dk = start(q)
                    buffer ^= 1
                    yield dv
                    yield dq
                    if elected:
                        bars["d_o", "free", stage].arrive()
                    if bulk:
                        yield world.wait(bars["dq", "free", group], dq_sent)
                        dq_sent += 1
                        yield from world.write(data("dq", group, warp), (item, tile))
                        continue
                    if add_counts is not None:
                        if not alternates:
                            yield (lambda a=added: add_counts[a[0]] >= a[1]), f"addition {added}"
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


def try_backward(seed, shape, deterministic, lockstep, one_warp=False, rounding=None, early=False):
    rng = random.Random(seed)
    world = World(rng, lockstep)
    most = rng.randint(1, 9 if shape["share"] == "tiles" else 4)
    items = []
    for _ in range(rng.randint(1, 7)):
        first = rng.randrange(most)
        rows = list(range(first, most)) if rng.random() < 0.8 else []
        items.append((bool(rows) or rng.random() < 0.5, rows))
    counter, add_counts = [0], [0] * most if deterministic else None
    sums = Sums(most, rounding) if rounding else None
    for block in range(rng.choice([1, 2, 3]) if deterministic or sums else 1):
        backward(world, items, shape, counter, add_counts, f"b{block} ", rng.random() < 0.3, one_warp, sums, early)
    world.run(2000000)
