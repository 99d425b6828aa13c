"""Models the Hopper forward in 16 bits, sm90/forward."""
import random

from protocol.world import Barrier, Broken, Ring, World


def forward(world, shape, tiles, version):
    """One thread block. shape: (consumer warpgroups, stages of K and V, stages of Q, True if the loop is rotated).
    tiles: per row tile (number of key tiles, [key tiles that each warpgroup uses], True if rows of V are cleared).
    version: one of those in play_forward() of play-barriers."""
    consumers, stages, q_stages, rotates = shape
    passes, shares = version.startswith("passing"), version.startswith("shares")
    step, readers = (2, 1) if shares else (1, consumers)
    one_ring = not shares or version == "shares-one-ring"
    ring_stages = stages if one_ring else stages // 2
    bars = {}
    for name, n in (("q", q_stages), ("k", stages), ("v", stages)):
        for stage in range(n):
            bars[name, "full", stage] = Barrier(f"{name}_full[{stage}]", 1)
            bars[name, "free", stage] = Barrier(f"{name}_free[{stage}]", readers)
    for stage in range(q_stages):
        bars["q", "free", stage] = Barrier(f"q_free[{stage}]", consumers * (1 if version == "early-release" else 5))

    def key_ring(owner):
        return Ring(ring_stages, 0 if one_ring else owner * ring_stages)

    def producer():
        q_at = Ring(q_stages)
        at = {name: [key_ring(owner) for owner in range(1 if one_ring else 2)] for name in "kv"}

        def load(name, ring, tag, expecting=1):
            yield world.wait(bars[name, "free", ring.stage], ring.round)
            if name == "q":
                world.data["place", ring.stage] = tag
            full = bars[name, "full", ring.stage]
            if expecting:
                world.load((name, ring.stage), tag, full)
                yield world.pause()
            full.arrive(expecting)
            ring.move()

        for n, (keys, _, _) in enumerate(tiles):
            def load_keys(name, tile):
                return load(name, at[name][0 if one_ring else (keys - 1 - tile) % 2], (n, tile))
            if keys == 0:
                yield from load("q", q_at, n, 0)
                continue
            yield from load_keys("k", keys - 1)
            yield from load("q", q_at, n)
            for tile in range(keys - 2, -1, -1):
                yield from load_keys("k", tile)
                yield from load_keys("v", tile + 1)
            yield from load_keys("v", 0)
        yield from load("q", q_at, "end", 0)

    def warp_of(group, warp):
        at = {"q": Ring(q_stages), "k": key_ring(group), "v": key_ring(group)}
        number = 0

        def full(name):
            return world.wait(bars[name, "full", at[name].stage], at[name].round + 1)

        def release(name):
            if warp == 0:  # one elected thread arrives for the warpgroup
                bars[name, "free", at[name].stage].arrive()
            at[name].move(2 if version == "shares-one-ring" and name != "q" else 1)

        def skip(count):
            """Skips key tiles of the other warpgroup if both share one pipeline."""
            if version == "shares-one-ring":
                at["k"].move(count)
                at["v"].move(count)

        def join(n):
            """The second warpgroup writes its O; the first adds it to its own O."""
            if group == 1:
                yield from world.write(("o", warp), n)
            yield world.sync("given", 8)
            if group == 0:
                for _ in range(2):
                    world.expect(f"warp {group}.{warp}", ("o", warp), n)
                    yield world.pause()
            if version != "shares-unsynced":
                yield world.sync("taken", 8)

        for n in range(len(tiles) + 1):
            yield full("q")
            place = world.data["place", at["q"].stage]
            if place != (n if n < len(tiles) else "end"):
                raise Broken(f"warp {group}.{warp} reads place {place}, not {n}")
            if version != "early-release":  # each warp arrives after it has read the index of the row tile
                bars["q", "free", at["q"].stage].arrive()
            if n == len(tiles):
                return
            keys, used, clears = tiles[n]
            if clears and not (shares and group > 0):
                yield full("v")
                yield world.sync("clear", 4 * readers)
            end = min(keys, used[group]) if passes else keys
            for tile in range(keys, end, -1):
                yield full("k")
                yield full("v")
                if version != "passing-unsynced":
                    yield world.sync(("pass", group), 4)
                release("k")
                release("v")
            own = range(end - 1 - (group if shares else 0), -1, -step)
            skip(group)
            if own:
                q = ("q", at["q"].stage)

                def scores(tile):
                    return world.matmul(group, warp, number, {q: n, ("k", at["k"].stage): (n, tile)})

                def output(tile):
                    return world.matmul(group, warp, number, {("v", at["v"].stage): (n, tile)})
                yield full("k")
                number += 1
                yield scores(own[0])
                release("k")
                for tile in own[1:]:
                    yield full("k")
                    number += 1
                    first = scores(tile)
                    yield full("v")
                    number += 1
                    second = output(tile + step)
                    yield first
                    release("k")
                    if rotates and tile == own[-1]:
                        release("q")
                    yield second
                    release("v")
                if not rotates or len(own) == 1:
                    release("q")
                yield full("v")
                number += 1
                yield output(own[-1])
                release("v")
                if shares and (keys > 1 or version == "shares-one-side"):
                    yield from join(n)
            else:
                release("q")
            skip(keys - group - 2 * len(own))
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


def shared_tiles(rng):
    tiles = []
    for _ in range(rng.randint(1, 8)):
        keys = rng.choice([0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 6, 7])
        tiles.append((keys, [keys] * 2, keys > 0 and rng.random() < 0.3))
    return tiles


def try_forward(seed, shape, version, lockstep):
    rng = random.Random(seed)
    world = World(rng, lockstep)
    tiles = shared_tiles(rng) if version.startswith("shares") else forward_tiles(rng, *shape[:2])
    forward(world, shape, tiles, version)
    world.run()
