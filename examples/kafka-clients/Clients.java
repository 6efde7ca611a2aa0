import java.time.Duration;
import java.util.*;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;

/** What people learn Kafka with in Java, unchanged but for host and port. */
public class Clients {
    static final String BOOTSTRAP = System.getenv().getOrDefault("BOOTSTRAP", "127.0.0.1:9092");
    static final String TOPIC = System.getenv().getOrDefault("TOPIC", "java-orders");

    static Properties settings(String... more) {
        Properties p = new Properties();
        p.put("bootstrap.servers", BOOTSTRAP);
        p.put("key.serializer", StringSerializer.class.getName());
        p.put("value.serializer", StringSerializer.class.getName());
        p.put("key.deserializer", StringDeserializer.class.getName());
        p.put("value.deserializer", StringDeserializer.class.getName());
        p.put("auto.offset.reset", "earliest");
        for (int i = 0; i < more.length; i += 2) p.put(more[i], more[i + 1]);
        if (System.getenv("GROUP_PROTOCOL") != null && p.containsKey("group.id")) p.put("group.protocol", System.getenv("GROUP_PROTOCOL"));
        return p;
    }

    /** Calls the first of these methods that this release of the client has: some were renamed between 2.6 and 4. */
    @SuppressWarnings("unchecked")
    static <T> T call(Object o, String... names) throws Exception {
        for (String name : names)
            for (var m : o.getClass().getMethods())
                if (m.getName().equals(name) && m.getParameterCount() == 0) {
                    m.setAccessible(true);
                    return (T) m.invoke(o);
                }
        throw new NoSuchMethodException(String.join(" or ", names));
    }

    /** Whether the client is of a release, or later. */
    static boolean since(int major) {
        return Integer.parseInt(org.apache.kafka.common.utils.AppInfoParser.getVersion().split("\\.")[0]) >= major;
    }

    static void check(boolean ok, String what) {
        if (!ok) throw new AssertionError(what);
    }

