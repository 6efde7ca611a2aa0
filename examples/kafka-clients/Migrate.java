import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.*;

/** A group moves to the consumer protocol and back, one member after the other, while records keep coming. Needs clients of 4.1. */
public class Migrate {
    static final String BOOTSTRAP = System.getenv().getOrDefault("BOOTSTRAP", "127.0.0.1:9092");
    static final int PARTITIONS = 6;

    static Map<String, Object> settings(String... more) {
        Map<String, Object> p = new HashMap<>(Map.of("bootstrap.servers", BOOTSTRAP,
            "key.serializer", StringSerializer.class, "value.serializer", StringSerializer.class,
            "key.deserializer", StringDeserializer.class, "value.deserializer", StringDeserializer.class));
        for (int i = 0; i < more.length; i += 2) p.put(more[i], more[i + 1]);
        return p;
    }

    static void check(boolean ok, String what) {
        if (!ok) throw new AssertionError(what);
    }

    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(settings())) {
            for (String assignor : List.of("RangeAssignor", "CooperativeStickyAssignor")) new Migrate(admin, assignor).run();
        }
    }

    final Admin admin;
    final String assignor, topic, group;
    final Deque<KafkaConsumer<String, String>> members = new ArrayDeque<>();
    final Map<TopicPartition, Set<Long>> seen = new HashMap<>();
    final long end = System.currentTimeMillis() + 300000;
    int produced, processed;

    Migrate(Admin admin, String assignor) {
        this.admin = admin;
        this.assignor = assignor;
        this.topic = this.group = "migrate-" + assignor;
    }

    void run() throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1))).all().get();
        try (KafkaProducer<String, String> p = new KafkaProducer<>(settings("acks", "all"))) {
            // Each joins; then the one that is there for longest leaves, if there are more than two.
            for (String protocol : List.of("classic", "consumer", "consumer", "classic", "classic")) {
                for (int i = 0; i < 60; i++, produced++) p.send(new ProducerRecord<>(topic, i % PARTITIONS, "k", "v"));
                p.flush();
                join(protocol);
                spread();
                check(protocol.equals("classic") || type().equals("Consumer"), "with a member of the consumer protocol it is " + type());
                if (members.size() > 2) {
                    members.remove().close();
                    spread();
                }
            }
        }
        check(type().equals("Classic"), "at the end it is " + type());
        while (processed < produced && System.currentTimeMillis() < end) poll();
        check(processed == produced, processed + " records of " + produced);
        for (var m : members) m.close();
        System.out.println("migration, " + assignor + ": ok");
    }

    void join(String protocol) {
        Map<String, Object> s = settings("group.id", group, "group.protocol", protocol, "enable.auto.commit", "false", "auto.offset.reset", "earliest", "max.poll.records", "7");
        if (protocol.equals("classic")) {
            s.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
            s.put("heartbeat.interval.ms", "300");
        }
        KafkaConsumer<String, String> c = new KafkaConsumer<>(s);
        members.add(c);
        c.subscribe(List.of(topic), new ConsumerRebalanceListener() {
            public void onPartitionsRevoked(Collection<TopicPartition> gone) {
                if (!gone.isEmpty()) c.commitSync();
            }

            public void onPartitionsAssigned(Collection<TopicPartition> got) {}

            public void onPartitionsLost(Collection<TopicPartition> lost) {
                throw new AssertionError("lost " + lost);
            }
        });
    }

    /** Lets all members process until every partition has one reader and every member something to read. */
    void spread() {
        while (true) {
            poll();
            Set<TopicPartition> all = new HashSet<>();
            int sum = 0;
            boolean idle = false;
            for (var m : members) {
                all.addAll(m.assignment());
                sum += m.assignment().size();
                idle |= m.assignment().isEmpty();
            }
            if (!idle && all.size() == PARTITIONS && sum == PARTITIONS) return;
            check(System.currentTimeMillis() < end, "the partitions are not spread over the members: " + sum);
        }
    }

    void poll() {
        for (var m : members) {
            ConsumerRecords<String, String> batch = m.poll(Duration.ofMillis(50));
            for (ConsumerRecord<String, String> r : batch) {
                check(seen.computeIfAbsent(new TopicPartition(r.topic(), r.partition()), k -> new HashSet<>()).add(r.offset()), "processed twice: " + r);
                processed++;
            }
            if (batch.isEmpty()) continue;
            try {
                m.commitSync();
            } catch (RebalanceInProgressException e) {
                // In the middle of a rebalance; what is revoked by it is committed then, what is kept with the next batch.
            }
        }
    }

    String type() throws Exception {
        for (GroupListing g : admin.listGroups().all().get())
            if (g.groupId().equals(group)) return g.type().get().toString();
        return "none";
    }
}
