import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.AbstractDeserializationSchema;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Kafka, a count by the field "key" of JSON values, Kafka, with a checkpoint each second.
 *
 * <p>Usage: FlinkKafka BOOTSTRAP IN OUT GUARANTEE
 */
public class FlinkKafka {
    static final TypeInformation<Tuple2<String, Long>> PAIR = Types.TUPLE(Types.STRING, Types.LONG);

    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(2);
        env.getConfig().enableObjectReuse();
        env.enableCheckpointing(1000);
        KafkaSource<Tuple2<String, Long>> source =
                KafkaSource.<Tuple2<String, Long>>builder()
                        .setBootstrapServers(args[0])
                        .setTopics(args[1])
                        .setGroupId(args[2])
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setValueOnlyDeserializer(new Decode())
                        .build();
        Properties properties = new Properties();
        properties.setProperty("transaction.timeout.ms", "600000");
        KafkaSink<Tuple2<String, Long>> sink =
                KafkaSink.<Tuple2<String, Long>>builder()
                        .setBootstrapServers(args[0])
                        .setKafkaProducerConfig(properties)
                        .setDeliveryGuarantee(DeliveryGuarantee.valueOf(args[3]))
                        .setTransactionalIdPrefix(args[2])
                        .setRecordSerializer(
                                KafkaRecordSerializationSchema.builder()
                                        .setTopic(args[2])
                                        .setValueSerializationSchema(new Encode())
                                        .build())
                        .build();
        env.fromSource(source, WatermarkStrategy.noWatermarks(), "numbers")
                .keyBy(pair -> pair.f0)
                .reduce((a, b) -> Tuple2.of(a.f0, a.f1 + b.f1))
                .sinkTo(sink);
        env.execute("kafka");
    }

    static class Decode extends AbstractDeserializationSchema<Tuple2<String, Long>> {
        private transient ObjectMapper mapper;

        Decode() {
            super(PAIR);
        }

        @Override
        public void open(InitializationContext context) {
            mapper = new ObjectMapper();
        }

        @Override
        public Tuple2<String, Long> deserialize(byte[] message) throws IOException {
            return Tuple2.of(mapper.readTree(message).get("key").asText(), 1L);
        }
    }

    /** Keys have nothing that JSON would escape. */
    static class Encode implements SerializationSchema<Tuple2<String, Long>> {
        @Override
        public byte[] serialize(Tuple2<String, Long> pair) {
            return ("[\"" + pair.f0 + "\", " + pair.f1 + "]").getBytes(StandardCharsets.UTF_8);
        }
    }
}
