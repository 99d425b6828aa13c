"""Models the Hopper backward in fp32, sm90/backward_fp32."""
import random

from protocol.world import Barrier, Broken, Ring, World


def backward_fp32(world, shape, tickets, counter, turns, name, version):
    """One thread block. tickets: the work items, [[row tiles]], one per 128 keys, of which each warpgroup has 64.
    counter: [next ticket], shared by several blocks. turns: additions to dQ so far, per row tile, for ordered
    accumulation. Each warpgroup has its own named barriers."""
    stages, consumers = shape["stages"], shape["consumers"]
    bars = {"keys full": Barrier(f"{name}keys_full", 1), "keys free": Barrier(f"{name}keys_free", consumers * 4)}
    for stage in range(stages):
        bars["rows full", stage] = Barrier(f"{name}rows_full[{stage}]", 2)  # TMA and row facts
        bars["rows free", stage] = Barrier(f"{name}rows_free[{stage}]", consumers * 4)
        bars["ticket full", stage] = Barrier(f"{name}work_full[{stage}]", 1)
        bars["ticket free", stage] = Barrier(f"{name}work_free[{stage}]", consumers * 4)

    def loader():
        passed, keys, rows = Ring(2), 0, Ring(stages)
        while True:
            ticket, counter[0] = counter[0], counter[0] + 1
            yield world.wait(bars["ticket free", passed.stage], passed.round)
            yield from world.write((name, "ticket", passed.stage), ticket)
            bars["ticket full", passed.stage].arrive()
            passed.move()
            if ticket >= len(tickets):
                return
            for n, tile in enumerate(tickets[ticket]):
                yield world.wait(bars["rows free", rows.stage], rows.round)
                full = bars["rows full", rows.stage]
                full.arrive(1)
                world.load((name, "rows", rows.stage), (ticket, tile), full)
                yield from world.write((name, "facts", rows.stage), (ticket, tile))
                full.arrive()
                rows.move()
                if n == 0:
                    yield world.wait(bars["keys free"], keys)
                    keys += 1
                    bars["keys full"].arrive(1)
                    world.load((name, "keys"), ticket, bars["keys full"])

    def warp_of(group, warp):
        passed, keys, rows, number = Ring(2), 0, Ring(stages), 0
        me, mine = f"{name}warp {group}.{warp}", (name, "gradients", group)

        def meet():
            return world.meet((name, group), 4)

        def product(reads):
            nonlocal number
            number += 1
            return world.product((name, group), warp, number, reads)

        while True:
            yield world.wait(bars["ticket full", passed.stage], passed.round + 1)
            ticket = world.data[name, "ticket", passed.stage]
            yield world.pause()
            if ticket is None or ticket != world.data[name, "ticket", passed.stage]:
                raise Broken(f"{me} reads ticket {ticket}")
            bars["ticket free", passed.stage].arrive()
            passed.move()
            if ticket >= len(tickets):
                return
            if not tickets[ticket]:
                continue
            if warp == 0:
                yield from world.write((name, "unmasked", group), ticket)
            yield meet()
            keys += 1
            yield world.wait(bars["keys full"], keys)
            for tile in tickets[ticket]:
                stage, tag = rows.stage, (ticket, tile)
                in_keys, in_rows = {(name, "keys"): ticket}, {(name, "rows", stage): tag}
                yield world.wait(bars["rows full", stage], rows.round + 1)
                rows.move()
                yield product(in_keys | in_rows)
                world.holds(me, (name, "facts", stage), tag)
                world.holds(me, (name, "unmasked", group), ticket)
                yield from world.write((name, "size", group, warp), tag)
                dv = product(in_rows)
                if version != "unmeasured":
                    yield meet()
                for other in range(4):
                    world.holds(me, (name, "size", group, other), tag)
                    yield world.pause()
                yield from world.write((*mine, warp), tag)
                yield dv
                dk = product(in_rows)
                if version == "hasty":
                    bars["rows free", stage].arrive()
                if version != "unmet":
                    yield meet()
                yield dk
                if version != "hasty":
                    bars["rows free", stage].arrive()
                yield product(in_keys | {(*mine, other): tag for other in range(4)})
                if turns is None:
                    continue
                turn = 2 * sum(tile in earlier for earlier in tickets[:ticket]) + group
                yield (lambda tile=tile, turn=turn: turns[tile] >= turn), f"turn {turn} of {tile}"
                if turns[tile] > turn:
                    raise Broken(f"{me} adds to {tile} in turn {turn}, it is {turns[tile]}")
                yield world.pause()
                yield meet()
                if warp == 0:
                    turns[tile] = turn + 1
            bars["keys free"].arrive()

    world.spawn(f"{name}loader", loader())
    for group in range(consumers):
        for warp in range(4):
            world.spawn(f"{name}warp {group}.{warp}", warp_of(group, warp))


def try_backward_fp32(seed, shape, deterministic, version, lockstep):
    rng = random.Random(seed)
    world = World(rng, lockstep)
    most = rng.randint(1, 5)
    tickets = [list(range(rng.randrange(most), most)) if rng.random() < 0.8 else [] for _ in range(rng.randint(1, 6))]
    counter, turns = [0], [0] * most if deterministic else None
    for block in range(rng.choice([1, 2, 3])):
        backward_fp32(world, shape, tickets, counter, turns, f"b{block} ", version)
    world.run(2000000)
