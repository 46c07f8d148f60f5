package penstock;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Answers requests on standard input, one JSON document a line, on standard output, and ends with its input.
 *
 * A request names an operation and an environment; `Environment` carries it out. An answer has `ok`; if it is false,
 * `causes` lists class and message of the exception and of what caused it, outermost first.
 */
public class PlannerServer {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        endWithParent();
        PrintStream answers = new PrintStream(System.out, false, "UTF-8");
        // What a library prints must not be taken for an answer.
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        Map environments = new HashMap();
        String line = requests.readLine();
        while (line != null) {
            Map answer;
            try {
                answer = answer((Map) JSON.readValue(line, Map.class), environments);
                answer.put("ok", Boolean.TRUE);
            } catch (Throwable error) {
                answer = refusal(error);
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
            line = requests.readLine();
        }
        // Threads that the planner has left do not keep the process.
        Runtime.getRuntime().exit(0);
    }

    /** A process that the parent has forked may hold this one's input open. */
    private static void endWithParent() {
        ProcessHandle parent = (ProcessHandle) ProcessHandle.current().parent().get();
        parent.onExit().thenRun(new Runnable() {
            public void run() {
                Runtime.getRuntime().halt(0);
            }
        });
    }

    private static Map answer(Map request, Map environments) throws Exception {
        String operation = (String) request.get("operation");
        Object id = request.get("environment");
        if ("open".equals(operation)) {
            environments.put(id, new Environment((Map) request.get("options")));
            return new LinkedHashMap();
        }
        Environment environment = (Environment) environments.get(id);
        if (environment == null) {
            throw new IllegalStateException("no environment " + id);
        }
        if ("close".equals(operation)) {
            environments.remove(id);
            return new LinkedHashMap();
        }
        if ("execute".equals(operation)) {
            return environment.execute((String) request.get("sql"));
        }
        if ("compile".equals(operation)) {
            return environment.compile((List) request.get("statements"));
        }
        if ("function".equals(operation)) {
            environment.createFunction(request);
            return new LinkedHashMap();
        }
        throw new IllegalStateException("no operation " + operation);
    }

    private static Map refusal(Throwable error) {
        List causes = new ArrayList();
        Throwable cause = error;
        while (cause != null && causes.size() < 20) {
            Map one = new LinkedHashMap();
            one.put("class", cause.getClass().getName());
            one.put("message", cause.getMessage());
            StackTraceElement[] trace = cause.getStackTrace();
            one.put("at", trace.length > 0 ? trace[0].toString() : "");
            causes.add(one);
            cause = cause.getCause();
        }
        Map answer = new LinkedHashMap();
        answer.put("ok", Boolean.FALSE);
        answer.put("causes", causes);
        return answer;
    }
}
