"""The Hopper forward in 16 bits, sm90/forward."""
import random

from play_barriers.world import Barrier, Broken, Ring, World


def forward(world, shape, tiles, version):
    """tiles: [(tiles of keys, [used by each warpgroup], clears)]; version: a key of play-barriers' table."""
    consumers, stages, q_stages = shape
    passes = version.startswith("passing")
    bars = {}
    for name, n in (("q", q_stages), ("k", stages), ("v", stages)):
        for stage in range(n):
            bars[name, "full", stage] = Barrier(f"{name}_full[{stage}]", 1)
            bars[name, "free", stage] = Barrier(f"{name}_free[{stage}]", consumers)
    for stage in range(q_stages if version != "untied" else 0):
        bars["q", "free", stage] = Barrier(f"q_free[{stage}]", consumers * 5)

    def producer():
        at = {"q": Ring(q_stages), "k": Ring(stages), "v": Ring(stages)}

        def load(name, tag, expecting=1):
            ring = at[name]
            yield world.wait(bars[name, "free", ring.stage], ring.round)
            if name == "q":
                world.data["place", ring.stage] = tag
            if expecting:
                world.load((name, ring.stage), tag, bars[name, "full", ring.stage])
                yield world.pause()
            bars[name, "full", ring.stage].arrive(expecting)
            ring.move()
        for n, (keys, _, _) in enumerate(tiles):
            if keys == 0:
                yield from load("q", n, 0)
                continue
            yield from load("k", (n, keys - 1))
            yield from load("q", n)
            for tile in range(keys - 2, -1, -1):
                yield from load("k", (n, tile))
                yield from load("v", (n, tile + 1))
            yield from load("v", (n, 0))
        yield from load("q", "end", 0)

    def warp_of(group, warp):
        at = {"q": Ring(q_stages), "k": Ring(stages), "v": Ring(stages)}
        number = 0

        def release(name):
            if warp == 0:  # one thread speaks
                bars[name, "free", at[name].stage].arrive()
            at[name].move()

        def full(name):
            return world.wait(bars[name, "full", at[name].stage], at[name].round + 1)

        for n in range(len(tiles) + 1):
            yield full("q")
            place = world.data["place", at["q"].stage]
            if place != (n if n < len(tiles) else "end"):
                raise Broken(f"warp {group}.{warp} reads place {place}, not {n}")
            if version != "untied":  # each warp tells that it has read it
                bars["q", "free", at["q"].stage].arrive()
            if n == len(tiles):
                return
            keys, used, clears = tiles[n]
            if clears:
                yield full("v")
                yield world.meet("clear", 4 * consumers)
            end = min(keys, used[group]) if passes else keys
            for tile in range(keys, end, -1):
                yield full("k")
                yield full("v")
                if version != "passing-untied":
                    yield world.meet(("pass", group), 4)
                release("k")
                release("v")
            if end > 0:
                q = ("q", at["q"].stage)

                def scores(tile):
                    return world.product(group, warp, number, {q: n, ("k", at["k"].stage): (n, tile)})

                def output(tile):
                    return world.product(group, warp, number, {("v", at["v"].stage): (n, tile)})
                yield full("k")
                number += 1
                yield scores(end - 1)
                release("k")
                for tile in range(end - 2, -1, -1):
                    yield full("k")
                    number += 1
                    first = scores(tile)
                    yield full("v")
                    number += 1
                    second = output(tile + 1)
                    yield first
                    release("k")
                    yield second
                    release("v")
                release("q")
                yield full("v")
                number += 1
                yield output(0)
                release("v")
            else:
                release("q")
            yield world.pause()  # finish_tile

    world.spawn("producer", producer())
    for group in range(consumers):
        for warp in range(4):
            world.spawn(f"warp {group}.{warp}", warp_of(group, warp))


def forward_tiles(rng, consumers, stages):
    tiles = []
    for _ in range(rng.randint(1, 5)):
        keys = rng.choice([0, 1, 1, 2, 3, 5, 2 * stages + 1])
        used = [rng.choice([keys, keys, max(0, keys - 1), 0]) for _ in range(consumers)]
        if keys:
            used[rng.randrange(consumers)] = keys
        tiles.append((keys, used, keys > 0 and rng.random() < 0.3))
    return tiles


def try_forward(seed, shape, version, lockstep):
    rng = random.Random(seed)
    world = World(rng, lockstep)
    forward(world, shape, forward_tiles(rng, *shape[:2]), version)
    world.run()
