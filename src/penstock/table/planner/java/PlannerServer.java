package penstock;

import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Answers requests on standard input, one JSON document a line, on standard output, and ends with its input.
 *
 * A request names an operation and an environment; `Environment` carries it out. An answer has `ok`; if it is false,
 * `causes` lists class and message of the exception and of what caused it, outermost first.
 *
 * With arguments (a directory, seconds, a number) the process can be returned instead, for the user's next program:
 * `KeptServer`.
 */
public class PlannerServer {
    static final ObjectMapper JSON = new ObjectMapper();

    /** The program that has this process; its end ends the process. */
    private static volatile ProcessHandle program;

    public static void main(String[] arguments) throws Exception {
        OutputStream output = System.out;
        // What a library prints must not be taken for an answer.
        System.setOut(System.err);
        endWith((ProcessHandle) ProcessHandle.current().parent().get());
        if (serve(new BufferedReader(new InputStreamReader(System.in, "UTF-8")), output) && arguments.length > 0) {
            new KeptServer(arguments[0], Long.parseLong(arguments[1]), Integer.parseInt(arguments[2])).serve();
        }
        // Threads that the planner has left do not keep the process.
        Runtime.getRuntime().exit(0);
    }

    /** Ends this process with a program: one that the program has forked may hold this one's input open. */
    static void endWith(final ProcessHandle user) {
        program = user;
        user.onExit().thenRun(new Runnable() {
            public void run() {
                if (program == user) {
                    Runtime.getRuntime().halt(0);
                }
            }
        });
    }

    /** Answers the requests of one program. Returns true if it has returned the process, false if its input ended. */
    static boolean serve(BufferedReader requests, OutputStream output) throws Exception {
        PrintStream answers = new PrintStream(output, false, "UTF-8");
        Map environments = new HashMap();
        try {
            String line = requests.readLine();
            while (line != null) {
                Map answer;
                boolean returned = false;
                try {
                    Map request = (Map) JSON.readValue(line, Map.class);
                    returned = "return".equals(request.get("operation"));
                    answer = returned ? new LinkedHashMap() : answer(request, environments);
                    answer.put("ok", Boolean.TRUE);
                } catch (Throwable error) {
                    answer = refusal(error);
                }
                if (returned) {
                    program = null;
                }
                answers.println(JSON.writeValueAsString(answer));
                answers.flush();
                if (returned) {
                    return true;
                }
                line = requests.readLine();
            }
        } finally {
            for (Iterator i = environments.values().iterator(); i.hasNext();) {
                ((Environment) i.next()).close();
            }
        }
        return false;
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
            environment.close();
            return new LinkedHashMap();
        }
        Thread.currentThread().setContextClassLoader(environment.classes());
        if ("execute".equals(operation)) {
            return environment.execute((String) request.get("sql"));
        }
        if ("compile".equals(operation)) {
            return environment.compile((List) request.get("statements"));
        }
        if ("explain".equals(operation)) {
            return environment.explain((List) request.get("statements"), (List) request.get("details"));
        }
        if ("schema".equals(operation)) {
            return environment.schema((String) request.get("sql"));
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
