"""Models the Hopper backward at head dimension 256 in 16 bits, by clusters of two blocks: sm90/backward/pairs.cuh."""
import random

from protocol.backward import Sums, dq_add_index
from protocol.world import Barrier, Broken, Ring, World

WARPS = 4


class Block:
    def __init__(self, name, shape, version):
        groups, blocks = shape["consumers"], shape["blocks"]
        counts = {"k_full": 1, "v_full": 1, "keys_free": groups}
        for stage in range(shape["d_o_stages"]):
            counts |= {f"d_o_full{stage}": 1, f"d_o_free{stage}": groups * (1 if version == "alone" else blocks)}
        for stage in range(shape["stages"]):
            counts |= {f"q_full{stage}": 1, f"q_free{stage}": groups * WARPS + (blocks - 1) * groups}
        for stage in range(2):
            counts |= {f"work_full{stage}": 1, f"work_free{stage}": groups * WARPS, f"mail_full{stage}": 1,
                       f"mail_free{stage}": 1, f"others_full{stage}": 1, f"gradients_free{stage}": blocks * groups}
        self.name, self.bars = name, {what: Barrier(f"{name}{what}", count) for what, count in counts.items()}

    def __getitem__(self, what):
        return self.bars[what]


def pair(world, shape, items, counter, name, sums, add_counts, clears, version):
    """One cluster of two thread blocks. shape: as printed by shapes.cpp. items: the work items, [(True if dK and dV are
    written, [row tiles])]; both blocks work on each. The row tiles of `sums` follow as further items; one block takes
    each."""
    groups, q_stages, d_o_stages = shape["consumers"], shape["stages"], shape["d_o_stages"]
    blocks = [Block(f"{name}.{rank} ", shape, version) for rank in range(shape["blocks"])]
    last = len(items) + len(sums.additions)

    def take():
        counter[0] += 1
        return counter[0] - 1

    def loader(rank):
        bars, other = blocks[rank], blocks[rank ^ 1]
        at = {"q": Ring(q_stages), "d_o": Ring(d_o_stages)}
        work_at, mail_at, keys = Ring(2), Ring(2), 0

        def take_work_together():
            stage = mail_at.stage
            if rank == 0:
                item = take()
                yield world.wait(bars[f"mail_free{stage}"], mail_at.round)
                world.data[other.name, "mail", stage] = item
                other[f"mail_full{stage}"].arrive()
            else:
                yield world.wait(bars[f"mail_full{stage}"], mail_at.round + 1)
                item = world.data[bars.name, "mail", stage]
                other[f"mail_free{stage}"].arrive()
            mail_at.move()
            return item

        def publish(item):
            yield world.wait(bars[f"work_free{work_at.stage}"], work_at.round)
            world.data[bars.name, "item", work_at.stage] = item
            bars[f"work_full{work_at.stage}"].arrive()
            work_at.move()

        def load(what, tag):
            ring = at[what]
            yield world.wait(bars[f"{what}_free{ring.stage}"], ring.round)
            for to in blocks:  # multicast: this block's half
                world.load((to.name, what, ring.stage, rank), tag, to[f"{what}_full{ring.stage}"])
            yield world.pause()
            bars[f"{what}_full{ring.stage}"].arrive(2)
            ring.move()
        while True:
            item = yield from take_work_together()
            if item >= len(items):
                break
            yield from publish(item)
            for i, tile in enumerate(items[item][1]):
                yield from load("q", (item, tile))
                if i == 0:
                    yield world.wait(bars["keys_free"], keys)
                    keys += 1
                    world.load((bars.name, "k"), item, bars["k_full"])
                    bars["k_full"].arrive(1)
                yield from load("d_o", (item, tile))
                if i == 0:
                    for what in ("v", "k_other"):
                        world.load((bars.name, what), item, bars["v_full"])
                    bars["v_full"].arrive(2)
        if rank:
            item = take()
        while item < last:
            yield from publish(item)
            item = take()
        yield from publish(item)
        yield world.sync((name, "end"), 2 * (groups * WARPS + 1))

    def warp_of(rank, group, warp):
        bars, other = blocks[rank], blocks[rank ^ 1]
        work_at, q_at, d_o_at, turn, dq_turn = Ring(2), Ring(q_stages), Ring(d_o_stages), Ring(2), Ring(2)
        keys, number, rounds = 0, 0, None
        elected, leads = warp == 0, group == 0 and warp == 0
        me = f"{bars.name}{group}"

        def start(reads):
            nonlocal number
            number += 1
            return world.matmul(me, warp, number, reads)

        def sync():
            return world.sync((bars.name, "sync"), groups * WARPS)

        def at(block, what, stage, tag):
            return {(block.name, what, stage, half): tag for half in range(2)}

        def scores(block, what, stage, tag):
            return {(block.name, what, stage, g, w): tag for g in range(groups) for w in range(WARPS)}

        def send(stage, tag):
            source, to = scores(bars, "gradients", stage, tag), scores(other, "others", stage, tag)

            def copy():
                for place in to:
                    world.data[place] = None
                for moment in range(2):
                    for place in source:
                        world.expect("the copy", place, tag)
                    if moment == 0:
                        yield world.pause()
                world.data.update(to)
                other[f"others_full{stage}"].complete()
            world.spawn(f"copy of {bars.name}", copy())

        def start_dq(tag):
            yield world.wait(bars[f"others_full{dq_turn.stage}"], dq_turn.round + 1)
            return start({**scores(bars, "gradients", dq_turn.stage, tag), **scores(bars, "others", dq_turn.stage, tag),
                          (bars.name, "k"): tag[0], (bars.name, "k_other"): tag[0]})

        def add(tag):
            if add_counts is not None:
                yield (lambda: add_counts[tag[1]] >= 2 * dq_add_index(items, *tag)), f"turn of {tag}"
            if elected:
                bars[f"gradients_free{dq_turn.stage}"].arrive()
                other[f"gradients_free{dq_turn.stage}"].arrive()
            dq_turn.move()
            yield world.pause()
            sums.additions[tag[1]] += 1

        def release_q(stage):
            bars[f"q_free{stage}"].arrive()
            if elected:
                other[f"q_free{stage}"].arrive()

        def release_d_o(stage):
            if elected:
                bars[f"d_o_free{stage}"].arrive()
                if version != "alone":
                    other[f"d_o_free{stage}"].arrive()
        while True:
            yield world.wait(bars[f"work_full{work_at.stage}"], work_at.round + 1)
            item = world.data[bars.name, "item", work_at.stage]
            bars[f"work_free{work_at.stage}"].arrive()
            work_at.move()
            if rounds is not None:
                if leads:
                    yield lambda: sums.done >= 2 * len(items), "keys that are done"
                yield sync()
                expected = 2 * groups * WARPS * sum(rounds in rows for _, rows in items)
                if sums.additions[rounds] != expected:
                    raise Broken(f"dQ rounded after {sums.additions[rounds]} of {expected} additions")
                rounds = None
            if item >= last:
                break
            if item >= len(items):
                rounds = item - len(items)
                continue
            written, rows = items[item]
            if rows:
                keys += 1
                yield world.wait(bars["k_full"], keys)
                yield world.wait(bars["v_full"], keys)
                if clears:
                    yield world.sync((bars.name, "clear"), groups * WARPS)
                before, stage_before, dk, added = None, 0, None, None
                for tile in rows:
                    tag, stage, d_o_stage = (item, tile), q_at.stage, d_o_at.stage
                    q, d_o = at(bars, "q", stage, tag), at(bars, "d_o", d_o_stage, tag)
                    yield world.wait(bars[f"q_full{stage}"], q_at.round + 1)
                    if clears:
                        yield world.wait(bars[f"d_o_full{d_o_stage}"], d_o_at.round + 1)
                        yield sync()
                    s = start({**q, (bars.name, "k"): item})
                    dq = None
                    if before:
                        dq = yield from start_dq(before)
                    yield world.wait(bars[f"d_o_full{d_o_stage}"], d_o_at.round + 1)
                    dp = start({**d_o, (bars.name, "v"): item})
                    yield s
                    if before:
                        yield dk
                        release_q(stage_before)
                    stage_before = stage
                    yield dp
                    if dq:
                        yield dq
                    yield world.wait(bars[f"gradients_free{turn.stage}"], turn.round)
                    world.data[bars.name, "weights", turn.stage, group, warp] = tag
                    world.data[bars.name, "gradients", turn.stage, group, warp] = tag
                    yield sync()
                    if leads:
                        bars[f"others_full{turn.stage}"].arrive(1)
                        send(turn.stage, tag)
                        if add_counts is not None and added is not None:
                            add_counts[added] += 1
                    dv = start({**scores(bars, "weights", turn.stage, tag), **d_o})
                    dk = start({**scores(bars, "gradients", turn.stage, tag), **q})
                    turn.move()
                    q_at.move()
                    d_o_at.move()
                    if version == "early":
                        release_d_o(d_o_stage)
                    if dq:
                        yield from add(before)
                        added = before[1]
                    before = tag
                    yield dv
                    if version != "early":
                        release_d_o(d_o_stage)
                dq = yield from start_dq(before)
                yield dk
                release_q(stage_before)
                yield dq
                if elected:
                    bars["keys_free"].arrive()
                yield from add(before)
                if add_counts is not None:
                    yield sync()
                    if leads:
                        if added is not None:
                            add_counts[added] += 1
                        add_counts[before[1]] += 1
            if written:
                yield world.pause()  # store
            yield sync()
            if leads:
                sums.done += 1
        yield world.sync((name, "end"), 2 * (groups * WARPS + 1))

    for rank in range(2):
        world.spawn(f"{name}.{rank} loader", loader(rank))
        for group in range(groups):
            for warp in range(WARPS):
                world.spawn(f"{name}.{rank} warp {group}.{warp}", warp_of(rank, group, warp))


def try_backward_pairs(seed, shape, deterministic, lockstep, version="sound"):
    rng = random.Random(seed)
    world = World(rng, lockstep)
    most = rng.randint(1, 6)
    items = []
    for _ in range(rng.randint(1, 5)):
        first = rng.randrange(most)
        rows = list(range(first, most)) if rng.random() < 0.8 else []
        items.append((bool(rows) or rng.random() < 0.5, rows))
    counter, add_counts = [0], [0] * most if deterministic else None
    sums = Sums(most, "sound")
    for number in range(rng.choice([1, 2])):
        pair(world, shape, items, counter, f"p{number}", sums, add_counts, rng.random() < 0.3, version)
    world.run(3000000)
