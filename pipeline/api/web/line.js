// Draws the line: sources, topics, sinks, and what connects them.

import { h, count, rate, bytes, span, retention, state, mood, facts, spark } from './draw.js'

const shownTopics = 60

export const address = (kind, name) => '#/' + kind + '/' + encodeURIComponent(name)

export function memberFacts(m) {
  return [
    ['rate', rate(m.rows_per_second)],
    m.role === 'sink' && ['behind', count(m.lag_rows) + ' rows'],
    ['lag', m.lag_seconds > 0.05 ? span(m.lag_seconds) : 'none'],
    ['rows', count(m.rows)],
    m.retained_bytes > 0 && ['held back on the server', bytes(m.retained_bytes)],
    m.dead_letters > 0 && ['dead letters', count(m.dead_letters)],
    m.lost > 0 && ['lost to retention', count(m.lost)],
    m.unrepresentable > 0 && ['values that did not fit', count(m.unrepresentable)],
    m.waiting_rows > 0 && ['waiting', count(m.waiting_rows) + ' rows'],
    m.unseen_rows > 0 && ['without a cursor', count(m.unseen_rows) + ' rows'],
    m.next_run && ['next run', new Date(m.next_run).toLocaleString()],
    m.missed_runs > 0 && ['missed runs', count(m.missed_runs)],
    m.retry_at && ['tries again', new Date(m.retry_at).toLocaleTimeString()],
  ]
}

export function words(m) {
  return [
    m.reason && h('p', { class: 'reason' }, m.reason),
    !m.reason && m.last_error && h('p', { class: 'reason soft' }, 'last error ' + new Date(m.last_error_at).toLocaleTimeString() + ': ' + m.last_error),
    m.warning && h('p', { class: 'reason' }, m.warning),
  ]
}

export function progress(t) {
  const done = t.snapshot_rows || 0
  const text = count(done) + (t.snapshot_total ? ' of about ' + count(t.snapshot_total) : '') + ' rows, ' + rate(t.rows_per_second) + (t.seconds_left ? ', ' + span(t.seconds_left) + ' left' : '')
  if (!t.snapshot_total) return text
  return [text, h('div', { class: 'progress', role: 'progressbar', 'aria-label': 'snapshot of ' + t.name, 'aria-valuemin': '0', 'aria-valuemax': '100', 'aria-valuenow': String(Math.min(100, Math.round(100 * done / t.snapshot_total))) },
    h('i', { 'width%': Math.min(100, 100 * done / t.snapshot_total) }))]
}

function member(m, live) {
  const kind = m.role + 's'
  const busy = (m.tables || []).filter(t => t.state === 'snapshot' || t.state === 'failed' || t.state === 'paused' && m.state !== 'paused')
  return h('article', { class: 'card ' + mood(m), 'data-key': kind + '/' + m.name, 'data-node': m.role + '/' + m.name },
    h('div', { class: 'top' }, h('a', { href: address(kind, m.name) }, m.name), h('span', { class: 'soft' }, m.type), state(m)),
    facts(memberFacts(m)), words(m),
    busy.map(t => h('div', { class: 'reason' }, t.name + ' ', state(t), ' ', t.state === 'snapshot' ? progress(t) : t.reason)),
    spark(live.history[m.role + '/' + m.name], 'r', 'rows a second of ' + m.name, live.now))
}

function topic(t) {
  const shown = Math.min(t.partitions, 64)
  return h('article', { class: 'card', 'data-key': 'topics/' + t.name, 'data-node': 'topic/' + t.name },
    h('div', { class: 'top' }, h('a', { href: address('topics', t.name) }, t.name)),
    facts([['records', count(t.records)], ['partitions', count(t.partitions)], ['on disk', bytes(t.bytes)], ['segments', count(t.segments)], ['kept', retention(t)]]),
    h('div', { class: 'cells', 'aria-hidden': 'true' }, Array.from({ length: shown }, () => h('i', { class: t.records ? 'some' : '' }))))
}

const column = (title, list, none) => h('section', { class: 'column', 'aria-label': title }, h('h2', {}, title), list.length ? list : h('p', { class: 'note soft' }, none))

export function summary(s) {
  const up = s.started ? h('li', {}, 'running for ', h('b', {}, span((Date.parse(s.time) - Date.parse(s.started)) / 1000))) : h('li', {}, h('b', {}, 'not running'))
  return h('ul', { class: 'summary' }, up,
    h('li', {}, 'log ', h('b', {}, bytes(s.log.bytes)), ' in ', h('b', {}, count(s.log.segments) + ' segments')),
    h('li', {}, h('b', {}, count(s.topics.length)), s.topics.length === 1 ? ' topic' : ' topics'),
    h('li', {}, 'in ', h('b', {}, rate(s.sources.reduce((n, m) => n + m.rows_per_second, 0)))),
    h('li', {}, 'out ', h('b', {}, rate(s.sinks.reduce((n, m) => n + m.rows_per_second, 0)))))
}

export function line(live) {
  const s = live.status
  const topics = s.topics.slice(0, shownTopics).map(topic)
  if (s.topics.length > shownTopics) topics.push(h('p', {}, h('a', { href: '#/topics' }, 'and ' + count(s.topics.length - shownTopics) + ' more')))
  return [h('h1', {}, 'The line'), summary(s), h('div', { class: 'line', id: 'line' },
    h('svg', { class: 'wires', 'aria-hidden': 'true' }),
    column('Sources', s.sources.map(m => member(m, live)), 'none configured'),
    column('Topics', topics, 'none yet'),
    column('Sinks', s.sinks.map(m => member(m, live)), 'none configured'))]
}

// wires connects what is drawn. It measures, so it comes after every change of the view.
export function wires(s) {
  const box = document.getElementById('line')
  if (!box) return
  const frame = box.getBoundingClientRect(), nodes = new Map()
  for (const e of box.querySelectorAll('[data-node]')) nodes.set(e.dataset.node, e.getBoundingClientRect())
  const paths = []
  const wire = (from, to, moving) => {
    const a = nodes.get(from), b = nodes.get(to)
    if (!a || !b) return
    const x1 = a.right - frame.left, x2 = b.left - frame.left, y1 = a.top + a.height / 2 - frame.top, y2 = b.top + b.height / 2 - frame.top, bend = (x2 - x1) / 2
    paths.push(h('path', { class: moving ? 'moving' : '', d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` }))
  }
  for (const m of s.sources) for (const t of m.tables || []) if (t.topic) wire('source/' + m.name, 'topic/' + t.topic, m.rows_per_second > 0)
  for (const m of s.sinks) for (const t of m.reads || []) wire('topic/' + t, 'sink/' + m.name, m.rows_per_second > 0)
  const svg = box.querySelector('.wires')
  const before = [...svg.childNodes]
  paths.forEach((p, i) => {
    if (!before[i]) svg.append(p)
    else for (const name of ['class', 'd']) if (before[i].getAttribute(name) !== p.getAttribute(name)) before[i].setAttribute(name, p.getAttribute(name))
  })
  before.slice(paths.length).forEach(e => e.remove())
}
