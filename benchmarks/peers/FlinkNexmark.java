import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.lang.management.ManagementFactory;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/**
 * Runs statements of Flink's SQL, which a JSON file names, and prints a JSON document a query.
 *
 * The file has `options` of the environment, `setup` (statements), and `queries`: a list of `name`, `setup`, and `insert`
 * (to be measured: seconds of wall clock and of CPU of this process) or `select` (whose final rows are counted and
 * digested, by the columns `compared`; with a column `key`, a row replaces the one of its key), or `latency`: a query
 * whose last column is the clock's time at which each row is due, UTC, of those due from `warmup_ms` to `end_ms` behind
 * the first event a histogram of how much later they arrive (ms). Its events pass the filter `leaves_source(time)`; `due(time)` there is when an
 * event of this time is due at this subtask of the source, and `begun(time)` behind it when it is at the last one.
 */
public class FlinkNexmark {
    /** The function of q14: how often a character is in a text. */
    public static class CountChar extends ScalarFunction {
        public long eval(String text, String character) {
            return text == null ? 0 : text.chars().filter(one -> one == character.charAt(0)).count();
        }
    }

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final AtomicReference<BigInteger> SUM = new AtomicReference<>();
    private static final ConcurrentHashMap<Object, BigInteger> OF_KEYS = new ConcurrentHashMap<>();
    private static final LongAdder COUNT = new LongAdder();
    private static final ConcurrentHashMap<Long, LongAdder> LATENCIES = new ConcurrentHashMap<>();
    private static final ConcurrentLinkedQueue<AtomicLong> STARTS = new ConcurrentLinkedQueue<>();
    private static final AtomicLong FIRST = new AtomicLong();

    /** Learns, directly behind a source, by how much the clock is ahead of the time of events that leave it in time. */
    public abstract static class AtSource extends ScalarFunction {
        private transient AtomicLong ahead;

        @Override
        public void open(FunctionContext context) {
            ahead = new AtomicLong(Long.MAX_VALUE);
            STARTS.add(ahead);
        }

        protected long dueAt(TimestampData time) {
            ahead.accumulateAndGet(System.currentTimeMillis() - time.getMillisecond(), Math::min);
            return time.getMillisecond() + ahead.get();
        }
    }

    public static class LeavesSource extends AtSource {
        public boolean eval(@DataTypeHint(value = "TIMESTAMP(3)", bridgedTo = TimestampData.class) TimestampData time) {
            FIRST.accumulateAndGet(dueAt(time), Math::min);
            return true;
        }
    }

    public static class Due extends AtSource {
        public @DataTypeHint(value = "TIMESTAMP(3)", bridgedTo = TimestampData.class) TimestampData eval(
                @DataTypeHint(value = "TIMESTAMP(3)", bridgedTo = TimestampData.class) TimestampData time) {
            return TimestampData.fromEpochMillis(dueAt(time));
        }

        @Override
        public boolean isDeterministic() {
            return false;
        }
    }

    public static class Begun extends ScalarFunction {
        public @DataTypeHint(value = "TIMESTAMP(3)", bridgedTo = TimestampData.class) TimestampData eval(
                @DataTypeHint(value = "TIMESTAMP(3)", bridgedTo = TimestampData.class) TimestampData time) {
            long ahead = STARTS.stream().mapToLong(AtomicLong::get).filter(one -> one < Long.MAX_VALUE).max().orElse(0);
            return TimestampData.fromEpochMillis(time.getMillisecond() + ahead);
        }

