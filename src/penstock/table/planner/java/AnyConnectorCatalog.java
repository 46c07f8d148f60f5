package penstock;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.ValidationException;
import org.apache.flink.table.catalog.Column;
import org.apache.flink.table.catalog.GenericInMemoryCatalog;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.sink.DataStreamSinkProvider;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.sink.abilities.SupportsOverwrite;
import org.apache.flink.table.connector.sink.abilities.SupportsPartitioning;
import org.apache.flink.table.connector.sink.abilities.SupportsWritingMetadata;
import org.apache.flink.table.connector.source.DataStreamScanProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.LookupTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.abilities.SupportsProjectionPushDown;
import org.apache.flink.table.connector.source.abilities.SupportsReadingMetadata;
import org.apache.flink.table.connector.source.abilities.SupportsWatermarkPushDown;
import org.apache.flink.table.connector.source.lookup.LookupFunctionProvider;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableFactory;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.functions.LookupFunction;
import org.apache.flink.table.module.Module;
import org.apache.flink.table.types.DataType;
import org.apache.flink.types.RowKind;

/**
 * A catalog whose tables have any connector. They can be planned, not read: penstock's connectors do that.
 *
 * A table is a source of insertions; an option says otherwise (`changelog-mode`: I, UB, UA, D), or its connector or
 * format does (`upsert-kafka`, `debezium-json`).
 */
public class AnyConnectorCatalog extends GenericInMemoryCatalog {
    /** Of a sink that takes all that the query gives, but needs no row from before an update. */
    static final ChangelogMode ALL_BUT_UPDATE_BEFORE = Factory.listed("I,UA,D");

    public AnyConnectorCatalog(String name, String database) {
        super(name, database);
    }

    public Optional getFactory() {
        return Optional.of(new Factory());
    }

    /** The same for temporary tables and for those of other catalogs. */
    public static class AnyConnectorModule implements Module {
        public Optional getTableSourceFactory() {
            return Optional.of(new Factory());
        }

        public Optional getTableSinkFactory() {
            return Optional.of(new Factory());
        }
    }

    public static class Factory implements DynamicTableSourceFactory, DynamicTableSinkFactory {
        public String factoryIdentifier() {
            return "penstock";
        }

        public Set requiredOptions() {
            return new HashSet();
        }

        public Set optionalOptions() {
            return new HashSet();
        }

        public DynamicTableSource createDynamicTableSource(DynamicTableFactory.Context context) {
            checkConnector(context);
            return new Source(changelogMode(context.getCatalogTable().getOptions()), metadata(context, true));
        }

        public DynamicTableSink createDynamicTableSink(DynamicTableFactory.Context context) {
            checkConnector(context);
            return new Sink(sinkMode(context), metadata(context, false));
        }

        private static void checkConnector(DynamicTableFactory.Context context) {
            if (context.getCatalogTable().getOptions().get("connector") == null) {
                throw new ValidationException("Table " + context.getObjectIdentifier().asSummaryString()
                    + " has no option 'connector'. Name its connector in WITH (...).");
            }
        }

        /** The changes that a sink takes; null: those that it is given. */
        static ChangelogMode sinkMode(DynamicTableFactory.Context context) {
            Map options = context.getCatalogTable().getOptions();
            String explicit = (String) options.get("sink-changelog-mode-enforced");
            String connector = (String) options.get("connector");
            boolean keyed = context.getPrimaryKeyIndexes().length > 0;
            if (explicit != null) {
                return listed(explicit);
            }
            if ("true".equals(options.get("sink-insert-only"))) {
                return ChangelogMode.insertOnly();
            }
            if ("upsert-kafka".equals(connector) || (keyed && ("jdbc".equals(connector) || "values".equals(connector)))) {
                return ChangelogMode.upsert();
            }
            if ("blackhole".equals(connector)) {
                return ALL_BUT_UPDATE_BEFORE;
            }
            boolean takesInsertions = "kafka".equals(connector) || "filesystem".equals(connector);
            return takesInsertions && changelogMode(options).containsOnly(RowKind.INSERT)
                ? ChangelogMode.insertOnly() : null;
        }

        static ChangelogMode listed(String text) {
            ChangelogMode.Builder builder = ChangelogMode.newBuilder();
            String[] kinds = text.split("[,;]");
            for (int i = 0; i < kinds.length; i++) {
                builder.addContainedKind(rowKind(kinds[i].trim()));
            }
            return builder.build();
        }

        static ChangelogMode changelogMode(Map options) {
            String explicit = (String) options.get("changelog-mode");
            if (explicit != null) {
                return listed(explicit);
            }
            if ("upsert-kafka".equals(options.get("connector"))) {
                return ChangelogMode.upsert();
            }
            String format = (String) options.get("format");
            if (format == null) {
                format = (String) options.get("value.format");
            }
            if (format == null) {
                return ChangelogMode.insertOnly();
            }
            boolean changes = format.startsWith("debezium") || format.startsWith("canal")
                || format.startsWith("maxwell") || format.startsWith("ogg");
            return changes ? ChangelogMode.all() : ChangelogMode.insertOnly();
        }

