package penstock;

import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.ExplainDetail;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.TableDescriptor;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.internal.TableEnvironmentInternal;
import org.apache.flink.table.catalog.Column;
import org.apache.flink.table.catalog.ResolvedSchema;
import org.apache.flink.table.functions.UserDefinedFunction;
import org.apache.flink.table.functions.python.PythonEnv;
import org.apache.flink.table.functions.python.PythonFunctionKind;
import org.apache.flink.table.functions.python.PythonScalarFunction;
import org.apache.flink.table.functions.python.PythonTableFunction;
import org.apache.flink.table.operations.DescribeCatalogOperation;
import org.apache.flink.table.operations.DescribeFunctionOperation;
import org.apache.flink.table.operations.DescribeTableOperation;
import org.apache.flink.table.operations.ExplainOperation;
import org.apache.flink.table.operations.ModifyOperation;
import org.apache.flink.table.operations.Operation;
import org.apache.flink.table.operations.QueryOperation;
import org.apache.flink.table.operations.ShowOperation;
import org.apache.flink.table.operations.SinkModifyOperation;
import org.apache.flink.table.operations.StatementSetOperation;
import org.apache.flink.table.operations.UseOperation;
import org.apache.flink.table.operations.command.ResetOperation;
import org.apache.flink.table.operations.command.SetOperation;
import org.apache.flink.table.operations.ddl.AlterOperation;
import org.apache.flink.table.operations.ddl.CreateOperation;
import org.apache.flink.table.operations.ddl.CreateTableOperation;
import org.apache.flink.table.operations.ddl.DropOperation;
import org.apache.flink.table.operations.ddl.DropTableOperation;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeContext;
import org.apache.flink.table.types.utils.DataTypeUtils;
import org.apache.flink.types.Row;

/** A table environment that plans, and executes nothing but statements about its catalog and its options. */
public class Environment {
    private static final String CATALOG = "default_catalog";
    /** Functions in Java (Python's are made known by `createFunction`), and what nothing here carries out. */
    private static final String REFUSED = "(Create|Alter).*Function.*|.*(Model|Materialized|ShowJobs|UseModules).*";
    private static final String RESULTS = "penstock_results";
    /** What the planner compiles for this environment, such as constants, is forgotten with this loader. */
    private final URLClassLoader classes =
        new URLClassLoader(new URL[0], Environment.class.getClassLoader());
    private final TableEnvironmentInternal tables;
    private int results = 0;
    /** Options that the environment was opened with, which RESET brings back. */
    private final Map initial;

    Environment(Map options) {
        EnvironmentSettings settings = EnvironmentSettings.newInstance().inStreamingMode()
            .withBuiltInCatalogName("built_in").withBuiltInDatabaseName("built_in").withClassLoader(classes).build();
        tables = (TableEnvironmentInternal) TableEnvironment.create(settings);
        tables.registerCatalog(CATALOG, new AnyConnectorCatalog(CATALOG, "default_database"));
        tables.useCatalog(CATALOG);
        tables.loadModule("penstock", new AnyConnectorCatalog.AnyConnectorModule());
        initial = options;
        for (Iterator i = options.entrySet().iterator(); i.hasNext();) {
            Map.Entry option = (Map.Entry) i.next();
            set((String) option.getKey(), (String) option.getValue());
        }
    }

    private void set(String key, String value) {
        if ("table.sql-dialect".equals(key) && !"default".equalsIgnoreCase(value)) {
            throw new IllegalArgumentException("table.sql-dialect must be default, got " + value);
        }
        if ("execution.runtime-mode".equals(key) && !"STREAMING".equalsIgnoreCase(value)) {
            throw new IllegalArgumentException(
                value + " is not supported for SQL: set execution.runtime-mode to STREAMING");
        }
        if ("table.exec.legacy-cast-behaviour".equals(key) && !"disabled".equalsIgnoreCase(value)) {
            throw new IllegalArgumentException(
                "table.exec.legacy-cast-behaviour must be disabled, got " + value + ": write TRY_CAST");
        }
        if (key.startsWith("table.exec.emit.") && !value.toLowerCase().matches("false|0 *[a-z]*")) {
            throw new IllegalArgumentException(key + " is not supported: a window gives its rows once, when it ends");
        }
        if ("pipeline.jars".equals(key) || "pipeline.classpaths".equals(key)) {
            throw new IllegalArgumentException(key + " is not supported: functions and connectors are written in Python");
        }
        tables.getConfig().set(key, value);
    }

    ClassLoader classes() {
        return classes;
    }

    void close() throws Exception {
        classes.close();
    }

