"""What people learn Kafka with in Python: kafka-python against the log, unchanged but for host and port."""
import json
import os
import threading
import time

from google.protobuf.struct_pb2 import Struct
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import TopicAlreadyExistsError
from kafka.structs import OffsetAndMetadata

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
SECURITY = json.loads(os.environ.get("SECURITY", "{}"))
CONNECT = {"bootstrap_servers": BOOTSTRAP, **SECURITY}
TOPIC = os.environ.get("TOPIC", "python-orders")


def poll_all(consumer, n, seconds=180):
    got, end = [], time.time() + seconds
    while len(got) < n and time.time() < end:
        for records in consumer.poll(timeout_ms=500).values():
            got.extend(records)
    assert len(got) >= n, f"{len(got)} records of {n}"
    return got


# The admin makes topics.
admin = KafkaAdminClient(**CONNECT)
admin.create_topics([NewTopic(TOPIC, num_partitions=3, replication_factor=1), NewTopic(TOPIC + "-proto", 1, 1)])
try:
    admin.create_topics([NewTopic(TOPIC, 3, 1)])
    raise SystemExit("a topic was made twice")
except TopicAlreadyExistsError:
    pass
assert TOPIC in admin.list_topics()
admin.create_partitions({TOPIC + "-proto": NewPartitions(2)})
admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC)])
print("admin: ok")

# Producers with and without a key, JSON and Protobuf values, all codecs that kafka-python has here.
producer = KafkaProducer(value_serializer=lambda v: json.dumps(v).encode(), key_serializer=lambda k: k and k.encode(), acks="all", **CONNECT)
where = {}
for i in range(300):
    key = f"customer-{i % 30}"
    meta = producer.send(TOPIC, {"order": i}, key=key, headers=[("trace", b"%d" % i)]).get(timeout=120)
    assert where.setdefault(key, meta.partition) == meta.partition, "a key moved"
for i in range(30):
    producer.send(TOPIC, {"keyless": i})
producer.flush()
producer.close()
for acks in (0, 1, "all"):
    p = KafkaProducer(acks=acks, compression_type="gzip", **CONNECT)
    p.send(TOPIC + "-proto", Struct(fields={}).SerializeToString() or b"\x00", partition=0)
    p.flush()
    p.close()
s = Struct()
s.update({"name": "Ada", "total": 12.5})
p = KafkaProducer(value_serializer=lambda m: m.SerializeToString(), **CONNECT)
p.send(TOPIC + "-proto", s, partition=1).get(timeout=120)
p.close()
print("producer: ok")

# A consumer subscribes and reads in a poll loop.
consumer = KafkaConsumer(TOPIC, group_id="readers", auto_offset_reset="earliest", enable_auto_commit=False, **CONNECT)
records = poll_all(consumer, 330)
orders = [json.loads(r.value) for r in records if r.key]
assert sorted(o["order"] for o in orders) == list(range(300))
last = {}
for r in records:
    if r.key:
        n = json.loads(r.value)["order"]
        assert last.get(r.key, -1) < n, "a key's order is broken"
        last[r.key] = n
        assert r.headers == [("trace", b"%d" % n)]
consumer.commit()
consumer.close()
consumer = KafkaConsumer(TOPIC, group_id="readers", auto_offset_reset="earliest", **CONNECT)
assert not [r for rs in consumer.poll(timeout_ms=1500).values() for r in rs], "read twice"
consumer.close()
print("subscribe: ok")

# Manual assignment, seek, offsets by time.
tp = TopicPartition(TOPIC + "-proto", 1)
consumer = KafkaConsumer(group_id=None, **CONNECT)
consumer.assign([tp])
consumer.seek_to_beginning(tp)
back = Struct()
back.ParseFromString(poll_all(consumer, 1)[0].value)
assert back["name"] == "Ada"
assert consumer.beginning_offsets([tp])[tp] == 0 and consumer.end_offsets([tp])[tp] == 1
assert consumer.offsets_for_times({tp: 0})[tp].offset == 0
assert consumer.offsets_for_times({tp: int(time.time() * 1000) + 60000})[tp] is None
consumer.seek(tp, 0)
assert len(poll_all(consumer, 1)) == 1
consumer.close()
print("assign and seek: ok")

# Two members of a group share the partitions; another group sees everything.
seen, lock = [], threading.Lock()
stop = threading.Event()


def member(name):
    c = KafkaConsumer(TOPIC, group_id="shared", auto_offset_reset="earliest", client_id=name,
                      session_timeout_ms=30000, heartbeat_interval_ms=300, **CONNECT)
    while not stop.is_set():
        for rs in c.poll(timeout_ms=200).values():
            with lock:
                seen.extend((name, r.partition, r.offset) for r in rs)
    c.close()


threads = [threading.Thread(target=member, args=(f"member-{i}",)) for i in range(2)]
for t in threads:
    t.start()
end = time.time() + 180
while len({(p, o) for _, p, o in seen}) < 330 and time.time() < end:
    time.sleep(0.1)
groups = dict(admin.list_consumer_groups())
assert groups["shared"] == "consumer", groups
described = admin.describe_consumer_groups(["shared"])[0]
assert described.state == "Stable" and len(described.members) == 2, described
stop.set()
for t in threads:
    t.join()
assert len({(p, o) for _, p, o in seen}) == 330
other = KafkaConsumer(TOPIC, group_id="all", auto_offset_reset="earliest", **CONNECT)
assert len(poll_all(other, 330)) == 330
other.commit({TopicPartition(TOPIC, 0): OffsetAndMetadata(5, "a note")})
assert other.committed(TopicPartition(TOPIC, 0), metadata=True).metadata == "a note"
other.close()
assert admin.list_consumer_group_offsets("all")[TopicPartition(TOPIC, 0)].offset >= 5
admin.delete_consumer_groups(["shared"])
admin.delete_topics([TOPIC, TOPIC + "-proto"])
admin.close()
print("groups: ok")