        static RowKind rowKind(String text) {
            RowKind[] kinds = {RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE};
            String[] names = {"I", "UB", "UA", "D"};
            for (int i = 0; i < kinds.length; i++) {
                if (names[i].equals(text)) {
                    return kinds[i];
                }
            }
            throw new IllegalArgumentException(
                "a changelog mode lists I, UB, UA and D, separated by commas; got " + text);
        }

        /** The metadata that the table's columns name, with the types that they state. */
        static Map metadata(DynamicTableFactory.Context context, boolean alsoVirtual) {
            Map found = new LinkedHashMap();
            List columns = context.getCatalogTable().getResolvedSchema().getColumns();
            for (int i = 0; i < columns.size(); i++) {
                if (columns.get(i) instanceof Column.MetadataColumn) {
                    Column.MetadataColumn column = (Column.MetadataColumn) columns.get(i);
                    if (alsoVirtual || !column.isVirtual()) {
                        found.put(column.getMetadataKey().orElse(column.getName()), column.getDataType());
                    }
                }
            }
            return found;
        }
    }

    public static class Source implements ScanTableSource, LookupTableSource, SupportsProjectionPushDown,
        SupportsWatermarkPushDown, SupportsReadingMetadata {
        private final ChangelogMode mode;
        private final Map metadata;

        Source(ChangelogMode mode, Map metadata) {
            this.mode = mode;
            this.metadata = metadata;
        }

        public ChangelogMode getChangelogMode() {
            return mode;
        }

        public ScanTableSource.ScanRuntimeProvider getScanRuntimeProvider(ScanTableSource.ScanContext context) {
            return new Provider();
        }

        public LookupTableSource.LookupRuntimeProvider getLookupRuntimeProvider(
            LookupTableSource.LookupContext context) {
            return LookupFunctionProvider.of(new NoLookup());
        }

        public DynamicTableSource copy() {
            return new Source(mode, metadata);
        }

        public String asSummaryString() {
            return "penstock";
        }

        public boolean supportsNestedProjection() {
            return true;
        }

        public void applyProjection(int[][] fields, DataType type) {}

        public void applyWatermark(WatermarkStrategy strategy) {}

        public Map listReadableMetadata() {
            return metadata;
        }

        public void applyReadableMetadata(List keys, DataType type) {}
    }

    /** For EXPLAIN, which translates sources and sinks though nothing runs. */
    public static class Provider implements DataStreamScanProvider {
        public boolean isBounded() {
            return false;
        }

        public DataStream produceDataStream(ProviderContext context, StreamExecutionEnvironment environment) {
            return environment.fromSource(
                new NumberSequenceSource(0, 0), WatermarkStrategy.noWatermarks(), "source", Types.LONG);
        }
    }

    public static class Consumer implements DataStreamSinkProvider {
        public DataStreamSink consumeDataStream(ProviderContext context, DataStream rows) {
            return rows.sinkTo(new DiscardingSink());
        }
    }

    public static class NoLookup extends LookupFunction {
        public Collection lookup(RowData key) {
            return new ArrayList();
        }
    }

    public static class Sink implements DynamicTableSink, SupportsPartitioning, SupportsWritingMetadata,
        SupportsOverwrite {
        private final ChangelogMode mode;
        private final Map metadata;

        Sink(ChangelogMode mode, Map metadata) {
            this.mode = mode;
            this.metadata = metadata;
        }

        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            if (mode == ALL_BUT_UPDATE_BEFORE) {
                // Nobody reads the rows from before updates, so the query need not give them.
                ChangelogMode.Builder builder = ChangelogMode.newBuilder();
                RowKind[] kinds = RowKind.values();
                for (int i = 0; i < kinds.length; i++) {
                    if (kinds[i] != RowKind.UPDATE_BEFORE && requested.contains(kinds[i])) {
                        builder.addContainedKind(kinds[i]);
                    }
                }
                return builder.build();
            }
            return mode == null ? requested : mode;
        }

        public DynamicTableSink.SinkRuntimeProvider getSinkRuntimeProvider(DynamicTableSink.Context context) {
            return new Consumer();
        }

        public DynamicTableSink copy() {
            return new Sink(mode, metadata);
        }

        public String asSummaryString() {
            return "penstock";
        }

        public void applyStaticPartition(Map partition) {}

        public void applyOverwrite(boolean overwrite) {}

        public Map listWritableMetadata() {
            return metadata;
        }

        public void applyWritableMetadata(List keys, DataType type) {}
    }
}
