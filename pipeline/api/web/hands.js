// What a person can do: each says in numbers what it will do, and asks.

import { h, mendChildren, count, rows, bytes, span, when, table } from './draw.js'
import { ask, lines } from './ask.js'

const dialog = () => document.getElementById('dialog')

export function toast(text) {
  const e = document.getElementById('toast')
  e.textContent = text
  clearTimeout(toast.timer)
  toast.timer = setTimeout(() => { e.textContent = '' }, 12000)
}

// button begins a hand. A label says what it is about where the text alone would not.
export const button = (verb, text, target, label) => h('button', { type: 'button', 'data-verb': verb, 'data-kind': target.kind, 'data-name': target.name, 'data-table': target.table, 'data-key': verb + target.name + (target.table || ''), 'aria-label': label }, text)

const find = (live, kind, name) => (live.status[kind] || []).find(m => m.name === name)
const recordsOf = (live, names) => live.status.topics.filter(t => names.includes(t.name)).reduce((n, t) => n + t.records, 0)
export const topicsOf = (m, table) => (m.reads || []).filter(name => name === table || name.endsWith('.' + table))
const path = (kind, ...parts) => [kind, ...parts.map(encodeURIComponent)].join('/')

function target(b) { return { kind: b.dataset.kind, name: b.dataset.name, table: b.dataset.table } }

