import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.util.Collector;

/**
 * The programs of benchmarks/patterns.py on Flink in Java: the same events, the same patterns, the number of matches.
 *
 * <p>A JSON file has `program`, `statement` (of MATCH_RECOGNIZE, or null), `events` (a list of numbers: one run for
 * each), `kinds` (a file: the kind of event i is character i modulo its length; a, b, c or x), `keys`, and `match_rows`
 * (of so many events of a key the last one is a b; or null). For each run a JSON document is printed: seconds of wall
 * clock and of CPU of this process, and the matches.
 */
public class FlinkPatterns {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int PARALLELISM = 2;
    private static final TypeInformation<Tuple3<Integer, Integer, Long>> EVENT =
            Types.TUPLE(Types.INT, Types.INT, Types.LONG);
    private static final LongAdder FOUND = new LongAdder();

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> task = JSON.readValue(new File(arguments[0]), Map.class);
        byte[] kinds = Files.readAllBytes(Path.of((String) task.get("kinds")));
        for (Object events : (List<Object>) task.get("events")) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                run(task, new Source(((Number) events).longValue(), kinds, (Integer) task.get("keys"),
                        (Integer) task.get("match_rows")), answer);
            } catch (Exception error) {
                Throwable cause = error;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                answer.put("error", String.valueOf(cause));
            }
            System.out.println(JSON.writeValueAsString(answer));
            System.out.flush();
        }
        System.exit(0);
    }

    private static void run(Map<String, Object> task, Source source, Map<String, Object> answer) throws Exception {
        FOUND.reset();
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(new Configuration());
        env.setParallelism(PARALLELISM);
        env.getConfig().enableObjectReuse();
        DataStream<Tuple3<Integer, Integer, Long>> events = env.addSource(source, EVENT)
                .assignTimestampsAndWatermarks(WatermarkStrategy
                        .<Tuple3<Integer, Integer, Long>>forMonotonousTimestamps()
                        .withTimestampAssigner((event, before) -> event.f2));
        String statement = (String) task.get("statement");
        if (statement == null) {
            CEP.pattern(events.keyBy(event -> event.f0), pattern((String) task.get("program")))
                    .process(new Counting())
                    .sinkTo(new DiscardingSink<>());
        } else {
            StreamTableEnvironment tables = StreamTableEnvironment.create(env);
            tables.createTemporaryView("numbered", events, Schema.newBuilder()
                    .columnByMetadata("rowtime", "TIMESTAMP_LTZ(3)").watermark("rowtime", "SOURCE_WATERMARK()").build());
            tables.executeSql("CREATE TEMPORARY VIEW events AS SELECT f0 AS `key`, f1 AS kind, f2 AS `at`, rowtime"
                    + " FROM numbered");
            tables.toDataStream(tables.sqlQuery(statement)).filter(row -> count()).sinkTo(new DiscardingSink<>());
        }
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long cpu = system.getProcessCpuTime();
        long wall = System.nanoTime();
        env.execute();
        answer.put("wall_s", (System.nanoTime() - wall) / 1e9);
        answer.put("cpu_s", (system.getProcessCpuTime() - cpu) / 1e9);
        answer.put("matches", FOUND.sum());
    }

    private static boolean count() {
        FOUND.increment();
        return false;
    }

    private static Pattern<Tuple3<Integer, Integer, Long>, ?> pattern(String program) {
        switch (program) {
            case "loop":
                return begin().followedBy("b").where(new Is('b')).oneOrMore().greedy().followedBy("c")
                        .where(new Is('c')).within(Duration.ofSeconds(60));
            case "strict":
                return begin().next("b").where(new Is('b')).next("c").where(new Is('c'));
            default:
                return begin().followedBy("b").where(new Is('b')).within(Duration.ofSeconds(10));
        }
    }

    private static Pattern<Tuple3<Integer, Integer, Long>, Tuple3<Integer, Integer, Long>> begin() {
        return Pattern.<Tuple3<Integer, Integer, Long>>begin("a", AfterMatchSkipStrategy.noSkip()).where(new Is('a'));
    }

    /** Of p subtasks, subtask i makes the events i, i + p, i + 2p, ... */
    public static class Source extends RichParallelSourceFunction<Tuple3<Integer, Integer, Long>> {
        private static final int CHUNK = 100;
        private final long events;
        private final byte[] kinds;
        private final int keys;
        private final Integer matchRows;
        private volatile boolean running = true;

        Source(long events, byte[] kinds, int keys, Integer matchRows) {
            this.events = events;
            this.kinds = kinds;
            this.keys = keys;
            this.matchRows = matchRows;
        }

        @Override
        public void run(SourceContext<Tuple3<Integer, Integer, Long>> context) {
            int step = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            long number = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            while (running && number < events) {
                synchronized (context.getCheckpointLock()) {
                    for (int i = 0; i < CHUNK && number < events; i++, number += step) {
                        context.collect(Tuple3.of((int) (number * 2654435761L % keys), kind(number), number));
                    }
                }
            }
        }

        private int kind(long number) {
            if (matchRows != null) {
                return number / keys % matchRows == matchRows - 1 ? 1 : 0;
            }
            return kinds[(int) (number % kinds.length)] - 'a';
        }

        @Override
        public void cancel() {
            running = false;
        }
    }

    private static class Is extends SimpleCondition<Tuple3<Integer, Integer, Long>> {
        private final int kind;

        Is(char kind) {
            this.kind = kind - 'a';
        }

        @Override
        public boolean filter(Tuple3<Integer, Integer, Long> event) {
            return event.f1 == kind;
        }
    }

    private static class Counting extends PatternProcessFunction<Tuple3<Integer, Integer, Long>, Integer> {
        @Override
        public void processMatch(Map<String, List<Tuple3<Integer, Integer, Long>>> match, Context context,
                Collector<Integer> out) {
            count();
            out.collect(match.size());
        }
    }
}
