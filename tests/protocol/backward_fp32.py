"""Models the Hopper backward in fp32, sm90/backward_fp32."""
import random

from protocol.world import Barrier, Broken, Ring, World


def backward_fp32(world, shape, items, counter, add_counts, name, version):
    """One thread block. Each warpgroup has its own named barriers.
    items: the work items, [[row tiles]], one per 128 keys. Each warpgroup processes 64 of the keys.
    counter: [next item], shared by several blocks.
    add_counts: additions to dQ so far, per row tile, for ordered accumulation."""
    stages, consumers = shape["stages"], shape["consumers"]
    bars = {"keys full": Barrier(f"{name}keys_full", 1), "keys free": Barrier(f"{name}keys_free", consumers * 4)}
    for stage in range(stages):
        bars["rows full", stage] = Barrier(f"{name}rows_full[{stage}]", 2)  # TMA and row facts
        bars["rows free", stage] = Barrier(f"{name}rows_free[{stage}]", consumers * 4)
        bars["item full", stage] = Barrier(f"{name}work_full[{stage}]", 1)
        bars["item free", stage] = Barrier(f"{name}work_free[{stage}]", consumers * 4)

    def loader():
        passed, keys, rows = Ring(2), 0, Ring(stages)
        while True:
            item, counter[0] = counter[0], counter[0] + 1
            yield world.wait(bars["item free", passed.stage], passed.round)
            yield from world.write((name, "item", passed.stage), item)
            bars["item full", passed.stage].arrive()
            passed.move()
            if item >= len(items):
                return
            for n, tile in enumerate(items[item]):
                yield world.wait(bars["rows free", rows.stage], rows.round)
                full = bars["rows full", rows.stage]
                full.arrive(1)
                world.load((name, "rows", rows.stage), (item, tile), full)
                yield from world.write((name, "facts", rows.stage), (item, tile))
                full.arrive()
                rows.move()
                if n == 0:
                    yield world.wait(bars["keys free"], keys)
                    keys += 1
                    bars["keys full"].arrive(1)
                    world.load((name, "keys"), item, bars["keys full"])

    def warp_of(group, warp):
        passed, keys, rows, number = Ring(2), 0, Ring(stages), 0
        me, mine = f"{name}warp {group}.{warp}", (name, "gradients", group)

        def sync():
            return world.sync((name, group), 4)

        def matmul(reads):
            nonlocal number
            number += 1
            return world.matmul((name, group), warp, number, reads)

        while True:
            yield world.wait(bars["item full", passed.stage], passed.round + 1)
            item = world.data[name, "item", passed.stage]
            yield world.pause()
            if item is None or item != world.data[name, "item", passed.stage]:
                raise Broken(f"{me} reads item {item}")
            bars["item free", passed.stage].arrive()
            passed.move()
            if item >= len(items):
                return
            if not items[item]:
                continue
            if warp == 0:
                yield from world.write((name, "unmasked", group), item)
            yield sync()
            keys += 1
            yield world.wait(bars["keys full"], keys)
            for tile in items[item]:
                stage, tag = rows.stage, (item, tile)
                in_keys, in_rows = {(name, "keys"): item}, {(name, "rows", stage): tag}
                yield world.wait(bars["rows full", stage], rows.round + 1)
                rows.move()
                yield matmul(in_keys | in_rows)
                world.expect(me, (name, "facts", stage), tag)
                world.expect(me, (name, "unmasked", group), item)
                yield from world.write((name, "size", group, warp), tag)
                dv = matmul(in_rows)
                if version != "unmeasured":
                    yield sync()
                for other in range(4):
                    world.expect(me, (name, "size", group, other), tag)
                    yield world.pause()
                yield from world.write((*mine, warp), tag)
                yield dv
                dk = matmul(in_rows)
                if version == "early":
                    bars["rows free", stage].arrive()
                if version != "unsynced":
                    yield sync()
                yield dk
                if version != "early":
                    bars["rows free", stage].arrive()
                yield matmul(in_keys | {(*mine, other): tag for other in range(4)})
                if add_counts is None:
                    continue
                turn = 2 * sum(tile in earlier for earlier in items[:item]) + group
                yield (lambda tile=tile, turn=turn: add_counts[tile] >= turn), f"turn {turn} of {tile}"
                if add_counts[tile] > turn:
                    raise Broken(f"{me} adds to {tile} in turn {turn}, it is {add_counts[tile]}")
                yield world.pause()
                yield sync()
                if warp == 0:
                    add_counts[tile] = turn + 1
            bars["keys free"].arrive()

    world.spawn(f"{name}loader", loader())
    for group in range(consumers):
        for warp in range(4):
            world.spawn(f"{name}warp {group}.{warp}", warp_of(group, warp))


def try_backward_fp32(seed, shape, deterministic, version, lockstep):
    rng = random.Random(seed)
    world = World(rng, lockstep)
    most = rng.randint(1, 5)
    items = [list(range(rng.randrange(most), most)) if rng.random() < 0.8 else [] for _ in range(rng.randint(1, 6))]
    counter, add_counts = [0], [0] * most if deterministic else None
    for block in range(rng.choice([1, 2, 3])):
        backward_fp32(world, shape, items, counter, add_counts, f"b{block} ", version)
    world.run(2000000)
