// Keeps the page live: hears the status, reads what a page needs beside it, and draws.

import { h, mendChildren } from './draw.js'
import { ask, get } from './ask.js'
import { line, wires } from './line.js'
import * as detail from './detail.js'
import { begin, toast } from './hands.js'

const hour = 3600
const pointEvery = 5
const loadEvery = 5000

const live = { status: null, history: {}, me: { role: 'read' }, now: 0 }
let more = {}
let route = { kind: '', name: '' }

const byId = id => document.getElementById(id)

function parse() {
  const [, kind = '', name = ''] = location.hash.split('/')
  return { kind, name: decodeURIComponent(name) }
}

function view() {
  switch (route.kind) {
    case 'sources': return detail.source(route.name, live, more)
    case 'sinks': return detail.sink(route.name, live, more)
    case 'topics': return route.name ? detail.topic(route.name, live, more) : detail.topics(live)
    case 'audit': return detail.audit(live, more)
  }
  return line(live)
}

function draw() {
  if (!live.status) return
  mendChildren(byId('view'), [h('div', { 'data-key': route.kind + '/' + route.name }, view())])
  wires(live.status)
}

function navigation() {
  const pages = [['', 'Line'], ['topics', 'Topics'], ['audit', 'Audit']]
  mendChildren(byId('nav'), pages.map(([kind, text]) => h('a', { href: '#/' + kind, 'aria-current': kind === route.kind && !route.name && 'page' }, text)))
  document.title = (route.name || pages.find(p => p[0] === route.kind)?.[1] || 'Line') + ' · Trunkline'
}

let loading = 0
async function load() {
  const mine = ++loading
  const read = detail.load[route.kind]
  if (!read) return
  try {
    const found = await read(route.name, live)
    if (mine !== loading) return
    more = found
    draw()
  } catch (e) {
    if (mine === loading && !byId('dialog').open) toast(e.message)
  }
}

function go() {
  route = parse()
  more = {}
  navigation()
  draw()
  load()
}

function remember(s) {
  live.now = Date.parse(s.time) / 1000
  for (const m of [...s.sources, ...s.sinks]) {
    const points = live.history[m.role + '/' + m.name] ||= []
    if (points.length && live.now - points[points.length - 1].t < pointEvery) continue
    points.push({ t: live.now, r: m.rows_per_second, n: m.lag_rows, s: m.lag_seconds })
    while (points[0].t < live.now - hour) points.shift()
  }
}

function say(text, bad) {
  if (byId('link').textContent === text) return
  byId('link').textContent = text
  byId('link').className = bad ? 'bad' : ''
}

function listen() {
  const events = new EventSource('api/events')
  events.addEventListener('status', event => {
    const first = !live.status
    live.status = JSON.parse(event.data)
    remember(live.status)
    say(live.status.draining ? 'it was told to stop' : 'live')
    draw()
    if (first) load()
  })
  events.addEventListener('problem', event => say(JSON.parse(event.data).error, true))
  events.addEventListener('error', () => {
    say('no answer from the daemon, trying again', true)
    if (events.readyState !== EventSource.CLOSED) return
    get('me').catch(() => {}) // goes to the login if that is why
    setTimeout(listen, 3000)
  })
}

async function start() {
  try {
    live.me = await get('me')
    live.history = await get('history')
  } catch (e) {
    say(e.message, true)
  }
  if (live.me.name) {
    const leave = h('button', { type: 'button' }, 'Log out')
    leave.addEventListener('click', async () => {
      await ask('POST', 'logout').catch(() => {})
      location.assign('login')
    })
    byId('me').replaceChildren(h('span', {}, live.me.name + ' (' + live.me.role + ')'), leave)
  }
  listen()
  setInterval(() => document.hidden || load(), loadEvery)
}

addEventListener('hashchange', () => {
  go()
  byId('main').focus()
  scrollTo(0, 0)
})
addEventListener('resize', () => live.status && wires(live.status))
document.addEventListener('click', event => {
  const b = event.target.closest('button[data-verb]')
  if (b) begin(b, live)
  if (event.target.closest('[data-skip]')) {
    event.preventDefault()
    byId('main').focus()
  }
})

say('connecting')
go()
start()
