import java.io.IOException;
import java.io.PrintWriter;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * The four jobs on Flink in Java, and the source of those on PyFlink. A record is (key, number, created at), the last in
 * microseconds since 1970. What is written where is told in counting.py.
 *
 * <p>Usage: FlinkJobs FIGURE RATE BUFFER_TIMEOUT_MS DIRECTORY
 */
public class FlinkJobs {
    static final int KEYS = 1000;
    static final int PARALLELISM = 2;
    static final long WINDOW_MS = 1000;
    static final TypeInformation<Tuple3<Integer, Long, Long>> RECORD = Types.TUPLE(Types.INT, Types.LONG, Types.LONG);

    public static void main(String[] args) throws Exception {
        String figure = args[0];
        double rate = Double.parseDouble(args[1]);
        String directory = args[3];
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(PARALLELISM);
        env.getConfig().enableObjectReuse();
        if (Long.parseLong(args[2]) >= 0) {
            env.setBufferTimeout(Long.parseLong(args[2]));
        }
        DataStream<Tuple3<Integer, Long, Long>> records = env.addSource(source(rate, figure.equals("5")), RECORD);
        switch (figure) {
            case "1", "6" ->
                records.keyBy(record -> record.f0)
                        .process(new RunningCount(directory, figure.equals("6")))
                        .sinkTo(new DiscardingSink<>());
            case "3" ->
                // Divided first: a subtask of the source has only even or only odd numbers.
                records.map(record -> Tuple3.of(record.f0, record.f1 / PARALLELISM, record.f2))
                        .returns(RECORD)
                        .filter(record -> record.f1 % 2 == 0)
                        .sinkTo(new CountingSink(directory));
            case "5" ->
                records.keyBy(record -> record.f0)
                        .window(TumblingEventTimeWindows.of(Duration.ofMillis(WINDOW_MS)))
                        .aggregate(new Count(), new WindowResults(directory))
                        .sinkTo(new DiscardingSink<>());
            default -> throw new IllegalArgumentException("figure must be 1, 3, 5 or 6, got " + figure);
        }
        env.execute("figure " + figure);
    }

    /** Called from Python as well. `rate` is in records a second over all subtasks, 0: as fast as it goes. */
    public static Source source(double rate, boolean eventTime) {
        return new Source(rate, eventTime);
    }

    public static TypeInformation<Tuple3<Integer, Long, Long>> recordType() {
        return RECORD;
    }