    /** Executes a statement about the catalog or the options; plans a query or an insertion. */
    Map execute(String sql) throws Exception {
        Operation operation = parse(sql);
        if (operation instanceof SetOperation) {
            return set((SetOperation) operation);
        }
        if (operation instanceof ResetOperation) {
            return reset((ResetOperation) operation);
        }
        if (operation instanceof QueryOperation || isInsertion(operation)) {
            return compile(Arrays.asList(new Object[] {sql}));
        }
        if (operation.getClass().getSimpleName().matches(REFUSED)) {
            throw new UnsupportedOperationException(operation.getClass().getSimpleName());
        }
        boolean local = operation instanceof CreateOperation || operation instanceof DropOperation
            || operation instanceof AlterOperation || operation instanceof UseOperation
            || operation instanceof ShowOperation || operation instanceof DescribeTableOperation
            || operation instanceof DescribeCatalogOperation || operation instanceof DescribeFunctionOperation
            || operation instanceof ExplainOperation;
        if (!local || operation instanceof ModifyOperation) {
            throw new UnsupportedOperationException(operation.getClass().getSimpleName());
        }
        return rows(tables.executeInternal(lasting(operation)));
    }

    /**
     * Returns the operation on a table of the catalog in place of one on a temporary table.
     *
     * Plans have the options of tables of the catalog alone, and this catalog lives no longer than the environment.
     */
    private static Operation lasting(Operation operation) {
        if (operation instanceof CreateTableOperation && ((CreateTableOperation) operation).isTemporary()) {
            CreateTableOperation create = (CreateTableOperation) operation;
            return new CreateTableOperation(
                create.getTableIdentifier(), create.getCatalogTable(), create.isIgnoreIfExists(), false);
        }
        if (operation instanceof DropTableOperation && ((DropTableOperation) operation).isTemporary()) {
            DropTableOperation drop = (DropTableOperation) operation;
            return new DropTableOperation(drop.getTableIdentifier(), drop.isIfExists(), false);
        }
        return operation;
    }

    /** Plans queries and insertions as one job. */
    Map compile(List statements) throws Exception {
        Map answer = new LinkedHashMap();
        // Ids name the state of nodes: they may not depend on what this process has planned before.
        ExecNodeContext.resetIdCounter();
        try {
            answer.put("plan", tables.compilePlan(insertions(statements, answer)).asJsonString());
        } finally {
            dropResults();
        }
        return answer;
    }

    /** Returns Flink's text about the plan of queries or insertions. */
    Map explain(List statements, List details) throws Exception {
        Map answer = new LinkedHashMap();
        ExplainDetail[] chosen = new ExplainDetail[details.size()];
        for (int i = 0; i < chosen.length; i++) {
            chosen[i] = ExplainDetail.valueOf((String) details.get(i));
        }
        List operations = new ArrayList();
        try {
            if (statements.size() == 1 && parse((String) statements.get(0)) instanceof QueryOperation) {
                operations.add(parse((String) statements.get(0)));
            } else {
                operations.addAll(insertions(statements, answer));
            }
            answer.put("text", tables.explainInternal(operations, chosen));
        } finally {
            dropResults();
        }
        return answer;
    }

    private List insertions(List statements, Map answer) throws Exception {
        List insertions = new ArrayList();
        for (int i = 0; i < statements.size(); i++) {
            String sql = (String) statements.get(i);
            Operation operation = parse(sql);
            if (operation instanceof QueryOperation) {
                String name = createResultTable(((QueryOperation) operation).getResolvedSchema());
                answer.put("result", name);
                operation = parse("INSERT INTO " + name + "\n" + sql);
            }
            if (operation instanceof StatementSetOperation) {
                insertions.addAll(((StatementSetOperation) operation).getOperations());
            } else if (isInsertion(operation)) {
                insertions.add(operation);
            } else {
                throw new UnsupportedOperationException(operation.getClass().getSimpleName());
            }
        }
        return insertions;
    }

    private void dropResults() {
        tables.executeSql("DROP DATABASE IF EXISTS `" + CATALOG + "`.`" + RESULTS + "` CASCADE");
    }

    /** Creates a function whose body only Python knows. */
    void createFunction(Map request) {
        String name = (String) request.get("name");
        List types = (List) request.get("arguments");
        // Without types, any are accepted.
        String[] arguments = types == null ? null : (String[]) types.toArray(new String[0]);
        String result = (String) request.get("result");
        boolean deterministic = ((Boolean) request.get("deterministic")).booleanValue();
        PythonFunctionKind kind = PythonFunctionKind.GENERAL;
        UserDefinedFunction function;
        PythonEnv python = new PythonEnv(PythonEnv.ExecType.PROCESS);
        byte[] body = new byte[0];
        if ("TABLE".equals(request.get("kind"))) {
            function = new PythonTableFunction(name, body, arguments, result, kind, deterministic, false, python);
        } else {
            function = new PythonScalarFunction(name, body, arguments, result, kind, deterministic, false, python);
        }
        if (((Boolean) request.get("system")).booleanValue()) {
            tables.createTemporarySystemFunction(name, function);
        } else {
            tables.createTemporaryFunction(name, function);
        }
    }