// plans says for each verb what it will do.
const plans = {
  pause: (t, live) => {
    const m = find(live, t.kind, t.name)
    if (t.table) {
      const waiting = (m.tables || []).find(x => x.name === t.table)
      return {
        title: `Pause table ${t.table} of ${m.role} ${m.name}?`,
        says: m.role === 'source'
          ? [`What changes in it is read and waits in the log (${count(waiting?.rows || 0)} rows came through since the start); the other tables go on. Its topic gets it all, in order, when somebody resumes it.`]
          : [`Its topic has ${rows(recordsOf(live, topicsOf(m, t.table)))}; what the sink has not read of them waits there until somebody resumes it. The other tables go on.`],
        yes: 'Pause', run: simple(t, 'pause'),
      }
    }
    return {
      title: `Pause ${m.role} ${m.name}?`,
      says: m.role === 'source'
        ? [`${count(m.rows_per_second)} rows a second come through now; none will until somebody resumes it.`, m.retained_bytes ? `Its server keeps ${bytes(m.retained_bytes)} of change log for it, and that grows while it is paused.` : 'Nothing is lost: it goes on where it stopped.']
        : [`${count(m.rows_per_second)} rows a second are written now, and ${rows(m.lag_rows)} wait in the log; that grows until somebody resumes it.`, 'The log keeps what it has not read.'],
      yes: 'Pause', run: simple(t, 'pause'),
    }
  },
  resume: (t, live) => {
    const m = find(live, t.kind, t.name)
    if (t.table) {
      const reason = (m.tables || []).find(x => x.name === t.table)?.reason
      return {
        title: `Resume table ${t.table} of ${m.role} ${m.name}?`,
        says: [`It is paused${reason ? ' ' + reason : ''}.`, 'What waits comes first, in order, and then what changes now. The ' + m.role + ' starts anew for that, and goes on where it is.'],
        yes: 'Resume', run: simple(t, 'resume'),
      }
    }
    return {
      title: `Resume ${m.role} ${m.name}?`,
      says: [`It is ${m.state}` + (m.reason ? `: ${m.reason}` : '.'), m.role === 'sink' ? `${rows(m.lag_rows)} wait for it.` : `It goes on where it stopped, after ${rows(m.rows)}.`],
      yes: 'Resume', run: simple(t, 'resume'),
    }
  },
  resync: (t, live) => {
    const m = find(live, t.kind, t.name)
    if (m.role === 'sink') {
      return {
        title: `Let sink ${m.name} read its topics anew?`,
        says: [`It begins at the start of ${count((m.reads || []).length)} topics and writes ${rows(recordsOf(live, m.reads || []))} again.`, 'A sink that writes by key ends up with the same rows; one that appends gets them twice.'],
        yes: 'Resync', run: simple(t, 'resync'),
      }
    }
    const tables = (m.tables || []).filter(x => !t.table || x.name === t.table)
    const expected = tables.reduce((n, x) => n + (x.snapshot_total || recordsOf(live, [x.topic])), 0)
    return {
      title: `Read ${t.table ? 'table ' + t.table : 'all tables of ' + m.name} anew?`,
      says: [`About ${rows(expected)} of ${count(tables.length)} ${tables.length === 1 ? 'table' : 'tables'} are read from the server and go through the log to every sink once more. The stream goes on.`],
      yes: 'Resync', run: simple(t, 'resync'),
    }
  },
  extract: (t, live) => {
    const m = find(live, t.kind, t.name)
    return {
      title: `Extract from ${m.name} now?`,
      says: [`${count((m.tables || []).length)} tables are read from where the last run ended.` + (m.last_run ? ` The last run began ${when(m.last_run)} and took ${span(m.last_run_seconds || 0)}.` : ''), m.next_run ? `The next run would begin ${when(m.next_run)}.` : '', m.waiting_rows ? `${rows(m.waiting_rows)} were left for this run.` : ''],
      yes: 'Extract', run: async () => (await (await ask('POST', path(t.kind, t.name, 'extract') + '?wait=no')).json()).done,
    }
  },
  verify: (t, live) => {
    const m = find(live, t.kind, t.name)
    return {
      title: `Compare ${m.name} with its sources?`,
      says: [`The tables of ${count((m.reads || []).length)} topics, with ${count(recordsOf(live, m.reads || []))} records in the log, are read by ranges in the source and in the target. Both can go on meanwhile.`],
      fields: () => h('label', { class: 'check' }, h('input', { type: 'checkbox', id: 'repair' }), 'send the rows that differ through the log again'),
      yes: 'Verify', run: () => verify(t, document.getElementById('repair').checked),
    }
  },
  replay: t => ({
    title: `Replay ${count(t.table)} dead letters of ${t.name}?`,
    says: [`${rows(t.table)} that the sink refused ${Number(t.table) === 1 ? 'is' : 'are'} written again, each unless a newer record of its key has superseded it. What is refused again stays a dead letter.`],
    yes: 'Replay', run: async () => {
      let written = 0, left = 0, after
      do {
        const got = await (await ask('POST', path(t.kind, t.name, 'deadletters', 'replay'), { all: true, after })).json()
        written += got.written + got.earlier
        left += (got.left || []).length + (got.refused || []).length
        after = got.next
      } while (after >= 0)
      return `${count(written)} rows were written, ${count(left)} stay dead letters`
    },
  }),
  discard: t => ({
    title: `Discard ${count(t.table)} dead letters of ${t.name}?`,
    says: [`${rows(t.table)} ${Number(t.table) === 1 ? 'is' : 'are'} given up for the sink. They stay in the topic of dead letters until retention takes them.`],
    yes: 'Discard', run: () => discard(t, { all: true }),
  }),
  replayone: t => ({
    title: `Replay dead letter ${t.table} of ${t.name}?`,
    says: ['1 row that the sink refused is written again, unless a newer record of its key has superseded it. If it is refused again it stays a dead letter.'],
    yes: 'Replay', run: async () => {
      const got = await (await ask('POST', path(t.kind, t.name, 'deadletters', 'replay'), { ids: [Number(t.table)] })).json()
      if (got.written + got.earlier > 0) return `dead letter ${t.table} was written`
      const why = [...(got.refused || []), ...(got.left || [])].map(x => x.reason).filter(Boolean).join('; ')
      return `dead letter ${t.table} stays` + (why ? ': ' + why : '')
    },
  }),
  discardone: t => ({
    title: `Discard dead letter ${t.table} of ${t.name}?`,
    says: ['1 row is given up: it will not get into the sink. It stays in the topic of dead letters until retention takes it.'],
    yes: 'Discard', run: () => discard(t, { ids: [Number(t.table)] }),
  }),
  reset: t => ({
    title: `Move group ${t.name}?`,
    says: ['The readers of this group go on at other offsets. Pause the sink first if it runs.'],
    fields: () => [
      h('label', {}, h('span', {}, 'to: earliest, latest, an offset, or a time such as 2026-01-30T12:00:00Z'), h('input', { id: 'to', value: 'earliest', autocomplete: 'off' })),
      h('label', {}, h('span', {}, 'topic (empty: all in which it has committed)'), h('input', { id: 'topic', value: t.table || '', autocomplete: 'off' })),
    ],
    preview: async () => moves(await (await ask('POST', path('groups', t.name, 'reset'), { ...where(), dry_run: true })).json()),
    yes: 'Move', run: async () => {
      const done = await (await ask('POST', path('groups', t.name, 'reset'), where())).json()
      return `moved group ${t.name} in ${count(done.length)} partitions`
    },
  }),
}

