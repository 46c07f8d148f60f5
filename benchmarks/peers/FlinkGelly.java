import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.List;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.DataSet;
import org.apache.flink.api.java.ExecutionEnvironment;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.graph.Edge;
import org.apache.flink.graph.Graph;
import org.apache.flink.graph.library.linkanalysis.PageRank;
import org.apache.flink.types.NullValue;

/**
 * PageRank of Gelly, the graph library on Flink's DataSet API, as `benchmarks/supersteps_beside_others.py` compares it.
 *
 * <p>Arguments: a file with an edge in each line, "source target"; the parallelism; numbers of supersteps, of which each
 * is a run. For each run a JSON document is printed: seconds of wall clock and of CPU of this process, and the sum of
 * the squares of the ranks.
 */
public class FlinkGelly {
    private static final double DAMPING = 0.85;

    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("taskmanager.memory.managed.size", "1g");
        settings.setString("taskmanager.memory.network.min", "128m");
        settings.setString("taskmanager.memory.network.max", "128m");
        settings.setString("taskmanager.numberOfTaskSlots", arguments[1]);
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        for (int run = 2; run < arguments.length; run++) {
            ExecutionEnvironment env = ExecutionEnvironment.createLocalEnvironment(settings);
            env.setParallelism(Integer.parseInt(arguments[1]));
            env.getConfig().enableObjectReuse();
            int supersteps = Integer.parseInt(arguments[run]);
            DataSet<Edge<Long, NullValue>> edges = env.readCsvFile(arguments[0])
                    .fieldDelimiter(" ")
                    .types(Long.class, Long.class)
                    .map(edge -> new Edge<>(edge.f0, edge.f1, NullValue.getInstance()))
                    .returns(new TypeHint<Edge<Long, NullValue>>() {});
            long cpu = system.getProcessCpuTime();
            long wall = System.nanoTime();
            List<Double> squares = Graph.fromDataSet(edges, env)
                    .run(new PageRank<Long, NullValue, NullValue>(DAMPING, supersteps)
                            .setIncludeZeroDegreeVertices(true))
                    .map(result -> result.getPageRankScore().getValue() * result.getPageRankScore().getValue())
                    .returns(Types.DOUBLE)
                    .reduce((ReduceFunction<Double>) Double::sum)
                    .collect();
            System.out.printf(
                    "{\"supersteps\": %d, \"wall_s\": %.4f, \"cpu_s\": %.4f, \"squares\": %.17g}%n",
                    supersteps,
                    (System.nanoTime() - wall) / 1e9,
                    (system.getProcessCpuTime() - cpu) / 1e9,
                    squares.get(0));
            System.out.flush();
        }
        System.exit(0);
    }
}
