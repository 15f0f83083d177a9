// What scripts/make-fixtures does to topics of one partition:
//
//   java -cp JARS Topics.java BROKERS create TOPIC[:SETTING=VALUE]...
//   java -cp JARS Topics.java BROKERS delete TOPIC...   those that are there
//   java -cp JARS Topics.java BROKERS send TOPIC VALUE...
//   java -cp JARS Topics.java BROKERS dump TOPIC...     a JSON object per record; bytes in Base64

import java.time.Duration;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.*;

class Topics {
    static final Map<String, Object> SETTINGS = new HashMap<>();

    public static void main(String[] args) throws Exception {
        SETTINGS.put("bootstrap.servers", args[0]);
        List<String> rest = List.of(args).subList(2, args.length);
        switch (args[1]) {
            case "create" -> create(rest);
            case "delete" -> delete(rest);
            case "send" -> send(rest.get(0), rest.subList(1, rest.size()));
            default -> rest.forEach(Topics::dump);
        }
    }

    static void create(List<String> topics) throws Exception {
        try (Admin admin = Admin.create(SETTINGS)) {
            admin.createTopics(topics.stream().map(Topics::described).toList()).all().get();
        }
    }

    static NewTopic described(String text) {
        String[] parts = text.split("[:=]");
        var topic = new NewTopic(parts[0], 1, (short) 1);
        return parts.length == 1 ? topic : topic.configs(Map.of(parts[1], parts[2]));
    }

    static void delete(List<String> topics) throws Exception {
        try (Admin admin = Admin.create(SETTINGS)) {
            var there = new ArrayList<>(admin.listTopics().names().get());
            there.retainAll(topics);
            admin.deleteTopics(there).all().get();
        }
    }

    static void send(String topic, List<String> values) throws Exception {
        var text = new StringSerializer();
        try (var producer = new KafkaProducer<>(SETTINGS, text, text)) {
            for (int n = 0; n < values.size(); n++) {
                producer.send(new ProducerRecord<>(topic, "key-" + n, values.get(n))).get();
            }
        }
    }

    static void dump(String topic) {
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(SETTINGS, bytes, bytes)) {
            var partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                consumer.poll(Duration.ofSeconds(1)).forEach(record -> System.out.println(json(record)));
            }
        }
    }

    static String json(ConsumerRecord<byte[], byte[]> record) {
        var headers = Arrays.stream(record.headers().toArray()).map(Topics::json).collect(Collectors.joining(", "));
        return String.format("{\"topic\": \"%s\", \"offset\": %d, \"timestamp\": %d, \"key\": %s, \"value\": %s, \"headers\": [%s]}",
            record.topic(), record.offset(), record.timestamp(), base64(record.key()), base64(record.value()), headers);
    }

    static String json(Header header) {
        return String.format("{\"name\": \"%s\", \"value\": %s}", header.key(), base64(header.value()));
    }

    static String base64(byte[] bytes) {
        return bytes == null ? "null" : '"' + Base64.getEncoder().encodeToString(bytes) + '"';
    }
}
