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


def pair(world, shape, tickets, counter, name, sums, turns, clears, version):
    """One cluster of two thread blocks. shape: as printed by shapes.cpp. tickets: the work items, [(keys written, [row
    tiles])]; both blocks work on each. The row tiles of `sums` follow as further tickets; one block takes each."""
    groups, q_stages, d_o_stages = shape["consumers"], shape["stages"], shape["d_o_stages"]
    blocks = [Block(f"{name}.{rank} ", shape, version) for rank in range(shape["blocks"])]
    last = len(tickets) + len(sums.additions)

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
                ticket = take()
                yield world.wait(bars[f"mail_free{stage}"], mail_at.round)
                world.data[other.name, "mail", stage] = ticket
                other[f"mail_full{stage}"].arrive()
            else:
                yield world.wait(bars[f"mail_full{stage}"], mail_at.round + 1)
                ticket = world.data[bars.name, "mail", stage]
                other[f"mail_free{stage}"].arrive()
            mail_at.move()
            return ticket

        def hand_on(ticket):
            yield world.wait(bars[f"work_free{work_at.stage}"], work_at.round)
            world.data[bars.name, "ticket", work_at.stage] = ticket
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
            ticket = yield from take_work_together()
            if ticket >= len(tickets):
                break
            yield from hand_on(ticket)
            for i, tile in enumerate(tickets[ticket][1]):
                yield from load("q", (ticket, tile))
                if i == 0:
                    yield world.wait(bars["keys_free"], keys)
                    keys += 1
                    world.load((bars.name, "k"), ticket, bars["k_full"])
                    bars["k_full"].arrive(1)
                yield from load("d_o", (ticket, tile))
                if i == 0:
                    for what in ("v", "k_other"):
                        world.load((bars.name, what), ticket, bars["v_full"])
                    bars["v_full"].arrive(2)
        if rank:
            ticket = take()
        while ticket < last:
            yield from hand_on(ticket)
            ticket = take()
        yield from hand_on(ticket)
        yield world.meet((name, "end"), 2 * (groups * WARPS + 1))

    def warp_of(rank, group, warp):
        bars, other = blocks[rank], blocks[rank ^ 1]
        work_at, q_at, d_o_at, turn, dq_turn = Ring(2), Ring(q_stages), Ring(d_o_stages), Ring(2), Ring(2)
        keys, number, rounds = 0, 0, None
        speaks, leads = warp == 0, group == 0 and warp == 0
        me = f"{bars.name}{group}"

        def start(reads):
            nonlocal number
            number += 1
            return world.product(me, warp, number, reads)

        def meet():
            return world.meet((bars.name, "meet"), groups * WARPS)

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
                        world.holds("the copy", place, tag)
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
            if turns is not None:
                yield (lambda: turns[tag[1]] >= 2 * dq_add_index(tickets, *tag)), f"turn of {tag}"
            if speaks:
                bars[f"gradients_free{dq_turn.stage}"].arrive()
                other[f"gradients_free{dq_turn.stage}"].arrive()
            dq_turn.move()
            yield world.pause()
            sums.additions[tag[1]] += 1

        def give_back_q(stage):
            bars[f"q_free{stage}"].arrive()
            if speaks:
                other[f"q_free{stage}"].arrive()

        def give_back_d_o(stage):
            if speaks:
                bars[f"d_o_free{stage}"].arrive()
                if version != "alone":
                    other[f"d_o_free{stage}"].arrive()
        while True:
            yield world.wait(bars[f"work_full{work_at.stage}"], work_at.round + 1)
            ticket = world.data[bars.name, "ticket", work_at.stage]
            bars[f"work_free{work_at.stage}"].arrive()
            work_at.move()
            if rounds is not None:
                if leads:
                    yield lambda: sums.done >= 2 * len(tickets), "keys that are done"
                yield meet()
                expected = 2 * groups * WARPS * sum(rounds in rows for _, rows in tickets)
                if sums.additions[rounds] != expected:
                    raise Broken(f"dQ rounded after {sums.additions[rounds]} of {expected} additions")
                rounds = None
            if ticket >= last:
                break
            if ticket >= len(tickets):
                rounds = ticket - len(tickets)
                continue
            written, rows = tickets[ticket]
            if rows:
                keys += 1
                yield world.wait(bars["k_full"], keys)
                yield world.wait(bars["v_full"], keys)
                if clears:
                    yield world.meet((bars.name, "clear"), groups * WARPS)
                before, stage_before, dk, added = None, 0, None, None
                for tile in rows:
                    tag, stage, d_o_stage = (ticket, tile), q_at.stage, d_o_at.stage
                    q, d_o = at(bars, "q", stage, tag), at(bars, "d_o", d_o_stage, tag)
                    yield world.wait(bars[f"q_full{stage}"], q_at.round + 1)
                    if clears:
                        yield world.wait(bars[f"d_o_full{d_o_stage}"], d_o_at.round + 1)
                        yield meet()
                    s = start({**q, (bars.name, "k"): ticket})
                    dq = None
                    if before:
                        dq = yield from start_dq(before)
                    yield world.wait(bars[f"d_o_full{d_o_stage}"], d_o_at.round + 1)
                    dp = start({**d_o, (bars.name, "v"): ticket})
                    yield s
                    if before:
                        yield dk
                        give_back_q(stage_before)
                    stage_before = stage
                    yield dp
                    if dq:
                        yield dq
                    yield world.wait(bars[f"gradients_free{turn.stage}"], turn.round)
                    world.data[bars.name, "weights", turn.stage, group, warp] = tag
                    world.data[bars.name, "gradients", turn.stage, group, warp] = tag
                    yield meet()
                    if leads:
                        bars[f"others_full{turn.stage}"].arrive(1)
                        send(turn.stage, tag)
                        if turns is not None and added is not None:
                            turns[added] += 1
                    dv = start({**scores(bars, "weights", turn.stage, tag), **d_o})
                    dk = start({**scores(bars, "gradients", turn.stage, tag), **q})
                    turn.move()
                    q_at.move()
                    d_o_at.move()
                    if version == "early":
                        give_back_d_o(d_o_stage)
                    if dq:
                        yield from add(before)
                        added = before[1]
                    before = tag
                    yield dv
                    if version != "early":
                        give_back_d_o(d_o_stage)
                dq = yield from start_dq(before)
                yield dk
                give_back_q(stage_before)
                yield dq
                if speaks:
                    bars["keys_free"].arrive()
                yield from add(before)
                if turns is not None:
                    yield meet()
                    if leads:
                        if added is not None:
                            turns[added] += 1
                        turns[before[1]] += 1
            if written:
                yield world.pause()  # store
            yield meet()
            if leads:
                sums.done += 1
        yield world.meet((name, "end"), 2 * (groups * WARPS + 1))

    for rank in range(2):
        world.spawn(f"{name}.{rank} loader", loader(rank))
        for group in range(groups):
            for warp in range(WARPS):
                world.spawn(f"{name}.{rank} warp {group}.{warp}", warp_of(rank, group, warp))


def try_backward_pairs(seed, shape, deterministic, lockstep, version="sound"):
    rng = random.Random(seed)
    world = World(rng, lockstep)
    most = rng.randint(1, 6)
    tickets = []
    for _ in range(rng.randint(1, 5)):
        first = rng.randrange(most)
        rows = list(range(first, most)) if rng.random() < 0.8 else []
        tickets.append((bool(rows) or rng.random() < 0.5, rows))
    counter, turns = [0], [0] * most if deterministic else None
    sums = Sums(most, "sound")
    for number in range(rng.choice([1, 2])):
        pair(world, shape, tickets, counter, f"p{number}", sums, turns, rng.random() < 0.3, version)
    world.run(3000000)
