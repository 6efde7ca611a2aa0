"""confluent-kafka with group.protocol=consumer: the broker assigns, and members change without a pause."""
import os
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

CONNECT = {"bootstrap.servers": os.environ.get("BOOTSTRAP", "127.0.0.1:9092")}
TOPIC = "next-orders"
ENOUGH = 180


def wait(futures):
    for f in futures.values():
        f.result(120)


def produce(topic, first, n):
    p = Producer({**CONNECT, "acks": "all"})
    for i in range(first, first + n):
        p.produce(topic, key=str(i), value=str(i))
    assert p.flush(120) == 0


def member(group, **more):
    return Consumer({**CONNECT, "group.id": group, "group.protocol": "consumer", "auto.offset.reset": "earliest", "enable.auto.commit": False, **more})


def poll(consumer, seen):
    got = consumer.consume(50, 0.1)
    for m in got:
        if m.error():
            raise KafkaException(m.error())
        key = (m.topic(), m.partition(), m.offset())
        assert key not in seen, f"{key} was processed twice"
        seen.add(key)
    if got:
        consumer.commit(asynchronous=False)


def until(done, members, seen, what):
    end = time.time() + ENOUGH
    while not done():
        assert time.time() < end, f"{what}: {len(seen)} seen, {[c.assignment() for c in members]}"
        for c in members:
            poll(c, seen)


admin = AdminClient(CONNECT)
wait(admin.create_topics([NewTopic(TOPIC, 4, 1)]))
produce(TOPIC, 0, 500)

# One member has everything, a second takes half of it, and nothing is processed twice.
seen = set()
a = member("next")
a.subscribe([TOPIC])
until(lambda: len(a.assignment()) == 4 and len(seen) > 100, [a], seen, "alone")
b = member("next", **{"group.remote.assignor": "uniform"})
b.subscribe([TOPIC])
until(lambda: len(a.assignment()) == 2 and len(b.assignment()) == 2, [a, b], seen, "two members")
assert not {t.partition for t in a.assignment()} & {t.partition for t in b.assignment()}
until(lambda: len(seen) == 500, [a, b], seen, "everything")
described = admin.describe_consumer_groups(["next"])["next"].result(120)
assert len(described.members) == 2, described
a.close()
produce(TOPIC, 500, 100)
until(lambda: len(b.assignment()) == 4 and len(seen) == 600, [b], seen, "the one who stays")
wait(admin.create_partitions([NewPartitions(TOPIC, 6)]))
until(lambda: len(b.assignment()) == 6, [b], seen, "more partitions")
assert sum(t.offset for t in b.committed([TopicPartition(TOPIC, i) for i in range(4)])) == 600
b.close()
print("assignment: ok")

# A pattern is the broker's to follow.
seen = set()
c = member("pattern")
c.subscribe(["^next-.*"])
until(lambda: len(seen) == 600, [c], seen, "a pattern")
wait(admin.create_topics([NewTopic("next-returns", 1, 1)]))
produce("next-returns", 0, 10)
until(lambda: len(seen) == 610, [c], seen, "a topic that appeared")
c.close()
print("pattern: ok")

# A static member comes back to what it had.
d = member("static", **{"group.instance.id": "one"})
d.subscribe([TOPIC])
seen = set()
until(lambda: len(d.assignment()) == 6, [d], seen, "static")
d.close()
d = member("static", **{"group.instance.id": "one"})
d.subscribe([TOPIC])
until(lambda: len(d.assignment()) == 6 and len(seen) == 600, [d], seen, "static again")
d.close()
wait(admin.delete_consumer_groups(["next", "pattern"]))
wait(admin.delete_topics([TOPIC, "next-returns"]))
print("static: ok")
