"""Online learning: two trainers learn from a stream of samples, and the mean of their models is fed back to both.

Each trainer corrects its own model with each sample that it gets. One subtask keeps all models and feeds
their mean back. The feedback is broadcast, so every trainer continues with it.

    penstock run examples/learned_slope.py
"""

from penstock.datastream import OutputTag, ProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment

SAMPLES = [("sample", x / 10, 3 * x / 10) for x in range(1, 11)] * 40
RATE = 0.2
MEAN = OutputTag("mean")


class Train(ProcessFunction):
    def open(self, runtime_context):
        self.trainer = runtime_context.get_index_of_this_subtask()
        self.slope = 0.0

    def process_element(self, value, ctx):
        if value[0] == "mean":
            self.slope = value[1]
            return
        _, x, y = value
        self.slope += RATE * (y - self.slope * x) * x
        yield self.trainer, self.slope


class Average(ProcessFunction):
    def open(self, runtime_context):
        self.models = {}
        self.samples = 0

    def process_element(self, value, ctx):
        trainer, slope = value
        self.models[trainer] = slope
        self.samples += 1
        mean = sum(self.models.values()) / len(self.models)
        yield MEAN, ("mean", mean)
        if self.samples == len(SAMPLES):
            yield f"after {self.samples} samples: y = {mean:.1f} x"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.STREAMING)

samples = env.from_collection(SAMPLES).rebalance().iterate().set_parallelism(2)
averages = samples.process(Train()).set_parallelism(2).process(Average()).set_parallelism(1)
samples.close_with(averages.get_side_output(MEAN).broadcast())

averages.print()

env.execute("learned slope")