        @Override
        public boolean isDeterministic() {
            return false;
        }
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> task = JSON.readValue(new File(arguments[0]), Map.class);
        for (Object one : (List<Object>) task.get("queries")) {
            Map<String, Object> query = (Map<String, Object>) one;
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("name", query.get("name"));
            try {
                run((Map<String, String>) task.get("options"), (List<String>) task.get("setup"), query, answer);
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

    @SuppressWarnings("unchecked")
    private static void run(
            Map<String, String> options, List<String> setup, Map<String, Object> query, Map<String, Object> answer)
            throws Exception {
        Configuration configuration = Configuration.fromMap(options);
        StreamExecutionEnvironment program = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        StreamTableEnvironment tables = StreamTableEnvironment.create(program, EnvironmentSettings.newInstance()
            .inStreamingMode().withConfiguration(configuration).build());
        tables.createTemporarySystemFunction("leaves_source", LeavesSource.class);
        tables.createTemporarySystemFunction("due", Due.class);
        tables.createTemporarySystemFunction("begun", Begun.class);
        for (String statement : setup) {
            tables.executeSql(statement);
        }
        for (String statement : (List<String>) query.get("setup")) {
            tables.executeSql(statement);
        }
        if (query.get("select") != null) {
            String select = (String) query.get("select");
            List<Integer> compared = new ArrayList<>((List<Integer>) query.get("compared"));
            digest(tables, program, select, compared, (Integer) query.get("key"), answer);
            return;
        }
        if (query.get("latency") != null) {
            int from = (Integer) query.get("warmup_ms"), end = (Integer) query.get("end_ms");
            latency(tables, program, (String) query.get("latency"), from, end, answer);
            return;
        }
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long cpu = system.getProcessCpuTime();
        long wall = System.nanoTime();
        tables.executeSql((String) query.get("insert")).await();
        answer.put("wall_s", (System.nanoTime() - wall) / 1e9);
        answer.put("cpu_s", (system.getProcessCpuTime() - cpu) / 1e9);
    }

    private static void latency(StreamTableEnvironment tables, StreamExecutionEnvironment program, String select,
            int from, int end, Map<String, Object> answer) throws Exception {
        LATENCIES.clear();
        STARTS.clear();
        FIRST.set(Long.MAX_VALUE);
        tables.toChangelogStream(tables.sqlQuery(select))
            .map(row -> arrived(row, from, end)).returns(Boolean.class).sinkTo(new DiscardingSink<>());
        program.execute();
        answer.put("latencies_ms", LATENCIES);
    }

    private static boolean arrived(Row row, int from, int end) {
        LocalDateTime due = (LocalDateTime) row.getField(row.getArity() - 1);
        long dueMs = due.toInstant(ZoneOffset.UTC).toEpochMilli();
        long first = FIRST.get();
        if (dueMs >= first + from && dueMs < first + end) {
            LATENCIES.computeIfAbsent(System.currentTimeMillis() - dueMs, any -> new LongAdder()).add(1);
        }
        return true;
    }

    /** Adds the hashes of rows that come, and subtracts those of rows that go: the order does not matter. */
    private static void digest(StreamTableEnvironment tables, StreamExecutionEnvironment program, String select,
            List<Integer> compared, Integer key, Map<String, Object> answer) throws Exception {
        OF_KEYS.clear();
        SUM.set(BigInteger.ZERO);
        COUNT.reset();
        tables.toChangelogStream(tables.sqlQuery(select))
            .map(row -> add(row, compared, key)).returns(Boolean.class).sinkTo(new DiscardingSink<>());
        program.execute();
        answer.put("rows", COUNT.sum());
        answer.put("digest", String.format("%016x", SUM.get().mod(BigInteger.ONE.shiftLeft(64))));
    }

    /** Tasks are threads of this process. */
    private static boolean add(Row row, List<Integer> compared, Integer key) throws Exception {
        byte[] hash = MessageDigest.getInstance("MD5").digest(text(row, compared).getBytes(StandardCharsets.UTF_8));
        BigInteger value = new BigInteger(1, Arrays.copyOf(hash, 8));
        boolean comes = row.getKind() == RowKind.INSERT || row.getKind() == RowKind.UPDATE_AFTER;
        if (key != null) {
            // Rows of one key come to one task.
            BigInteger before = comes ? OF_KEYS.put(row.getField(key), value) : null;
            if (before != null) {
                SUM.accumulateAndGet(before.negate(), BigInteger::add);
                COUNT.add(-1);
            } else if (!comes && !OF_KEYS.remove(row.getField(key), value)) {
                return true;
            }
        }
        SUM.accumulateAndGet(comes ? value : value.negate(), BigInteger::add);
        COUNT.add(comes ? 1 : -1);
        return true;
    }

    private static String text(Row row, List<Integer> compared) {
        String whole = row.toString();
        if (compared.isEmpty()) {
            return whole.substring(whole.indexOf('['));
        }
        StringJoiner fields = new StringJoiner(", ", "[", "]");
        for (int place : compared) {
            fields.add(String.valueOf(row.getField(place)));
        }
        return fields.toString();
    }
}
