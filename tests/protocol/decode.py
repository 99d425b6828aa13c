"""Models the Hopper decode kernel, sm90/decode."""
import random

from protocol.world import Barrier, World


def decode(world, shape, items, version):
    """One thread block. shape: see print_decode() of shapes.cpp. items: per item (number of key tiles, parts of 8 rows).
    version: one of those in play_decode() of play-barriers."""
    stages, warps, tile_warps = shape["stages"], shape["warps"], shape["tile_warps"]
    fulls = stages if version == "one-per-stage" else shape["full_barriers"]
    teams = warps // tile_warps
    full = [Barrier(f"full[{at}]", 1) for at in range(fulls)]
    empty = [Barrier(f"empty[{stage}]", tile_warps) for stage in range(stages)]

    def producer():
        count = 0
        for n, (tiles, _) in enumerate(items):
            for tile in range(tiles):
                stage, at = count % stages, full[count % fulls]
                yield world.wait(empty[stage], count // stages)
                at.arrive(2)
                for name in "kv":
                    world.load((name, stage), (n, tile), at)
                    yield world.pause()
                count += 1

    def consumer(warp):
        count = 0
        for n, (tiles, parts) in enumerate(items):
            for tile in range(tiles):
                stage = count % stages
                if count % teams == warp // tile_warps:
                    yield world.wait(full[count % fulls], count // fulls + 1)
                    if version == "early":
                        empty[stage].arrive()
                    for name in "kv":
                        for _ in range(2):
                            world.expect(f"warp {warp}", (name, stage), (n, tile))
                            yield world.pause()
                    if version != "early":
                        empty[stage].arrive()
                count += 1
            yield from merge(warp, n, parts)

    def merge(warp, n, parts):
        yield from world.write(("statistics", warp), n)
        yield world.sync("merge", warps)
        for part in range(parts):
            yield from world.write(("merge", warp), (n, part))
            yield world.sync("merge", warps)
            for other in range(warps):
                world.expect(f"warp {warp}", ("statistics", other), n)
                world.expect(f"warp {warp}", ("merge", other), (n, part))
                yield world.pause()
            if version != "merge-unsynced":
                yield world.sync("merge", warps)

    world.spawn("producer", producer())
    for warp in range(warps):
        world.spawn(f"warp {warp}", consumer(warp))


def try_decode(seed, shape, version, lockstep):
    rng = random.Random(seed)
    world = World(rng, lockstep)
    items = [(rng.choice([0, 1, 2, 5, 9, 23]), rng.choice([0, 1, 1, 2])) for _ in range(rng.randint(1, 4))]
    decode(world, shape, items, version)
    world.run()
