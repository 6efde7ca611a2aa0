"""Logging in with every mechanism, from both Python clients; a user who may only read cannot write."""
import os
import time

from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, TopicAuthorizationFailedError

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
WRITER, READER = ("ada", "correct horse"), ("bob", "battery staple")


def python(mechanism, user):
    return {"bootstrap_servers": BOOTSTRAP, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism,
            "sasl_plain_username": user[0], "sasl_plain_password": user[1]}


def librdkafka(mechanism, user):
    return {"bootstrap.servers": BOOTSTRAP, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": mechanism,
            "sasl.username": user[0], "sasl.password": user[1]}


for n, mechanism in enumerate(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")):
    p = KafkaProducer(acks="all", **python(mechanism, WRITER))
    p.send("login", b"kafka-python").get(timeout=120)
    p.close()
    p = Producer(librdkafka(mechanism, WRITER))
    p.produce("login", "confluent")
    assert p.flush(120) == 0
    c = KafkaConsumer("login", auto_offset_reset="earliest", **python(mechanism, READER))
    got, end = 0, time.time() + 120
    while got < 2 * (n + 1) and time.time() < end:
        got += sum(len(r) for r in c.poll(timeout_ms=300).values())
    assert got == 2 * (n + 1), got
    c.close()
    c = Consumer({**librdkafka(mechanism, READER), "group.id": mechanism, "auto.offset.reset": "earliest"})
    c.subscribe(["login"])
    assert c.consume(1, 120)[0].value()
    c.close()
    p = KafkaProducer(acks="all", **python(mechanism, READER))
    try:
        p.send("login", b"no").get(timeout=120)
        raise SystemExit("a reader wrote")
    except TopicAuthorizationFailedError:
        p.close()
    try:
        KafkaProducer(**python(mechanism, ("ada", "wrong")), api_version_auto_timeout_ms=1500)
        raise SystemExit("a wrong password was taken")
    except KafkaError:
        pass
    print(mechanism + ": ok")