    static long nowMicros() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
    }

    /** Of p subtasks, subtask i makes the numbers i, i + p, i + 2p, ... A record goes out when it is due. */
    public static class Source extends RichParallelSourceFunction<Tuple3<Integer, Long, Long>> {
        private static final int LARGEST_CHUNK = 100;
        // As Flink's generators of watermarks; PyFlink ends a bundle at each one.
        private static final long WATERMARK_INTERVAL_MS = 200;
        private final double rate;
        private final boolean eventTime;
        private volatile boolean running = true;

        Source(double rate, boolean eventTime) {
            this.rate = rate;
            this.eventTime = eventTime;
        }

        @Override
        public void run(SourceContext<Tuple3<Integer, Long, Long>> context) {
            int step = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            long number = subtask;
            long emitted = 0;
            long watermarkMs = 0;
            long began = nowMicros();
            while (running) {
                long now = nowMicros();
                long due = LARGEST_CHUNK;
                if (rate > 0) {
                    // Subtasks take turns, as in penstock's limiter.
                    double share = (now - began) / 1e6 * rate / step + 1.0 - (double) subtask / step;
                    due = Math.min((long) share - emitted, LARGEST_CHUNK);
                }
                if (due <= 0) {
                    LockSupport.parkNanos(200_000);
                    continue;
                }
                synchronized (context.getCheckpointLock()) {
                    for (long i = 0; i < due; i++, number += step) {
                        var record = Tuple3.of((int) (number * 2654435761L % KEYS), number, now);
                        if (eventTime) {
                            context.collectWithTimestamp(record, now / 1000);
                        } else {
                            context.collect(record);
                        }
                    }
                    if (eventTime && now / 1000 - 1 >= watermarkMs + WATERMARK_INTERVAL_MS) {
                        watermarkMs = now / 1000 - 1;
                        context.emitWatermark(new Watermark(watermarkMs));
                    }
                }
                emitted += due;
            }
        }

        @Override
        public void cancel() {
            running = false;
        }
    }

    static class RunningCount extends KeyedProcessFunction<Integer, Tuple3<Integer, Long, Long>, Long> {
        private final String directory;
        private final boolean latency;
        private transient Counter counter;
        private transient ValueState<Long> count;

        RunningCount(String directory, boolean latency) {
            this.directory = directory;
            this.latency = latency;
        }

        @Override
        public void open(OpenContext context) throws IOException {
            counter = new Counter(directory, 1);
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        }

        @Override
        public void processElement(Tuple3<Integer, Long, Long> record, Context context, Collector<Long> out)
                throws Exception {
            Long before = count.value();
            count.update(before == null ? 1L : before + 1);
            if (latency) {
                counter.arrived(record.f2);
            } else {
                counter.seen();
            }
        }
    }

    static class Count implements AggregateFunction<Tuple3<Integer, Long, Long>, Long, Long> {
        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Tuple3<Integer, Long, Long> record, Long count) {
            return count + 1;
        }

        @Override
        public Long getResult(Long count) {
            return count;
        }

        @Override
        public Long merge(Long left, Long right) {
            return left + right;
        }
    }

    static class WindowResults extends ProcessWindowFunction<Long, Long, Integer, TimeWindow> {
        private final String directory;
        private transient Counter counter;

        WindowResults(String directory) {
            this.directory = directory;
        }

        @Override
        public void open(OpenContext context) throws IOException {
            counter = new Counter(directory, 1);
        }

        @Override
        public void process(Integer key, Context context, Iterable<Long> counts, Collector<Long> out) {
            for (long count : counts) {
                counter.window(context.window().getEnd(), count);
            }
        }
    }

    record CountingSink(String directory) implements Sink<Tuple3<Integer, Long, Long>> {
        @Override
        public SinkWriter<Tuple3<Integer, Long, Long>> createWriter(WriterInitContext context) throws IOException {
            Counter counter = new Counter(directory, 2);
            return new SinkWriter<>() {
                @Override
                public void write(Tuple3<Integer, Long, Long> record, Context context) {
                    counter.seen();
                }

                @Override
                public void flush(boolean endOfInput) {}

                @Override
                public void close() {}
            };
        }
    }

    /** counting.py once more. */
    static class Counter implements Serializable {
        private static final long INTERVAL_MICROS = 250_000;
        private final PrintWriter file;
        private final int weight;
        private final TreeMap<Long, Long> latencies = new TreeMap<>();
        private long seen;
        private long writtenAt;
        private long openWindow;
        private long inWindow;

        Counter(String directory, int weight) throws IOException {
            this.weight = weight;
            file = new PrintWriter(Files.newBufferedWriter(Path.of(directory, UUID.randomUUID() + ".jsonl")), true);
        }

        void seen() {
            seen++;
            if ((seen & 255) == 0) {
                long now = nowMicros();
                if (now - writtenAt >= INTERVAL_MICROS) {
                    file.printf("{\"at\": %d, \"n\": %d}%n", now, seen * weight);
                    writtenAt = now;
                }
            }
        }

        void arrived(long created) {
            long now = nowMicros();
            seen++;
            latencies.merge((now - created) / 100, 1L, Long::sum);
            if (now - writtenAt >= INTERVAL_MICROS) {
                StringBuilder pairs = new StringBuilder();
                latencies.forEach((tenths, count) ->
                        pairs.append(pairs.isEmpty() ? "" : ", ").append("[" + tenths + ", " + count + "]"));
                file.printf("{\"at\": %d, \"n\": %d, \"latencies\": [%s]}%n", now, seen, pairs);
                latencies.clear();
                writtenAt = now;
            }
        }

        void window(long end, long count) {
            if (end != openWindow && inWindow > 0) {
                writeWindow();
            }
            openWindow = end;
            inWindow += count;
            writtenAt = nowMicros();
        }

        private void writeWindow() {
            file.printf("{\"at\": %d, \"window\": %d, \"n\": %d}%n", writtenAt, openWindow, inWindow);
            inWindow = 0;
        }
    }
}
