"""Simulates a barrier protocol. Agents (warps, producers, TMA) are coroutines that run in a random order. Shared memory
is a table from an address to a tag, which identifies the contents. Also reads the shapes of the kernels."""
import json
import os
import pathlib
import subprocess
import tempfile


def kernel_shapes(program=None):
    """Returns the shapes in the kernels' config headers, by kernel. program: the built shapes.cpp; if None, builds
    it."""
    if program:
        return json.loads(subprocess.run([program], check=True, capture_output=True, text=True).stdout)
    here = pathlib.Path(__file__).resolve().parent
    root = here.parent.parent
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/shapes"
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", f"-I{root}/src", f"-I{root}/include",
                        here / "shapes.cpp", "-o", program], check=True)
        return kernel_shapes(program)


class Broken(Exception):
    pass


class Barrier:
    def __init__(self, name, count):
        self.name, self.count, self.left, self.bytes, self.phase = name, count, count, 0, 0

    def settle(self):
        if self.left < 0:
            raise Broken(f"{self.name}: more arrivals than {self.count}")
        if self.left == 0 and self.bytes == 0:
            self.phase, self.left = self.phase + 1, self.count

    def arrive(self, expecting=0):
        self.bytes += expecting
        self.left -= 1
        self.settle()

    def complete(self):
        self.bytes -= 1
        self.settle()

    def passed(self, nth):
        """Returns true if a wait for phase `nth` (0: none) returns, which depends only on the parity of the phase.
        Raises Broken if the barrier is past that phase."""
        if self.phase > nth:
            raise Broken(f"{self.name}: waits for phase {nth}, the barrier is {self.phase - nth} further")
        return self.phase % 2 == nth % 2


class Ring:
    """Pipeline state: the current stage of a multistage pipeline. It has `stages` stages, numbered from `first`.
    `round`: number of passes over all stages so far."""

    def __init__(self, stages, first=0):
        self.stages, self.first, self.stage, self.round = stages, first, first, 0

    def move(self, by=1):
        rounds, place = divmod(self.stage - self.first + by, self.stages)
        self.stage, self.round = self.first + place, self.round + rounds


class NamedBarrier:
    """A named barrier (bar.sync) of `count` warps."""

    def __init__(self, count):
        self.count, self.arrived, self.phase = count, 0, 0


class World:
    def __init__(self, rng, lockstep):
        self.rng, self.lockstep = rng, lockstep
        self.agents, self.named_barriers, self.matmuls, self.data = [], {}, {}, {}

    def spawn(self, name, agent):
        self.agents.append([name, agent, None, self.rng.choice([0.02, 0.2, 1, 5])])

    # A wait is a pair: a function that returns true once its event has happened, and a text that describes the event.
    def wait(self, barrier, nth):
        return lambda: barrier.passed(nth), f"{barrier.name} phase {nth}"

    def pause(self):
        left = self.rng.choice([0, 0, 1, 5, 40])

        def is_over():
            nonlocal left
            left -= 1
            return left < 0
        return is_over, "time"

    def sync(self, key, count):
        barrier = self.named_barriers.setdefault(key, NamedBarrier(count))
        next_phase = barrier.phase + 1
        barrier.arrived += 1
        if barrier.arrived == barrier.count:
            barrier.arrived, barrier.phase = 0, next_phase
        return lambda: barrier.phase >= next_phase, f"named barrier {key}"

    def load(self, place, tag, barrier):
        """A TMA load: the bytes are invalid from now until it completes."""
        self.data[place] = None

        def copy():
            yield self.pause()
            self.data[place] = tag
            barrier.complete()
        self.spawn(f"copy {place}", copy())

    def write(self, place, tag):
        """A write by a warp, which waits for its completion."""
        self.data[place] = None
        yield self.pause()
        self.data[place] = tag

    def expect(self, who, place, tag):
        if self.data.get(place) != tag:
            raise Broken(f"{who} reads {place}: {self.data.get(place)}, not {tag}")

    def matmul(self, group, warp, number, reads):
        """Starts a matmul and returns the wait of its wait_group. reads: {place: tag}."""
        key = (group, number) if self.lockstep else (group, number, warp)
        state = self.matmuls.setdefault(key, {"issued": 0, "done": False})
        state["issued"] += 1
        if state["issued"] == (4 if self.lockstep else 1):
            def work():
                for turn in range(2):
                    for place, tag in reads.items():
                        self.expect(f"matmul of {group}", place, tag)
                    if turn == 0:
                        yield self.pause()
                state["done"] = True
            self.spawn(f"matmul {group} {number}", work())
        return lambda: state["done"], f"matmul {number} of {group}"

    def run(self, most=400000):
        for _ in range(most):
            ready = []
            for agent in self.agents:
                if agent[2] is None or agent[2][0]():
                    ready.append(agent)
            if not self.agents:
                return
            if not ready:
                if any(a[2][1] == "time" for a in self.agents):
                    continue
                raise Broken("no end: " + "; ".join(f"{a[0]} at {a[2][1]}" for a in self.agents))
            agent = self.rng.choices(ready, [a[3] for a in ready])[0]
            try:
                agent[2] = next(agent[1])
            except StopIteration:
                self.agents.remove(agent)
        raise Broken("too many steps")
