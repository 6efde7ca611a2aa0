"""Confluent's own deserializers on topics in Avro and in Protobuf, with the schema registry that is built in."""
import importlib
import os
import subprocess
import sys
import tempfile
import time

from confluent_kafka import Consumer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
REGISTRY = os.environ.get("REGISTRY", "http://127.0.0.1:8080/registry")
registry = SchemaRegistryClient({"url": REGISTRY})


def read(topic, n):
    """Reads the first n records of a topic."""
    consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": "schemas-" + topic, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    got, end = [], time.time() + 60
    while len(got) < n and time.time() < end:
        for m in consumer.consume(100, 0.5):
            if m.error():
                raise RuntimeError(m.error())
            got.append(m)
    consumer.close()
    assert len(got) == n, f"{topic}: {len(got)} records"
    return got


def message(subject, name):
    """Makes the class of a message out of the .proto file in the registry, as anyone would."""
    schema = registry.get_latest_version(subject).schema
    assert schema.schema_type == "PROTOBUF", schema.schema_type
    folder = tempfile.mkdtemp()
    module = name.lower() + "_of_orders"
    with open(os.path.join(folder, module + ".proto"), "w") as f:
        f.write(schema.schema_str)
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I" + folder, "--python_out=" + folder, module + ".proto"], check=True)
    sys.path.insert(0, folder)
    return getattr(importlib.import_module(module + "_pb2"), name)


# Avro: the deserializer asks the registry for the schema that each record names.
avro = AvroDeserializer(registry)
rows = {}
for m in read("avro.main.orders", 5):
    key = avro(m.key(), SerializationContext(m.topic(), MessageField.KEY))
    change = avro(m.value(), SerializationContext(m.topic(), MessageField.VALUE))
    assert change["op"] == "r" and change["source"]["name"] == "avro" and change["before"] is None, change
    assert key == {"id": change["after"]["id"]}, (key, change)
    rows[key["id"]] = change["after"]
assert rows[1]["item"] == "lamp" and rows[1]["cents"] == 4950, rows[1]
assert rows[4]["item"] == 'rug "Kiruna"', rows[4]
print("avro: ok")

# Protobuf: with a class that protoc made.
key_of = ProtobufDeserializer(message("proto.main.orders-key", "Key"), {"use.deprecated.format": False})
value_of = ProtobufDeserializer(message("proto.main.orders-value", "Envelope"), {"use.deprecated.format": False})
seen = {}
for m in read("proto.main.orders", 5):
    key = key_of(m.key(), SerializationContext(m.topic(), MessageField.KEY))
    change = value_of(m.value(), SerializationContext(m.topic(), MessageField.VALUE))
    assert change.op == "r" and change.source.name == "proto" and not change.HasField("before"), change
    assert key.id == change.after.id
    seen[key.id] = change.after
assert seen[1].item == "lamp" and seen[1].cents == 4950, seen[1]
assert {i: r.item for i, r in seen.items()} == {i: r["item"] for i, r in rows.items()}
print("protobuf: ok")

# The registry answers what Confluent's client asks besides.
subjects = registry.get_subjects()
assert {"avro.main.orders-key", "avro.main.orders-value", "proto.main.orders-value"} <= set(subjects), subjects
latest = registry.get_latest_version("avro.main.orders-value")
assert registry.get_versions("avro.main.orders-value") == [1] and latest.version == 1
assert registry.lookup_schema("avro.main.orders-value", latest.schema).schema_id == latest.schema_id
assert registry.test_compatibility("avro.main.orders-value", latest.schema)
assert registry.register_schema("mine", latest.schema) == latest.schema_id
assert registry.set_compatibility("mine", level="FULL") == {"compatibility": "FULL"}
assert registry.get_compatibility("mine") == "FULL"
assert registry.delete_subject("mine") == [1]
print("registry: ok")

# Schemas that name others: the serializer and the deserializer find what they name in the registry.
address = Schema('{"type": "record", "name": "shop.Address", "fields": [{"name": "zip", "type": "string"}]}', "AVRO")
registry.register_schema("address", address)
customer = Schema('{"type": "record", "name": "shop.Customer", "fields": [{"name": "home", "type": "shop.Address"}]}', "AVRO",
                  [SchemaReference("shop.Address", "address", 1)])
customer_id = registry.register_schema("customers-value", customer)
shown = registry.get_latest_version("customers-value")
assert shown.schema_id == customer_id, shown
assert [(r.name, r.subject, r.version) for r in shown.schema.references] == [("shop.Address", "address", 1)], shown.schema.references
assert registry.lookup_schema("customers-value", customer).schema_id == customer_id
where = SerializationContext("customers", MessageField.VALUE)
row = {"home": {"zip": "98128"}}
encoded = AvroSerializer(registry, customer, conf={"auto.register.schemas": False, "use.latest.version": True})(row, where)
assert int.from_bytes(encoded[1:5], "big") == customer_id, encoded
assert AvroDeserializer(SchemaRegistryClient({"url": REGISTRY}))(encoded, where) == row
try:
    registry.delete_subject("address")
    raise AssertionError("a subject that another one refers to was deleted")
except SchemaRegistryError as e:
    assert e.error_code == 42206, e
assert registry.delete_subject("customers-value") == [1]
assert registry.delete_subject("address") == [1]
print("references: ok")

# JSON Schema, with a reference too.
zipcode = Schema('{"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"}', "JSON")
registry.register_schema("zip", zipcode)
place = '{"type": "object", "properties": {"zip": {"$ref": "zip.json"}%s}, "additionalProperties": false%s}'
first = Schema(place % ("", ""), "JSON", [SchemaReference("zip.json", "zip", 1)])
place_id = registry.register_schema("place", first)
shown = registry.get_latest_version("place")
assert shown.schema_id == place_id and shown.schema.schema_type == "JSON", shown
assert [(r.name, r.subject, r.version) for r in shown.schema.references] == [("zip.json", "zip", 1)], shown.schema.references
assert SchemaRegistryClient({"url": REGISTRY}).get_schema(place_id).schema_type == "JSON"
assert registry.lookup_schema("place", first).schema_id == place_id
wider = Schema(place % (', "city": {"type": "string"}', ""), "JSON", first.references)
stricter = Schema(place % (', "city": {"type": "string"}', ', "required": ["city"]'), "JSON", first.references)
assert registry.test_compatibility("place", wider)
assert not registry.test_compatibility("place", stricter)
try:
    registry.register_schema("place", stricter)
    raise AssertionError("a property became required, and the schema was let in")
except SchemaRegistryError as e:
    assert e.http_status_code == 409 and "city" in str(e), e
assert registry.register_schema("place", wider) > place_id
print("json schema: ok")
