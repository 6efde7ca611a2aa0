// kafkajs against the log: administration, producers, a group of two, seek, transactions.
const { Kafka, CompressionTypes, logLevel } = require('kafkajs')
const assert = require('assert')

const bootstrap = process.env.BOOTSTRAP || '127.0.0.1:9092'
const topic = 'kafkajs-orders'

async function until(done, what) {
  const end = Date.now() + 180000
  while (!done()) {
    assert(Date.now() < end, what)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

async function main() {
  const kafka = new Kafka({ clientId: 'example', brokers: [bootstrap], logLevel: logLevel.NOTHING })
  const admin = kafka.admin()
  await admin.connect()
  assert(await admin.createTopics({ topics: [{ topic, numPartitions: 3 }, { topic: topic + '-out', numPartitions: 1 }] }))
  await admin.createPartitions({ topicPartitions: [{ topic: topic + '-out', count: 2 }] })
  assert((await admin.listTopics()).includes(topic))
  assert.strictEqual((await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length, 3)
  console.log('admin: ok')

  const producer = kafka.producer({ idempotent: true })
  await producer.connect()
  for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
    const messages = [...Array(150).keys()].map((i) => ({ key: `${compression}-${i}`, value: JSON.stringify({ order: i }), headers: { trace: `${i}` } }))
    const sent = await producer.send({ topic, compression, acks: -1, messages })
    assert(sent.every((p) => p.errorCode === 0))
  }
  await producer.disconnect()
  console.log('producer: ok')

  // Two members share the partitions; what they committed is not read again.
  const seen = new Map()
  const open = async (groupId, handle) => {
    const consumer = kafka.consumer({ groupId, heartbeatInterval: 300, sessionTimeout: 10000 })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({ eachMessage: handle })
    return consumer
  }
  const note = async ({ partition, message }) => seen.set(`${partition}/${message.offset}`, message)
  const members = [await open('kafkajs', note), await open('kafkajs', note)]
  await until(() => seen.size === 300, 'not everything was read')
  const described = await admin.describeGroups(['kafkajs'])
  assert.strictEqual(described.groups[0].members.length, 2)
  assert([...seen.values()].every((m) => JSON.parse(m.value).order === Number(m.headers.trace)))
  for (const m of members) await m.disconnect()
  const offsets = await admin.fetchOffsets({ groupId: 'kafkajs', topics: [topic] })
  assert.strictEqual(offsets[0].partitions.reduce((n, p) => n + Number(p.offset), 0), 300)
  console.log('groups: ok')

  // Seek, from the middle of one partition.
  let at
  const reader = await open('kafkajs-seek', async ({ partition, message }) => { if (partition === 0 && at === undefined) at = Number(message.offset) })
  reader.seek({ topic, partition: 0, offset: '5' })
  await until(() => at !== undefined, 'nothing was read behind the seek')
  assert.strictEqual(at, 5)
  await reader.disconnect()
  const byTime = await admin.fetchTopicOffsetsByTimestamp(topic, 0)
  assert(byTime.every((p) => p.offset === '0'))
  console.log('seek: ok')

  // One transaction commits, with offsets; one does not.
  const transactional = kafka.producer({ transactionalId: 'kafkajs-etl', idempotent: true, maxInFlightRequests: 1 })
  await transactional.connect()
  for (const commit of [true, false]) {
    const transaction = await transactional.transaction()
    await transaction.send({ topic: topic + '-out', messages: [{ value: `committed ${commit}`, partition: 0 }] })
    await transaction.sendOffsets({ consumerGroupId: 'kafkajs-etl', topics: [{ topic, partitions: [{ partition: 0, offset: commit ? '7' : '9' }] }] })
    await (commit ? transaction.commit() : transaction.abort())
  }
  await transactional.disconnect()
  const moved = await admin.fetchOffsets({ groupId: 'kafkajs-etl', topics: [topic] })
  assert.strictEqual(moved[0].partitions.find((p) => p.partition === 0).offset, '7')
  const got = []
  const check = kafka.consumer({ groupId: 'kafkajs-check', readUncommitted: false })
  await check.connect()
  await check.subscribe({ topics: [topic + '-out'], fromBeginning: true })
  await check.run({ eachMessage: async ({ message }) => { got.push(message.value.toString()) } })
  await until(() => got.length > 0, 'the transaction was not read')
  await check.disconnect()
  assert.deepStrictEqual(got, ['committed true'])
  console.log('transactions: ok')

  await admin.deleteGroups(['kafkajs', 'kafkajs-seek', 'kafkajs-etl', 'kafkajs-check'])
  await admin.deleteTopics({ topics: [topic, topic + '-out'] })
  await admin.disconnect()
}

main().catch((e) => { console.error(e); process.exit(1) })
