"""confluent-kafka (librdkafka) against the log: delivery reports, groups, transactions, administration."""
import json
import os
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
SECURITY = json.loads(os.environ.get("SECURITY", "{}"))
CONNECT = {"bootstrap.servers": BOOTSTRAP, **SECURITY}
TOPIC = os.environ.get("TOPIC", "confluent-orders")


def wait(futures):
    for f in futures.values():
        f.result(120)


def read(consumer, n, seconds=180):
    got, end = [], time.time() + seconds
    while len(got) < n and time.time() < end:
        for m in consumer.consume(500, 0.3):
            if m.error():
                raise KafkaException(m.error())
            got.append(m)
    return got


admin = AdminClient(CONNECT)
wait(admin.create_topics([NewTopic(TOPIC, 4, 1), NewTopic(TOPIC + "-out", 2, 1)]))
wait(admin.create_partitions([NewPartitions(TOPIC + "-out", 3)]))
resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC)
wait(admin.alter_configs([ConfigResource(ConfigResource.Type.TOPIC, TOPIC, set_config={"retention.ms": "7200000"})]))
assert list(admin.describe_configs([resource]).values())[0].result(120)["retention.ms"].value == "7200000"
assert TOPIC in admin.list_topics(timeout=120).topics
print("admin: ok")

# Every codec arrives as it was sent, and every message has its delivery report.
delivered = []
for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
    p = Producer({**CONNECT, "compression.type": codec, "acks": "all", "enable.idempotence": True, "linger.ms": 5})
    for i in range(200):
        p.produce(TOPIC, key=f"{codec}-{i}", value=f"{codec} {i} " + "x" * 200,
                  on_delivery=lambda err, m: delivered.append((err, m.partition(), m.offset())))
    assert p.flush(120) == 0
assert len(delivered) == 1000 and not [d for d in delivered if d[0]], "a message was not delivered"
print("producer: ok")

# Two consumers share a group; a third in another group sees everything.
group = {**CONNECT, "group.id": "confluent", "auto.offset.reset": "earliest", "enable.auto.commit": False,
         "session.timeout.ms": 30000, "heartbeat.interval.ms": 300}
for strategy in ("range", "cooperative-sticky"):
    name = "confluent-" + strategy
    a = Consumer({**group, "group.id": name, "partition.assignment.strategy": strategy})
    b = Consumer({**group, "group.id": name, "partition.assignment.strategy": strategy})
    a.subscribe([TOPIC])
    b.subscribe([TOPIC])
    seen, end = {}, time.time() + 180
    while (len(seen) < 1000 or not (a.assignment() and b.assignment())) and time.time() < end:
        for c in (a, b):
            for m in c.consume(200, 0.1):
                seen[(m.partition(), m.offset())] = m.value()
            if c.assignment() and seen:
                try:
                    c.commit(asynchronous=False)
                except KafkaException:
                    pass  # nothing new, or a rebalance is under way
    assert len(seen) == 1000, len(seen)
    assert len(a.assignment()) + len(b.assignment()) == 4, (a.assignment(), b.assignment())
    a.close()
    b.close()
c = Consumer({**group, "group.id": "everything"})
c.subscribe([TOPIC])
got = read(c, 1000)
assert len(got) == 1000
c.commit(asynchronous=False)
assert sum(t.offset for t in c.committed([TopicPartition(TOPIC, i) for i in range(4)])) == 1000
low, high = c.get_watermark_offsets(TopicPartition(TOPIC, 0))
assert low == 0 and high > 0
times = c.offsets_for_times([TopicPartition(TOPIC, 0, 0)])
assert times[0].offset == 0, times
c.close()
print("groups: ok")

# A transaction that commits, and one that does not; offsets go with it.
p = Producer({**CONNECT, "transactional.id": "confluent-etl"})
p.init_transactions(120)
c = Consumer({**group, "group.id": "etl", "isolation.level": "read_committed"})
c.subscribe([TOPIC])
moved = 0
while moved < 1000:
    batch = read(c, 1, 120)
    assert batch, "nothing to move"
    p.begin_transaction()
    for m in batch:
        p.produce(TOPIC + "-out", m.value(), m.key())
    p.send_offsets_to_transaction(c.position(c.assignment()), c.consumer_group_metadata(), 120)
    p.commit_transaction(120)
    moved += len(batch)
p.begin_transaction()
p.produce(TOPIC + "-out", "never")
p.flush()
p.abort_transaction(120)
c.close()
c = Consumer({**group, "group.id": "check", "isolation.level": "read_committed"})
c.subscribe([TOPIC + "-out"])
got = read(c, 1000) + read(c, 1, 3)
assert len(got) == 1000 and not [m for m in got if m.value() == b"never"], len(got)
c.close()
wait(admin.delete_topics([TOPIC, TOPIC + "-out"]))
print("transactions: ok")
