import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;

/** The first program of everybody who learns Kafka Streams, with exactly-once. */
public class WordCount {
    public static void main(String[] args) throws Exception {
        String bootstrap = System.getenv().getOrDefault("BOOTSTRAP", "127.0.0.1:9092");
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(p)) {
            admin.createTopics(List.of(new NewTopic("lines", 2, (short) 1), new NewTopic("counts", 2, (short) 1))).all().get();
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((k, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count()
            .toStream().to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        Properties s = new Properties();
        s.putAll(p);
        s.put("application.id", "wordcount");
        s.put("processing.guarantee", "exactly_once_v2");
        s.put("commit.interval.ms", "100");
        s.put("state.dir", System.getenv().getOrDefault("STATE", System.getProperty("java.io.tmpdir") + "/wordcount-" + ProcessHandle.current().pid()));
        try (KafkaStreams streams = new KafkaStreams(builder.build(), s)) {
            streams.start();
            Properties w = new Properties();
            w.putAll(p);
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(w, new StringSerializer(), new StringSerializer())) {
                for (int i = 0; i < 100; i++) producer.send(new ProducerRecord<>("lines", "all streams lead to the log " + i % 3));
            }
            Properties c = new Properties();
            c.putAll(p);
            c.put("group.id", "counts");
            c.put("auto.offset.reset", "earliest");
            c.put("isolation.level", "read_committed");
            Map<String, Long> counts = new HashMap<>();
            try (KafkaConsumer<String, Long> consumer = new KafkaConsumer<>(c, new StringDeserializer(), new LongDeserializer())) {
                consumer.subscribe(List.of("counts"));
                long end = System.currentTimeMillis() + 180000;
                while (!Long.valueOf(100).equals(counts.get("log")) && System.currentTimeMillis() < end)
                    for (ConsumerRecord<String, Long> r : consumer.poll(Duration.ofMillis(200))) counts.put(r.key(), r.value());
            }
            if (counts.getOrDefault("log", 0L) != 100 || counts.getOrDefault("0", 0L) != 34) throw new AssertionError(counts.toString());
        }
        System.out.println("word count: ok");
        System.exit(0);
    }
}
