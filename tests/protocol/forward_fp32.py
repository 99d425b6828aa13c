"""Models the Hopper forward in fp32, sm90/forward_fp32."""
import random

from protocol.forward import forward_tiles
from protocol.world import Barrier, Ring, World


def forward_fp32(world, shape, tiles, version):
    """shape: as printed by shapes.cpp. Splitter warps write tiles of split floats to shared memory. They also exchange
    scales and the indices of row tiles through it. A splitter whose registers are all in use finishes its oldest item
    before it starts the next one."""
    stages, q_stages, pieces, q_pieces = (shape[key] for key in ("stages", "q_stages", "pieces", "q_pieces"))
    held, consumers, warps = shape["held"], shape["consumers"], 3
    # The next row tile becomes known when `late` items are left: a few with the work counter, all with a static order.
    late = world.rng.choice([2 * pieces, 1000])
    # Items in flight may be row tiles without keys. Each of them needs a slot, and so do the current and the next row
    # tile.
    rows_held, sizes_held = (held + 1 if version == "few-rows" else 4), (1 if version == "one-size" else 2)
    held = 3 if version == "far-ahead" else held
    bars = {}
    for name, n, arrivals in (("q", q_stages, warps), ("k", stages, warps * pieces), ("v", stages, warps * pieces)):
        for stage in range(n):
            bars[name, "full", stage] = Barrier(f"{name}_full[{stage}]", arrivals)
            bars[name, "free", stage] = Barrier(f"{name}_free[{stage}]", consumers * 4)

    def items(n):
        if n == len(tiles):
            return [("end", 0, 0)]
        keys = tiles[n][0]
        if keys == 0:
            return [("no_keys", 0, 0)]
        order = [("k", keys - 1, piece) for piece in range(pieces)] + [("q", 0, piece) for piece in range(q_pieces)]
        order += [("v", keys - 1, piece) for piece in range(pieces)]
        for tile in range(keys - 2, -1, -1):
            order += [(name, tile, piece) for name in ("k", "v") for piece in range(pieces)]
        return order

    def splitter(warp):
        at, q_at, measured, passed, begun = Ring(stages), Ring(q_stages), 0, 0, []
        me = f"splitter {warp}"
        if warp == 0:
            yield from world.write(("rows", 0), 0)
        yield world.sync("split", warps)

        def pass_rows():
            nonlocal passed
            if warp == 0:
                world.expect(me, ("rows", passed % rows_held), passed)
                yield from world.write(("place", q_at.stage), passed)
            yield world.pause()
            bars["q", "full", q_at.stage].arrive()
            q_at.move()
            passed += 1

        def finish(n, name, tile, piece):
            nonlocal measured
            if name in ("end", "no_keys"):
                yield world.wait(bars["q", "free", q_at.stage], q_at.round)
                yield from pass_rows()
            elif name == "q":
                if piece == 0:
                    yield world.wait(bars["q", "free", q_at.stage], q_at.round)
                yield from world.write(("q", q_at.stage, piece, warp), n)
                if piece == q_pieces - 1:
                    yield from pass_rows()
            else:
                yield from world.write(("sizes", measured % sizes_held, warp), measured)
                yield world.sync("split", warps)
                for other in range(warps):
                    world.expect(me, ("sizes", measured % sizes_held, other), measured)
                    yield world.pause()
                measured += 1
                if piece == 0:
                    yield world.wait(bars[name, "free", at.stage], at.round)
                yield from world.write((name, at.stage, piece, warp), (n, tile))
                bars[name, "full", at.stage].arrive()
                if name == "v" and piece == pieces - 1:
                    at.move()

        for n in range(len(tiles) + 1):
            world.expect(me, ("rows", n % rows_held), n)
            order = items(n)
            for step, after in enumerate(order):
                if n < len(tiles) and step == max(0, len(order) - late):
                    if warp == 0:
                        yield from world.write(("rows", (n + 1) % rows_held), n + 1)
                    if version != "rows-unsynced":
                        yield world.sync("split", warps)
                    world.expect(me, ("rows", (n + 1) % rows_held), n + 1)
                if len(begun) == held:
                    yield from finish(*begun.pop(0))
                begun.append((n, *after))
        for item in begun:
            yield from finish(*item)

    def warp_of(group, warp):
        at = {"q": Ring(q_stages), "k": Ring(stages), "v": Ring(stages)}
        number, me = 0, f"warp {group}.{warp}"

        def full(name):
            return world.wait(bars[name, "full", at[name].stage], at[name].round + 1)

        def release(name):
            bars[name, "free", at[name].stage].arrive()
            at[name].move()

        def parts(name, count, tag):
            return {(name, at[name].stage, piece, w): tag for piece in range(count) for w in range(warps)}

        def read_scales(name, tag):  # each thread reads by itself
            stage = at[name].stage
            for piece in range(pieces):
                for _ in range(24 if version == "early" else 4):
                    yield world.pause()
                world.expect(me, (name, stage, piece, 0), tag)
        for n in range(len(tiles) + 1):
            yield full("q")
            yield world.pause()
            world.expect(me, ("place", at["q"].stage), n)
            if n == len(tiles):
                return
            keys, used, _ = tiles[n]
            for _ in range(keys, min(keys, used[group]), -1):
                yield full("k")
                yield full("v")
                release("k")
                release("v")
            for tile in range(min(keys, used[group]) - 1, -1, -1):
                yield full("k")
                number += 1
                yield world.matmul(group, warp, number,
                                    parts("k", pieces, (n, tile)) | parts("q", q_pieces, n))
                if version == "early":
                    bars["k", "free", at["k"].stage].arrive()
                yield from read_scales("k", (n, tile))
                if version != "early":
                    bars["k", "free", at["k"].stage].arrive()
                at["k"].move()
                yield full("v")
                yield from read_scales("v", (n, tile))
                number += 1
                yield world.matmul(group, warp, number, parts("v", pieces, (n, tile)))
                release("v")
            release("q")
            yield world.pause()

    for warp in range(warps):
        world.spawn(f"splitter {warp}", splitter(warp))
    for group in range(consumers):
        for warp in range(4):
            world.spawn(f"warp {group}.{warp}", warp_of(group, warp))


def try_forward_fp32(seed, shape, version, lockstep):
    rng = random.Random(seed)
    world = World(rng, lockstep)
    tiles = forward_tiles(rng, shape["consumers"], shape["stages"])
    at = rng.randint(0, len(tiles))
    tiles[at:at] = [(0, [0, 0], False)] * rng.choice([0, 0, 2, 4])  # row tiles without keys: splitters run far ahead
    forward_fp32(world, shape, tiles, version)
    world.run(2000000)
