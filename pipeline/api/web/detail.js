// Draws one source, one topic, one sink, the list of topics and the audit.

import { h, count, bytes, span, when, retention, state, facts, table, spark } from './draw.js'
import { get, records } from './ask.js'
import { address, memberFacts, words, progress } from './line.js'
import { button, topicsOf } from './hands.js'

const maxRecords = 20
const shownText = 4000

// load reads what the status does not tell. It returns an object that the drawing below gets as more.
export const load = {
  sources: async name => ({ config: (await get(`sources/${encodeURIComponent(name)}/config`)).yaml }),
  sinks: async (name, live) => {
    const group = live.status?.sinks.find(m => m.name === name)?.group || name
    const [config, positions, letters] = await Promise.all([get(`sinks/${encodeURIComponent(name)}/config`), get(`groups/${encodeURIComponent(group)}`), get(`sinks/${encodeURIComponent(name)}/deadletters?max=100&values=true`)])
    return { config: config.yaml, group: positions, letters }
  },
  topics: async name => {
    if (!name) return {}
    const [topic, groups, latest] = await Promise.all([get('topics/' + encodeURIComponent(name)), get('groups'), records(name, maxRecords)])
    const id = latest.flatMap(r => r.headers || []).find(x => x.key === 'trunkline.schema')?.value
    const schemas = id ? await get('schemas/' + id).catch(() => []) : []
    return { topic, groups: groups.filter(g => g.partitions.some(p => p.topic === name)), latest, schemas }
  },
  audit: async () => ({ latest: await records('_trunkline.audit', 200) }),
}

const may = (live, ...buttons) => live.me.role === 'operator' ? h('div', { class: 'hands' }, buttons) : null

const gone = what => h('p', { class: 'note' }, `There is no ${what} here. `, h('a', { href: '#/' }, 'Back to the line'))

function head(m, live) {
  return [h('h1', {}, m.name), h('div', { class: 'top' }, h('span', { class: 'soft' }, m.role + ', ' + m.type), state(m), m.since && h('span', { class: 'soft' }, 'since ' + when(m.since))),
    facts(memberFacts(m)), words(m)]
}

const charts = (m, live) => h('div', { class: 'panels' },
  h('section', {}, h('h2', {}, 'Rows a second, last hour'), spark(live.history[m.role + '/' + m.name], 'r', 'rows a second', live.now, true)),
  h('section', {}, h('h2', {}, m.role === 'sink' ? 'Rows behind, last hour' : 'Lag in seconds, last hour'), spark(live.history[m.role + '/' + m.name], m.role === 'sink' ? 'n' : 's', m.role === 'sink' ? 'rows behind' : 'lag in seconds', live.now, true)))

const yaml = more => more.config !== undefined && h('section', {}, h('h2', {}, 'Configuration, without secrets'), h('pre', { tabindex: '0', role: 'region', 'aria-label': 'configuration' }, more.config || 'nothing'))

const flow = (m, target) => m.state === 'paused' || m.state === 'failed' || m.state === 'gap' || m.state === 'retrying'
  ? button('resume', 'Resume', target) : button('pause', 'Pause', target)

// flowOf is the button of one table.
const flowOf = (t, target) => t.state === 'paused' && (t.reason || '').startsWith('by a person')
  ? button('resume', 'Resume', target, 'Resume ' + t.name) : button('pause', 'Pause', target, 'Pause ' + t.name)

// tablesOf lists the topics that a sink reads, each as the table of its rows, and those of which there is something to say.
function tablesOf(m, live, target) {
  const said = m.tables || []
  const known = said.flatMap(t => topicsOf(m, t.name))
  const rows = [...said, ...(m.reads || []).filter(name => !known.includes(name)).map(name => ({ name, state: m.state }))]
  return table('Tables', ['<table', '<state', '<<reason', '<action'], rows.map(t => [t.name, state(t), t.reason || '', may(live, flowOf(t, { ...target, table: t.name })) || '']), 'there is no topic for it yet')
}

export function source(name, live, more) {
  const m = live.status.sources.find(s => s.name === name)
  if (!m) return gone('source ' + name)
  const target = { kind: 'sources', name }
  return [head(m, live), may(live, flow(m, target), button('resync', 'Resync all', target), m.schedule && button('extract', 'Extract now', target)), charts(m, live),
    h('h2', {}, 'Tables'), table('Tables', ['<table', '<topic', '<state', 'rows', '<<note', '<action'], (m.tables || []).map(t => [
      t.name, t.topic ? h('a', { href: address('topics', t.topic) }, t.topic) : 'none yet', state(t), count(t.rows),
      t.state === 'snapshot' ? progress(t) : t.reason || (t.snapshot_rows ? count(t.snapshot_rows) + ' rows read' : ''),
      may(live, flowOf(t, { ...target, table: t.name }), button('resync', 'Resync', { ...target, table: t.name }, 'Resync ' + t.name)) || '',
    ]), 'no table was seen yet'), yaml(more)]
}

const positions = (list, withTopic) => list.map(p => [withTopic ? h('a', { href: address('topics', p.topic) }, p.topic) : null, String(p.partition), p.committed < 0 ? 'none' : count(p.committed), count(p.end), count(p.lag)].filter(c => c !== null))

function text(t, base64) {
  if (t === null && !base64) return 'null'
  const all = t ?? '(base64) ' + base64
  return h('code', {}, all.length > shownText ? all.slice(0, shownText) + '…' : all)
}

const decode = base64 => base64 ? new TextDecoder().decode(Uint8Array.from(atob(base64), c => c.charCodeAt(0))) : null