    /** Returns names and types of the columns of a query. */
    Map schema(String sql) {
        Operation operation = parse(sql);
        if (!(operation instanceof QueryOperation)) {
            throw new UnsupportedOperationException(operation.getClass().getSimpleName());
        }
        List rows = new ArrayList();
        List columns = ((QueryOperation) operation).getResolvedSchema().getColumns();
        for (int i = 0; i < columns.size(); i++) {
            Column column = (Column) columns.get(i);
            LogicalType type = column.getDataType().getLogicalType();
            String serial = DataTypeUtils.removeTimeAttribute(column.getDataType()).getLogicalType().asSerializableString();
            rows.add(new Object[] {column.getName(), serial, type.asSummaryString()});
        }
        Map answer = new LinkedHashMap();
        answer.put("rows", rows);
        return answer;
    }

    private Operation parse(String sql) {
        List operations = tables.getParser().parse(sql);
        if (operations.size() != 1) {
            throw new IllegalArgumentException("expected one statement, got " + operations.size());
        }
        return (Operation) operations.get(0);
    }

    private static boolean isInsertion(Operation operation) {
        return operation instanceof SinkModifyOperation || operation instanceof StatementSetOperation;
    }

    private Map set(SetOperation operation) {
        Map answer = new LinkedHashMap();
        if (operation.getKey().isPresent() && operation.getValue().isPresent()) {
            set((String) operation.getKey().get(), (String) operation.getValue().get());
            return answer;
        }
        List rows = new ArrayList();
        for (Iterator i = tables.getConfig().getConfiguration().toMap().entrySet().iterator(); i.hasNext();) {
            Map.Entry option = (Map.Entry) i.next();
            // Two underscores: the planner's own.
            if (!((String) option.getKey()).startsWith("__")) {
                rows.add(new Object[] {option.getKey(), option.getValue()});
            }
        }
        answer.put("columns", new String[] {"key", "value"});
        answer.put("rows", rows);
        return answer;
    }

    /** Brings back an option, or all, as they were when the environment was opened. */
    private Map reset(ResetOperation operation) {
        Configuration configuration = tables.getConfig().getConfiguration();
        List keys = new ArrayList();
        if (operation.getKey().isPresent()) {
            keys.add(operation.getKey().get());
        } else {
            for (Iterator i = configuration.toMap().keySet().iterator(); i.hasNext();) {
                String key = (String) i.next();
                if (!key.startsWith("__") && !key.startsWith("table.builtin-") && !"execution.runtime-mode".equals(key)) {
                    keys.add(key);
                }
            }
        }
        for (Iterator i = keys.iterator(); i.hasNext();) {
            String key = (String) i.next();
            configuration.removeKey(key);
            // Planning copies the options there, and reads what is missing above from there.
            if (tables.getConfig().getRootConfiguration() instanceof Configuration) {
                ((Configuration) tables.getConfig().getRootConfiguration()).removeKey(key);
            }
            if (initial.containsKey(key)) {
                set(key, (String) initial.get(key));
            }
        }
        return new LinkedHashMap();
    }

    /** The planner compiles insertions alone: a query's rows go into a table of its own. */
    private String createResultTable(ResolvedSchema schema) throws Exception {
        Schema.Builder builder = Schema.newBuilder();
        List columns = schema.getColumns();
        for (int i = 0; i < columns.size(); i++) {
            Column column = (Column) columns.get(i);
            builder.column(column.getName(), DataTypeUtils.removeTimeAttribute(column.getDataType()));
        }
        tables.executeSql("CREATE DATABASE IF NOT EXISTS `" + CATALOG + "`.`" + RESULTS + "`");
        results++;
        String name = "`" + CATALOG + "`.`" + RESULTS + "`.`result_" + results + "`";
        tables.createTable(name, TableDescriptor.forConnector("penstock-result").schema(builder.build()).build());
        return name;
    }

    private static Map rows(TableResult result) {
        List columns = result.getResolvedSchema().getColumnNames();
        List rows = new ArrayList();
        for (Iterator i = result.collect(); i.hasNext();) {
            Row row = (Row) i.next();
            Object[] values = new Object[row.getArity()];
            for (int j = 0; j < values.length; j++) {
                values[j] = row.getField(j) == null ? null : String.valueOf(row.getField(j));
            }
            rows.add(values);
        }
        Map answer = new LinkedHashMap();
        answer.put("columns", columns);
        answer.put("rows", rows);
        return answer;
    }
}
