"""A loop that runs until its results converge: Newton's method finds the square root of each number.

Converged numbers leave the loop, the others are fed back. The job ends when its input has ended and the loop is empty.

    penstock run examples/square_roots.py
"""

from penstock.datastream import OutputTag, ProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment

NUMBERS = [2.0, 9.0, 144.0, 1e6]
AGAIN = OutputTag("again")


class Improve(ProcessFunction):
    def process_element(self, value, ctx):
        number, guess, turns = value
        better = (guess + number / guess) / 2
        if abs(better - guess) < 1e-9:
            yield f"the root of {number:g} is {better:.6f}, after {turns} turns"
        else:
            yield AGAIN, (number, better, turns + 1)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.STREAMING)

guesses = env.from_collection([(number, number, 1) for number in NUMBERS]).iterate()
roots = guesses.process(Improve())
guesses.close_with(roots.get_side_output(AGAIN))

roots.print()

env.execute("square roots")
