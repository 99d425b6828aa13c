"""Models the row preparation of the Hopper backward, sm90/backward/rows.cuh: no block may continue before LSE and delta
of all rows are stored. Two such kernels run on a GPU that may not have room for all of their blocks."""
import random

from protocol.world import Broken, World

WARPS = 3  # per block


def kernel(world, name, blocks, strips, room, version):
    """strips: number of row strips. room: [number of blocks that the GPU can start now].
    version: "counter": a work counter distributes the strips. "together": all blocks start at once and share the strips
    evenly.
    Bugs that must be found: "apart": as "together", but each block starts when there is room for it. "early": as
    "counter", but strips are counted before they are written."""
    next_strip, done, rows, inside = [0], [0], [False] * strips, [False]
    by_counter = version in ("counter", "early")

    def enter():
        if version != "together":
            yield (lambda: room[0] > 0), f"room for a block of {name}"
            room[0] -= 1
            return
        yield (lambda: inside[0] or room[0] >= blocks), f"room for all blocks of {name}"
        if not inside[0]:
            room[0] -= blocks
            inside[0] = True

    def warp_of(block, warp, ended):
        mine = []
        strip = block * WARPS + warp
        while True:
            if by_counter:
                strip = next_strip[0]
                next_strip[0] += 1
            if strip >= strips:
                break
            mine.append(strip)
            if version == "early":
                done[0] += 1
            yield world.pause()
            rows[strip] = True
            strip += blocks * WARPS
        if version != "early":
            done[0] += len(mine)
        ended[0] += 1

    def block_of(block):
        yield from enter()
        ended = [0]
        for warp in range(WARPS):
            world.spawn(f"{name}{block}.{warp}", warp_of(block, warp, ended))
        yield (lambda: ended[0] == WARPS), "its own warps"
        yield (lambda: done[0] >= strips), f"strips of {name}"
        if not all(rows):
            raise Broken(f"{name}{block} reads facts of rows that are not written")
        yield world.pause()  # iterates over key tiles
        room[0] += 1

    for block in range(blocks):
        world.spawn(f"{name}{block}", block_of(block))


def try_prepare_rows(seed, version):
    rng = random.Random(seed)
    world = World(rng, True)
    blocks = [rng.randint(1, 4), rng.randint(1, 4)]
    room = [max(blocks) if version == "together" else rng.randint(1, 4)]
    for name, count in zip("ab", blocks):
        kernel(world, name, count, rng.randint(1, 12), room, version)
    world.run()