    static List<ConsumerRecord<String, String>> read(KafkaConsumer<String, String> c, int n) {
        List<ConsumerRecord<String, String>> out = new ArrayList<>();
        long end = System.currentTimeMillis() + 180000;
        while (out.size() < n && System.currentTimeMillis() < end)
            c.poll(Duration.ofMillis(300)).forEach(out::add);
        check(out.size() >= n, out.size() + " records of " + n);
        return out;
    }

    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(settings())) {
            topics(admin);
            producer();
            consumer();
            transactions();
            groups(admin);
            handOver(admin);
            admin.deleteTopics(List.of(TOPIC, TOPIC + "-out")).all().get();
        }
    }

    static void topics(Admin admin) throws Exception {
        NewTopic topic = new NewTopic(TOPIC, 3, (short) 1).configs(Map.of("cleanup.policy", "delete", "retention.ms", "3600000"));
        CreateTopicsResult made = admin.createTopics(List.of(topic, new NewTopic(TOPIC + "-out", Optional.of(2), Optional.empty())));
        made.all().get();
        check(made.numPartitions(TOPIC).get() == 3, "create");
        check("3600000".equals(made.config(TOPIC).get().get("retention.ms").value()), "configs in the reply");
        try {
            admin.createTopics(List.of(topic)).all().get();
            throw new AssertionError("made twice");
        } catch (ExecutionException e) {
            check(e.getCause() instanceof org.apache.kafka.common.errors.TopicExistsException, "twice: " + e);
        }
        KafkaFuture<Map<String, TopicDescription>> described = call(admin.describeTopics(List.of(TOPIC)), "allTopicNames", "all");
        check(described.get().get(TOPIC).partitions().size() == 3, "describe");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND)))).all().get();
        check(admin.describeConfigs(List.of(resource)).all().get().get(resource).get("cleanup.policy").value().contains("compact"), "append");
        admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.SUBTRACT)))).all().get();
        admin.createPartitions(Map.of(TOPIC + "-out", NewPartitions.increaseTo(3))).all().get();
        check(admin.describeCluster().nodes().get().size() == 1, "cluster");
        KafkaFuture<Map<Integer, Map<String, ?>>> dirs = call(admin.describeLogDirs(List.of(0)), "allDescriptions", "all");
        check(dirs.get().get(0).size() == 1, "log dirs");
        System.out.println("admin: ok");
    }

    static void producer() throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            try (KafkaProducer<String, String> p = new KafkaProducer<>(settings("acks", "all", "compression.type", codec, "linger.ms", "5"))) {
                List<java.util.concurrent.Future<RecordMetadata>> sent = new ArrayList<>();
                for (int i = 0; i < 100; i++) sent.add(p.send(new ProducerRecord<>(TOPIC, codec + i, codec + " value " + i)));
                for (var f : sent) check(f.get().offset() >= 0, "offset");
            }
        }
        System.out.println("producer: ok");
    }

    static void consumer() throws Exception {
        try (KafkaConsumer<String, String> c = new KafkaConsumer<>(settings("group.id", "java", "enable.auto.commit", "true", "auto.commit.interval.ms", "100"))) {
            c.subscribe(List.of(TOPIC));
            check(read(c, 500).size() == 500, "all of it, once");
        }
        try (KafkaConsumer<String, String> c = new KafkaConsumer<>(settings("group.id", "java"))) {
            c.subscribe(List.of(TOPIC));
            check(c.poll(Duration.ofSeconds(2)).isEmpty(), "read twice after auto commit");
            TopicPartition tp = new TopicPartition(TOPIC, 0);
            check(c.committed(Set.of(tp)).get(tp) != null, "committed");
            check(c.beginningOffsets(Set.of(tp)).get(tp) == 0, "beginning");
            check(c.offsetsForTimes(Map.of(tp, 0L)).get(tp).offset() == 0, "time");
        }
        try (KafkaConsumer<String, String> c = new KafkaConsumer<>(settings("group.id", "nobody-knows"))) {
            TopicPartition tp = new TopicPartition(TOPIC, 0);
            check(c.committed(Set.of(tp)).get(tp) == null, "a group that nobody knows");
            c.assign(List.of(tp));
            c.seek(tp, 1);
            check(read(c, 1).get(0).offset() == 1, "seek");
        }
        System.out.println("consumer: ok");
    }

    static void transactions() throws Exception {
        try (KafkaProducer<String, String> p = new KafkaProducer<>(settings("transactional.id", "java-etl"));
             KafkaConsumer<String, String> c = new KafkaConsumer<>(settings("group.id", "java-etl", "enable.auto.commit", "false", "isolation.level", "read_committed"))) {
            p.initTransactions();
            c.subscribe(List.of(TOPIC));
            int moved = 0;
            for (int round = 0; moved < 500; round++) {
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                p.beginTransaction();
                for (ConsumerRecord<String, String> r : read(c, 1)) {
                    p.send(new ProducerRecord<>(TOPIC + "-out", r.key(), r.value()));
                    next.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
                    moved++;
                }
                p.sendOffsetsToTransaction(next, c.groupMetadata());
                p.commitTransaction();
            }
            p.beginTransaction();
            p.send(new ProducerRecord<>(TOPIC + "-out", "never", "never"));
            p.flush();
            p.abortTransaction();
        }
        try (KafkaConsumer<String, String> c = new KafkaConsumer<>(settings("group.id", "java-check", "isolation.level", "read_committed"))) {
            c.subscribe(List.of(TOPIC + "-out"));
            List<ConsumerRecord<String, String>> got = read(c, 500);
            c.poll(Duration.ofSeconds(1)).forEach(got::add);
            check(got.size() == 500 && got.stream().noneMatch(r -> r.key().equals("never")), "exactly once: " + got.size());
        }
        System.out.println("transactions: ok");
    }

    static void groups(Admin admin) throws Exception {
        check(admin.listConsumerGroups().all().get().stream().anyMatch(g -> g.groupId().equals("java")), "list");
        check(admin.describeConsumerGroups(List.of("java")).all().get().get("java").state().toString().equals("Empty"), "describe");
        check(!admin.listConsumerGroupOffsets("java").partitionsToOffsetAndMetadata().get().isEmpty(), "offsets");
        admin.alterConsumerGroupOffsets("java", Map.of(new TopicPartition(TOPIC, 0), new OffsetAndMetadata(1))).all().get();
        admin.deleteConsumerGroupOffsets("java", Set.of(new TopicPartition(TOPIC, 0))).all().get();
        admin.deleteConsumerGroups(List.of("java")).all().get();
        admin.deleteRecords(Map.of(new TopicPartition(TOPIC, 0), RecordsToDelete.beforeOffset(2))).all().get();
        check(admin.listOffsets(Map.of(new TopicPartition(TOPIC, 0), OffsetSpec.earliest())).all().get().get(new TopicPartition(TOPIC, 0)).offset() == 2, "delete records");
        if (!since(3)) {
            System.out.println("groups: ok");
            return;
        }
        OffsetSpec newest = (OffsetSpec) OffsetSpec.class.getMethod("maxTimestamp").invoke(null);
        check(admin.listOffsets(Map.of(new TopicPartition(TOPIC, 0), newest)).all().get().get(new TopicPartition(TOPIC, 0)).offset() >= 0, "newest");
        System.out.println("groups: ok");
    }

    /** A second member joins and the first leaves; nothing is processed twice, because both commit what they have processed. */
    static void handOver(Admin admin) throws Exception {
        Map<TopicPartition, Set<Long>> seen = new HashMap<>();
        int[] total = {0};
        KafkaConsumer<String, String> first = member(), second = member();
        first.subscribe(List.of(TOPIC));
        second.subscribe(List.of(TOPIC));
        long all = admin.listOffsets(Map.of(new TopicPartition(TOPIC, 0), OffsetSpec.latest(), new TopicPartition(TOPIC, 1), OffsetSpec.latest(),
            new TopicPartition(TOPIC, 2), OffsetSpec.latest())).all().get().values().stream().mapToLong(r -> r.offset()).sum() - 2;
        long end = System.currentTimeMillis() + 180000;
        while ((first.assignment().isEmpty() || second.assignment().isEmpty()) && System.currentTimeMillis() < end) {
            process(first, seen, total);
            process(second, seen, total);
        }
        check(!first.assignment().isEmpty() && !second.assignment().isEmpty(), "both have partitions");
        check(Collections.disjoint(first.assignment(), second.assignment()), "a partition has two readers");
        if (System.getenv("GROUP_PROTOCOL") != null) {
            ConsumerGroupDescription d = admin.describeConsumerGroups(List.of("hand-over")).all().get().get("hand-over");
            check(d.members().size() == 2 && d.getClass().getMethod("type").invoke(d).toString().equalsIgnoreCase("consumer"), "described: " + d);
        }
        first.close();
        while (total[0] < all && System.currentTimeMillis() < end) process(second, seen, total);
        while (second.assignment().size() < 3 && System.currentTimeMillis() < end) process(second, seen, total);
        check(total[0] == all, total[0] + " records of " + all);
        check(second.assignment().size() == 3, "the one who stays has everything");
        second.close();
        System.out.println("hand over: ok");
    }

    static KafkaConsumer<String, String> member() {
        return new KafkaConsumer<>(settings("group.id", "hand-over", "enable.auto.commit", "false", "max.poll.records", "7"));
    }

    static void process(KafkaConsumer<String, String> c, Map<TopicPartition, Set<Long>> seen, int[] total) {
        ConsumerRecords<String, String> batch = c.poll(Duration.ofMillis(100));
        for (ConsumerRecord<String, String> r : batch) {
            check(seen.computeIfAbsent(new TopicPartition(r.topic(), r.partition()), k -> new HashSet<>()).add(r.offset()), "processed twice: " + r);
            total[0]++;
        }
        if (!batch.isEmpty()) c.commitSync();
    }
}
