"""Models the Hopper backward in 16 bits up to head dimension 128, sm90/backward/kernel.cuh."""
import random

from protocol.world import Barrier, Broken, Ring, World


class Sums:
    """State that blocks share if they also round dQ. additions: additions of warps to dQ, per row tile. done: number of
    finished work items. version: a bug of the rounding, or "sound"."""

    def __init__(self, row_tiles, version):
        self.additions, self.done, self.version = [0] * row_tiles, 0, version


def backward(world, tickets, shape, counter=None, turns=None, name="", clears=False, one_ticket=False, sums=None,
             hasty=False):
    """One thread block. tickets: the work items, [(keys written, [row tiles])]. shape: as printed by shapes.cpp.
    counter: [next ticket], shared by several blocks. turns: additions to dQ so far, per row tile, for `deterministic`
    (ordered accumulation). sums: if given, the blocks also round dQ; each row tile is one more ticket. With share
    "keys", a reducer warp adds dQ from shared memory, and the loader posts the next row tile. hasty: a bug that must be
    found. With share "tiles", K's stage is released before dK is read from it; with "keys", the reducer releases dQ's
    buffer before it has read it."""
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
        bars["ticket", "full", stage] = Barrier(f"{name}work_full[{stage}]", 1)
        bars["ticket", "free", stage] = Barrier(f"{name}work_free[{stage}]", consumers * (1 if one_ticket else 4))
    if bulk:
        for i in range(2):
            bars["dq", "full", i] = Barrier(f"{name}dq_full[{i}]", 4)
            bars["dq", "free", i] = Barrier(f"{name}dq_free[{i}]", 1)
            bars["note", "full", i] = Barrier(f"{name}note_full[{i}]", 1)
            bars["note", "free", i] = Barrier(f"{name}note_free[{i}]", 1)
    counter = counter if counter is not None else [0]
    last = len(tickets) + (len(sums.additions) if sums else 0)
    data = lambda *place: (name, *place)

    def loader():
        at, work_at, keys = {"q": Ring(stages), "d_o": Ring(stages)}, Ring(2), 0
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
            ticket = counter[0]
            counter[0] += 1
            yield world.wait(bars["ticket", "free", work_at.stage], work_at.round)
            world.data[data("ticket", work_at.stage)] = ticket
            bars["ticket", "full", work_at.stage].arrive()
            work_at.move()
            if ticket >= last:
                yield from note(None)
                return
            if ticket >= len(tickets):
                continue
            rows = tickets[ticket][1]
            if bulk and sums and not rows:
                sums.done += 1
            for i, tile in enumerate(rows):
                yield from load("q", (ticket, tile))
                yield from note((ticket, tile, i + 1 == len(rows)))
                if i == 0:
                    yield world.wait(bars["keys", "free"], keys)
                    keys += 1
                    load_keys("k", ticket)
                yield from load("d_o", (ticket, tile))
                if i == 0:
                    load_keys("v", ticket)

    def reducer():
        note_at, reads = Ring(2), 0
        while True:
            yield world.wait(bars["note", "full", note_at.stage], note_at.round + 1)
            note = world.data[data("note", note_at.stage)]
            bars["note", "free", note_at.stage].arrive()
            note_at.move()
            if note is None:
                return
            ticket, tile, ends = note
            if turns is not None:
                turn = dq_add_index(tickets, ticket, tile)
                yield (lambda: turns[tile] >= turn), f"turn {turn} of {tile}"
            reads += 1
            for group in range(consumers):
                yield world.wait(bars["dq", "full", group], reads)
                if hasty:
                    bars["dq", "free", group].arrive()
                yield world.pause()
                for warp in range(4):
                    world.holds("reducer", data("dq", group, warp), (ticket, tile))
                if not hasty:
                    bars["dq", "free", group].arrive()
            if sums and ends and sums.version == "unmet":
                sums.done += 1
            yield world.pause()
            if sums:
                sums.additions[tile] += 4 * readers
            if turns is not None:
                turns[tile] = max(turns[tile], turn + 1)
            if sums and ends and sums.version != "unmet":
                sums.done += 1

    def warp_of(group, warp):
        work_at, at, keys, turn, number, rounds, handed = Ring(2), Ring(stages), 0, 0, 0, None, 0
        speaks = warp == 0
        leads = warp == 0 and (alternates or group == 0)
        me = f"{name}{group}"

        def start(reads):
            nonlocal number
            number += 1
            return world.product(me, warp, number, reads)

        def meet():
            return world.meet((name, "meet"), 8)

        def sync_row_readers():
            return world.meet((name, "rows", group), 4) if alternates else meet()

        def add_up(ticket):
            given, taken = data("exchange", 0, 0, warp), data("k")
            if group == 1:
                given, taken = taken, given
            yield meet()
            world.data[given] = "sum", ticket
            bars["exchanged"].arrive()
            yield world.wait(bars["exchanged"], keys)
            if hasty:
                bars["keys", "free"].arrive()
            yield world.pause()
            world.holds(me, taken, ("sum", ticket))
            if not hasty:
                bars["keys", "free"].arrive()
        while True:
            yield world.wait(bars["ticket", "full", work_at.stage], work_at.round + 1)
            ticket = world.data[data("ticket", work_at.stage)]
            if warp == 0 or not one_ticket:
                bars["ticket", "free", work_at.stage].arrive()
            work_at.move()
            if rounds is not None:  # the row tile of the previous ticket, once the next ticket is known
                if group == 0 and warp == 0 and sums.version != "hasty":
                    yield lambda: sums.done >= len(tickets), "keys that are done"
                yield meet()
                expected = 4 * readers * sum(rounds in rows for _, rows in tickets)
                if sums.additions[rounds] != expected:
                    raise Broken(f"dQ rounded after {sums.additions[rounds]} of {expected} additions")
                rounds = None
            if ticket >= last:
                return
            if ticket >= len(tickets):
                rounds = ticket - len(tickets)
                continue
            written, rows = tickets[ticket]
            if rows:
                keys += 1
                yield world.wait(bars["k", "full"], keys)
                yield world.wait(bars["v", "full"], keys)
                if clears:
                    yield world.meet((name, "clear"), 8)
                dk, before, added = None, None, None
                for i, tile in enumerate(rows):
                    if alternates and (len(rows) - i) % 2 == group:
                        at.move()
                        continue
                    stage = at.stage
                    q, d_o = {data("q", stage): (ticket, tile)}, {data("d_o", stage): (ticket, tile)}
                    yield world.wait(bars["q", "full", stage], at.round + 1)
                    if clears:
                        yield world.wait(bars["d_o", "full", stage], at.round + 1)
                        yield sync_row_readers()
                    scores = start({**q, data("k"): ticket})
                    if dk:
                        yield dk
                        bars["q", "free", before].arrive()
                    before = stage
                    yield world.wait(bars["d_o", "full", stage], at.round + 1)
                    gradients = start({**d_o, data("v"): ticket})
                    at.move()
                    yield scores
                    dv = start(d_o)
                    yield gradients
                    world.data[data("exchange", turn, group, warp)] = (ticket, tile)
                    if bulk and i > 0:  # one fence publishes dS, and dQ of the previous row tile
                        bars["dq", "full", group].arrive()
                    yield sync_row_readers()
                    if not bulk and turns is not None and added is not None and leads:
                        turns[added[0]] = max(turns[added[0]], added[1] + 1)
                    added = turns and (tile, dq_add_index(tickets, ticket, tile))
                    groups = [group] if alternates else range(2)
                    exchange = {data("exchange", turn, g, w): (ticket, tile) for g in groups for w in range(4)}
                    if alternates:  # dQ in two matmuls
                        piece = start({**exchange, data("k"): ticket})
                        yield dv
                        yield piece
                        if turns is not None:
                            yield (lambda a=added: turns[a[0]] >= a[1]), f"turn {added}"
                    dq = start({**exchange, data("k"): ticket})
                    dk = start(q)
                    turn ^= 1
                    yield dv
                    yield dq
                    if speaks:
                        bars["d_o", "free", stage].arrive()
                    if bulk:
                        yield world.wait(bars["dq", "free", group], handed)
                        handed += 1
                        yield from world.write(data("dq", group, warp), (ticket, tile))
                        continue
                    if turns is not None:
                        if not alternates:
                            yield (lambda a=added: turns[a[0]] >= a[1]), f"turn {added}"
                        yield world.pause()
                    if sums:
                        sums.additions[tile] += 1
                if bulk:
                    bars["dq", "full", group].arrive()
                if dk:
                    yield dk
                    bars["q", "free", before].arrive()
                if speaks and not alternates:
                    bars["keys", "free"].arrive()
                if turns is not None and not bulk:
                    yield sync_row_readers()
                    if leads and added is not None:
                        turns[added[0]] = max(turns[added[0]], added[1] + 1)
                if alternates:
                    yield from add_up(ticket)
            if written:
                yield world.pause()  # stores dK and dV
            if bulk:
                continue
            if not (sums and sums.version == "unmet"):
                yield meet()
            if sums and group == 0 and warp == 0:
                sums.done += 1

    world.spawn(f"{name}loader", loader())
    if bulk:
        world.spawn(f"{name}reducer", reducer())
    for group in range(consumers):
        for warp in range(4):
            world.spawn(f"{name}warp {group}.{warp}", warp_of(group, warp))


def dq_add_index(tickets, ticket, tile):
    return sum(tile in rows for _, rows in tickets[:ticket])


def try_backward(seed, shape, deterministic, lockstep, one_ticket=False, rounds=None, hasty=False):
    rng = random.Random(seed)
    world = World(rng, lockstep)
    most = rng.randint(1, 9 if shape["share"] == "tiles" else 4)
    tickets = []
    for _ in range(rng.randint(1, 7)):
        first = rng.randrange(most)
        rows = list(range(first, most)) if rng.random() < 0.8 else []
        tickets.append((bool(rows) or rng.random() < 0.5, rows))
    counter, turns = [0], [0] * most if deterministic else None
    sums = Sums(most, rounds) if rounds else None
    for block in range(rng.choice([1, 2, 3]) if deterministic or sums else 1):
        backward(world, tickets, shape, counter, turns, f"b{block} ", rng.random() < 0.3, one_ticket, sums, hasty)
    world.run(2000000)
