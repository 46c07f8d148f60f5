import java.io.FileOutputStream;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.zip.GZIPOutputStream;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.table.functions.BuiltInFunctionDefinition;
import org.apache.flink.table.test.program.ConfigOptionTestStep;
import org.apache.flink.table.test.program.FailingSqlTestStep;
import org.apache.flink.table.test.program.FunctionTestStep;
import org.apache.flink.table.test.program.SinkTestStep;
import org.apache.flink.table.test.program.SourceTestStep;
import org.apache.flink.table.test.program.SqlTestStep;
import org.apache.flink.table.test.program.StatementSetTestStep;
import org.apache.flink.table.test.program.TableTestProgram;
import org.apache.flink.table.test.program.TableTestStep;
import org.apache.flink.table.test.program.TestStep;

/**
 * Writes Flink's table test programs, the compiled plans of its restore tests, and the cases of its functions as data:
 * a JSON document a line, deflated. Arguments: the jar with the tests of the planner, and a folder.
 */
public class FlinkTests {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[1]);
        try (JarFile jar = new JarFile(arguments[0])) {
            write(folder.resolve("programs.jsonl.gz"), programs(jar));
            write(folder.resolve("plans.jsonl.gz"), plans(jar));
            write(folder.resolve("functions.jsonl.gz"), functions(jar));
        }
        // Clusters that tests have declared keep threads.
        System.exit(0);
    }

    private static void write(Path file, Collection<Map<String, Object>> documents) throws Exception {
        try (Writer out = new OutputStreamWriter(
                new GZIPOutputStream(new FileOutputStream(file.toFile())), StandardCharsets.UTF_8)) {
            for (Map<String, Object> document : documents) {
                out.write(JSON.writeValueAsString(document) + "\n");
            }
        }
        System.out.println(documents.size() + " in " + file.getFileName());
    }

    private static List<JarEntry> entries(JarFile jar, String pattern) {
        return Collections.list(jar.entries()).stream()
            .filter(entry -> entry.getName().matches(pattern))
            .collect(Collectors.toList());
    }

    private static Class<?> classOf(JarEntry entry) throws ClassNotFoundException {
        String name = entry.getName().replace('/', '.').replaceAll("\\.class$", "");
        return Class.forName(name, false, FlinkTests.class.getClassLoader());
    }

    // ---- programs

    private static Collection<Map<String, Object>> programs(JarFile jar) throws Exception {
        Map<String, Map<String, Object>> found = new TreeMap<>();
        for (JarEntry entry : entries(jar, "org/apache/flink/table/[^$]*TestProgram[^$]*\\.class")) {
            Class<?> of = classOf(entry);
            for (Field field : of.getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers()) && field.getType() == TableTestProgram.class) {
                    field.setAccessible(true);
                    TableTestProgram program = (TableTestProgram) field.get(null);
                    found.put(program.id, document(program, of));
                }
            }
        }
        return found.values();
    }

    private static Map<String, Object> document(TableTestProgram program, Class<?> of) {
        Map<String, Object> document = new LinkedHashMap<>();
        document.put("id", program.id);
        document.put("class", of.getSimpleName());
        document.put("description", program.description);
        document.put("setup", program.setupSteps.stream().map(FlinkTests::document).collect(Collectors.toList()));
        document.put("run", program.runSteps.stream().map(FlinkTests::document).collect(Collectors.toList()));
        return document;
    }

    private static Map<String, Object> document(TestStep step) {
        Map<String, Object> document = new LinkedHashMap<>();
        document.put("kind", step.getKind().name());
        if (step instanceof TableTestStep) {
            TableTestStep table = (TableTestStep) step;
            document.put("name", table.name);
            document.put("schema", table.schemaComponents);
            document.put("partition", table.partitionKeys);
            document.put("options", table.options);
        }
        if (step instanceof SourceTestStep) {
            document.put("before", texts(((SourceTestStep) step).dataBeforeRestore));
            document.put("after", texts(((SourceTestStep) step).dataAfterRestore));
        } else if (step instanceof SinkTestStep) {
            SinkTestStep sink = (SinkTestStep) step;
            document.put("expectBefore", sink.getExpectedBeforeRestoreAsStrings());
            document.put("expectAfter", sink.getExpectedAfterRestoreAsStrings());
            document.put("expectMaterialized", sink.getExpectedMaterializedResultsAsStrings());
        } else if (step instanceof SqlTestStep) {
            document.put("sql", ((SqlTestStep) step).sql);
        } else if (step instanceof StatementSetTestStep) {
            document.put("sqls", ((StatementSetTestStep) step).statements);
        } else if (step instanceof FailingSqlTestStep) {
            document.put("sql", ((FailingSqlTestStep) step).sql);
            document.put("error", ((FailingSqlTestStep) step).expectedErrorMessage);
        } else if (step instanceof FunctionTestStep) {
            document.put("name", ((FunctionTestStep) step).name);
            document.put("class", ((FunctionTestStep) step).function.getName());
        } else if (step instanceof ConfigOptionTestStep) {
            document.put("option", ((ConfigOptionTestStep<?>) step).option.key());
            document.put("value", text(((ConfigOptionTestStep<?>) step).value));
        }
        return document;
    }

    private static List<String> texts(Collection<?> values) {
        return values.stream().map(String::valueOf).collect(Collectors.toList());
    }

    // ---- plans

    private static Collection<Map<String, Object>> plans(JarFile jar) throws Exception {
        List<Map<String, Object>> found = new ArrayList<>();
        for (JarEntry entry : entries(jar, "restore-tests/[^/]+/[^/]+/plan/[^/]+\\.json")) {
            String[] parts = entry.getName().split("/");
            Map<String, Object> document = new LinkedHashMap<>();
            document.put("path", entry.getName());
            document.put("node", parts[1]);
            document.put("program", parts[2]);
            document.put("plan", JSON.readTree(jar.getInputStream(entry)));
            found.add(document);
        }
        return found;
    }

    // ---- functions

    private static Collection<Map<String, Object>> functions(JarFile jar) throws Exception {
        List<Map<String, Object>> found = new ArrayList<>();
        for (JarEntry entry : entries(jar, "org/apache/flink/table/planner/functions/[A-Za-z]+ITCase\\.class")) {
            Class<?> of = classOf(entry);
            Method cases = method(of, "getTestSetSpecs");
            cases = cases == null ? method(of, "getTestCaseSpecs") : cases;
            if (Modifier.isAbstract(of.getModifiers()) || cases == null) {
                continue;
            }
            Constructor<?> constructor = of.getDeclaredConstructor();
            constructor.setAccessible(true);
            for (Object one : ((Stream<?>) cases.invoke(constructor.newInstance())).collect(Collectors.toList())) {
                found.add(document(of, one));
            }
        }
        return found;
    }

    /** Returns fields of a test, with its cases. Their classes are private to Flink's tests. */
    private static Map<String, Object> document(Class<?> of, Object test) throws Exception {
        Map<String, Object> document = new LinkedHashMap<>();
        Object function = field(test, "definition");
        document.put("class", of.getSimpleName());
        document.put("function", function == null
            ? text(field(test, "description")) : ((BuiltInFunctionDefinition) function).getName());
        document.put("fields", text(field(test, "fieldData")));
        document.put("fieldTypes", text(field(test, "fieldDataTypes")));
        List<Map<String, Object>> items = new ArrayList<>();
        for (Object item : (Collection<?>) field(test, "testItems")) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("kind", item.getClass().getSimpleName());
            one.put("expr", text(field(item, "expression")));
            one.put("results", text(field(item, "results")));
            one.put("types", text(field(item, "dataTypes")));
            one.put("error", text(field(item, "errorMessage")));
            items.add(one);
        }
        document.put("items", items);
        return document;
    }

    private static Method method(Class<?> of, String name) {
        for (Class<?> one = of; one != null; one = one.getSuperclass()) {
            for (Method method : one.getDeclaredMethods()) {
                if (method.getName().equals(name)) {
                    method.setAccessible(true);
                    return method;
                }
            }
        }
        return null;
    }

    /** Returns the value of a field, or null if there is none. */
    private static Object field(Object object, String name) throws Exception {
        for (Class<?> one = object.getClass(); one != null; one = one.getSuperclass()) {
            for (Field field : one.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    return field.get(object);
                }
            }
        }
        return null;
    }

    private static String text(Object value) {
        if (value == null) {
            return null;
        }
        List<String> parts = new ArrayList<>();
        if (value.getClass().isArray()) {
            for (int i = 0; i < Array.getLength(value); i++) {
                parts.add(String.valueOf(text(Array.get(value, i))));
            }
        } else if (value instanceof Collection) {
            for (Object part : (Collection<?>) value) {
                parts.add(String.valueOf(text(part)));
            }
        } else {
            return value.toString();
        }
        return "[" + String.join(", ", parts) + "]";
    }
}