const verified = v => [h('h2', {}, 'Last verification'), h('div', { class: 'note' }, v.problem ? h('p', { class: 'problem' }, v.problem) : null, facts([
  ['state', v.running ? 'running' : 'ended'], v.ended && ['ended', when(v.ended)], v.verified_through && ['verified through', when(v.verified_through)],
  ['tables', count(v.tables)], ['rows', count(v.rows)], ['keys that differ', count(v.different)]]))]

export function sink(name, live, more) {
  const m = live.status.sinks.find(s => s.name === name)
  if (!m) return gone('sink ' + name)
  const target = { kind: 'sinks', name }, letters = more.letters || { letters: [], waiting: 0, done: 0 }
  return [head(m, live),
    may(live, flow(m, target), button('verify', 'Verify', target), button('resync', 'Resync', target), button('reset', 'Move group', { kind: 'groups', name: m.group })),
    charts(m, live),
    h('h2', {}, 'Tables'), tablesOf(m, live, target),
    h('h2', {}, 'Group ' + m.group), table('Positions', ['<topic', 'partition', 'committed', 'end', 'behind'], positions(more.group?.partitions || [], true), 'nothing is committed yet'),
    m.verify ? verified(m.verify) : null,
    h('h2', {}, `Dead letters: ${count(letters.waiting)} wait, ${count(letters.done)} are done with`),
    letters.waiting > 0 && may(live, button('replay', 'Replay all', { ...target, table: letters.waiting }), button('discard', 'Discard all', { ...target, table: letters.waiting })),
    table('Dead letters that wait for somebody', ['id', '<time', '<topic', 'partition', 'offset', '<<reason', '<action', '<<key', '<<value'], letters.letters.map(r => [
      String(r.id), when(r.time), r.topic, String(r.partition), count(r.offset), r.reason,
      may(live, button('replayone', 'Replay', { ...target, table: r.id }, 'Replay dead letter ' + r.id), button('discardone', 'Discard', { ...target, table: r.id }, 'Discard dead letter ' + r.id)) || '',
      text(decode(r.key)), text(decode(r.value))]), 'none wait'),
    yaml(more)]
}

function schemas(list) {
  return [...list].reverse().map((v, i) => h('details', { class: 'note', 'data-key': 'schema' + v.id, open: i === 0 }, h('summary', {}, `version ${v.id} of ${v.table}` + (i === 0 ? ', the newest' : '')),
    v.changes.length ? h('ul', {}, v.changes.map(c => h('li', {}, c))) : h('p', { class: 'soft' }, 'the first version that the log has'),
    h('pre', { tabindex: '0', role: 'region', 'aria-label': 'columns of version ' + v.id }, v.columns.join('\n'))))
}

export function topic(name, live, more) {
  const t = live.status.topics.find(x => x.name === name), d = more.topic
  if (!t && !d) return gone('topic ' + name)
  return [h('h1', {}, name), t && facts([['records', count(t.records)], ['on disk', bytes(t.bytes)], ['segments', count(t.segments)], ['kept', retention(t)], t.retention_bytes > 0 && ['kept at most', bytes(t.retention_bytes) + ' a partition']]),
    h('h2', {}, 'Partitions'), table('Partitions', ['<partition', 'log start', 'end', 'records', 'on disk', 'segments', 'leader'], (d?.partitions || []).map(p => [
      String(p.partition), count(p.log_start), count(p.high_watermark), count(p.records), bytes(p.bytes), count(p.segments), p.leader === undefined ? 'this process' : String(p.leader)]), 'none'),
    h('h2', {}, 'Groups'), (more.groups || []).length ? more.groups.map(g => h('section', { 'data-key': 'group' + g.name },
      h('div', { class: 'top' }, h('b', {}, g.name), g.sink && h('a', { href: address('sinks', g.sink) }, 'sink ' + g.sink), h('span', { class: 'soft' }, count(g.members) + (g.members === 1 ? ' member' : ' members'))),
      may(live, button('reset', 'Move group', { kind: 'groups', name: g.name, table: name }, 'Move group ' + g.name)),
      table('Positions of ' + g.name, ['<partition', 'committed', 'end', 'behind'], positions(g.partitions.filter(p => p.topic === name), false), 'nothing is committed yet'))) : h('p', { class: 'note' }, 'nobody has committed a position'),
    h('h2', {}, 'Schema versions'), (more.schemas || []).length ? schemas(more.schemas) : h('p', { class: 'note' }, 'none: its records name no schema'),
    h('h2', {}, 'Last records'), table('The newest records', ['<time', 'partition', 'offset', '<<key', '<<value'], (more.latest || []).map(r => [
      when(r.timestamp), String(r.partition), count(r.offset), text(r.key, r.key_base64), text(r.value, r.value_base64)]), 'none'),
    d && [h('h2', {}, 'Settings'), table('Settings', ['<name', '<value'], Object.entries(d.config).sort(), 'none')]]
}

export function topics(live) {
  return [h('h1', {}, 'Topics'), table('All topics', ['<topic', 'partitions', 'records', 'on disk', 'segments', '<kept'], live.status.topics.map(t => [
    h('a', { href: address('topics', t.name) }, t.name), count(t.partitions), count(t.records), bytes(t.bytes), count(t.segments), retention(t)]), 'none yet')]
}

export function audit(live, more) {
  return [h('h1', {}, 'Who did what'), table('The newest first; all of it is in the topic _trunkline.audit', ['<time', '<who', '<from', '<what', '<<with', '<outcome'], (more.latest || []).map(r => {
    const e = JSON.parse(r.value)
    return [when(e.time), e.who, e.from, e.action, e.detail || '', e.error || 'done']
  }), 'nobody has done anything yet')]
}