async function discard(t, which) {
  const n = (await (await ask('POST', path(t.kind, t.name, 'deadletters', 'discard'), which)).json()).discarded
  return n === 1 ? '1 dead letter was discarded' : `${count(n)} dead letters were discarded`
}

const where = () => ({ to: document.getElementById('to').value.trim(), topic: document.getElementById('topic').value.trim() || undefined })

function simple(t, verb) {
  return async () => (await (await ask('POST', path(t.kind, ...(t.table ? [t.name, t.table] : [t.name]), verb))).json()).done
}

function moves(list) {
  let again = 0, skipped = 0
  for (const m of list) {
    const from = Math.max(m.from, 0)
    if (m.to < from) again += from - m.to
    else skipped += m.to - from
  }
  return [h('p', {}, `${count(again)} records are read again, ${count(skipped)} are skipped:`),
    table('What moves', ['<topic', 'partition', 'from', 'to'], list.map(m => [m.topic, String(m.partition), m.from < 0 ? 'nothing committed' : count(m.from), count(m.to)]), 'nothing moves')]
}

async function verify(t, repair) {
  const results = []
  let problem = ''
  await lines(await ask('POST', path(t.kind, t.name, 'verify'), { repair }), l => {
    if (l.error) problem = l.error
    if (l.result) results.push(l.result)
    if (l.progress) say(h('p', {}, `${l.progress.table}: ${l.progress.step}` + (l.progress.parts ? ` (${l.progress.part} of ${l.progress.parts})` : '')))
  })
  if (problem) throw new Error(problem)
  say(table('What was found', ['<table', 'rows', 'differ', 'repaired', '<<keys'], results.map(r => [r.source + '/' + r.table, count(r.rows), r.problem ? 'not compared' : count((r.different || []).length), count(r.repaired),
    r.problem || (r.different || []).slice(0, 20).map(d => d.kind + ' ' + d.key + (d.columns ? ': ' + d.columns.join(', ') : '')).join(' · ')]), 'there was no table to compare'))
  return null
}

const say = (...content) => mendChildren(dialog().querySelector('.answer'), content.flat())

// begin opens the dialog of a hand.
export function begin(b, live) {
  const plan = plans[b.dataset.verb](target(b), live)
  const box = dialog()
  const yes = h('button', { type: 'submit', class: 'main' }, plan.yes)
  const no = h('button', { type: 'button' }, 'Cancel')
  const preview = plan.preview && h('button', { type: 'button', id: 'preview' }, 'Preview')
  const form = h('form', { method: 'dialog' }, h('h2', { id: 'dialog-title' }, plan.title), plan.says.filter(Boolean).map(text => h('p', {}, text)),
    plan.fields ? plan.fields() : null, h('div', { class: 'answer', role: 'status' }), h('div', { class: 'hands' }, no, preview, yes))
  box.replaceChildren(form)
  no.addEventListener('click', () => box.close())
  const attempt = async work => {
    for (const e of [yes, preview]) if (e) e.disabled = true
    try {
      return await work()
    } catch (e) {
      say(h('p', { class: 'problem' }, e.message))
      return undefined
    } finally {
      for (const e of [yes, preview]) if (e) e.disabled = false
    }
  }
  if (preview) {
    yes.disabled = true
    preview.addEventListener('click', async () => {
      const seen = await attempt(plan.preview)
      if (seen) say(...seen)
      else yes.disabled = true
    })
    form.addEventListener('input', () => { yes.disabled = true })
  }
  form.addEventListener('submit', async event => {
    event.preventDefault()
    const done = await attempt(plan.run)
    if (done === undefined) return
    if (done === null) { // the answer stands in the dialog
      yes.hidden = true
      no.textContent = 'Close'
      no.focus()
      return
    }
    box.close()
    toast(done)
  })
  box.showModal()
  ;(preview || no).focus()
}
