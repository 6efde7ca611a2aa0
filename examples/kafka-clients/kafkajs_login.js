// kafkajs logs in with every mechanism; a user who may only read cannot write, and a wrong password is refused.
const { Kafka, logLevel } = require('kafkajs')
const assert = require('assert')

const bootstrap = process.env.BOOTSTRAP || '127.0.0.1:9092'
const topic = 'kafkajs-login'

const connect = (mechanism, username, password) =>
  new Kafka({ clientId: 'example', brokers: [bootstrap], logLevel: logLevel.NOTHING, sasl: { mechanism, username, password }, retry: { retries: 2 } })

async function main() {
  let sent = 0
  for (const mechanism of ['plain', 'scram-sha-256', 'scram-sha-512']) {
    const writer = connect(mechanism, 'ada', 'correct horse')
    const admin = writer.admin()
    await admin.connect()
    await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] })
    await admin.disconnect()
    const producer = writer.producer()
    await producer.connect()
    await producer.send({ topic, acks: -1, messages: [{ value: mechanism }] })
    await producer.disconnect()
    sent++

    const reader = connect(mechanism, 'bob', 'battery staple')
    const consumer = reader.consumer({ groupId: mechanism })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    const got = []
    await consumer.run({ eachMessage: async ({ message }) => { got.push(message.value.toString()) } })
    const end = Date.now() + 120000
    while (got.length < sent) {
      assert(Date.now() < end, `${got.length} of ${sent} messages were read`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    assert(got.includes(mechanism))
    await consumer.disconnect()

    const refused = reader.producer()
    await refused.connect()
    await assert.rejects(refused.send({ topic, acks: -1, messages: [{ value: 'no' }] }), /authorized/i)
    await refused.disconnect()
    await assert.rejects(connect(mechanism, 'ada', 'wrong').admin().connect(), /auth/i)
    console.log(mechanism + ': ok')
  }
}

main().catch((e) => { console.error(e); process.exit(1) })
