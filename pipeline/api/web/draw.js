// Makes and mends elements, and writes numbers for people.

const svgTags = new Set(['svg', 'path'])

// h makes an element. Children may be nested lists, and null is none.
export function h(tag, attributes, ...children) {
  const e = svgTags.has(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag)
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue
    if (name === 'width%') e.style.width = value + '%'
    else e.setAttribute(name, value === true ? '' : value)
  }
  e.append(...children.flat(Infinity).filter(c => c !== null && c !== undefined && c !== false && c !== ''))
  return e
}

// mend changes what differs and keeps the rest, so that focus, selection and scrolling outlive an update.
export function mend(old, next) {
  if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName || old.dataset?.key !== next.dataset?.key) {
    old.replaceWith(next)
    return
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data
    return
  }
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && name !== 'open') old.removeAttribute(name)
  for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value)
  mendChildren(old, [...next.childNodes])
}

export function mendChildren(parent, children) {
  const before = [...parent.childNodes]
  children.forEach((child, i) => before[i] ? mend(before[i], child) : parent.append(child))
  before.slice(children.length).forEach(e => e.remove())
}

export const count = n => Math.round(n || 0).toLocaleString('en-US').replaceAll(',', '\u2009')
export const rows = n => count(n) + (Math.round(n) === 1 ? ' row' : ' rows')
export const rate = n => (n > 0 && n < 10 ? n.toFixed(1) : count(n)) + '/s'

export function bytes(n) {
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (n < 1024) return (n < 10 && unit !== 'B' ? n.toFixed(1) : Math.round(n)) + ' ' + unit
    n /= 1024
  }
  return n.toFixed(1) + ' TiB'
}

export function span(s) {
  if (s < 10) return s.toFixed(1) + ' s'
  if (s < 120) return Math.round(s) + ' s'
  if (s < 7200) return Math.round(s / 60) + ' min'
  return s < 172800 ? (s / 3600).toFixed(1) + ' h' : Math.round(s / 86400) + ' days'
}

export const when = text => new Date(text).toLocaleString()
export const retention = t => t.retention_seconds ? span(t.retention_seconds) : 'for ever'

const moods = { standby: 'wait', opening: 'wait', retrying: 'wait', paused: 'wait', stopped: 'wait', gap: 'bad', failed: 'bad' }
export const mood = m => m.stalled ? 'bad' : moods[m.state] || ''
export const state = m => h('span', { class: 'state ' + mood(m) }, m.state)

export const facts = list => h('dl', { class: 'facts' }, list.filter(Boolean).map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))))

// table has a row of heads and rows of cells. A head that begins with < is one of text.
export function table(caption, heads, lines, none) {
  if (!lines.length) return h('p', { class: 'note' }, none)
  const text = heads.map(name => name.startsWith('<'))
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption }, h('table', {}, h('caption', {}, caption),
    h('thead', {}, h('tr', {}, heads.map((name, i) => h('th', { scope: 'col', class: text[i] ? 't' : '' }, name.replaceAll('<', ''))))),
    h('tbody', {}, lines.map(cells => h('tr', {}, cells.map((cell, i) => i
      ? h('td', { class: (text[i] ? 't' : '') + (heads[i].startsWith('<<') ? ' wrap' : '') }, cell)
      : h('th', { scope: 'row', class: text[i] ? 't' : '' }, cell)))))))
}

// spark draws the last hour. Each of the parts shows its highest point, so that no peak is lost.
export function spark(points, field, words, now, tall) {
  const parts = 120, hour = 3600, end = now, high = new Array(parts).fill(null)
  let top = 0
  for (const p of points || []) {
    const i = Math.floor((p.t - (end - hour)) / hour * parts)
    if (i < 0) continue
    const at = Math.min(i, parts - 1)
    high[at] = Math.max(high[at] ?? 0, p[field])
    top = Math.max(top, p[field])
  }
  const last = points?.length ? points[points.length - 1][field] : 0
  let d = '', begun = -1, to = 0
  high.forEach((v, i) => {
    if (v === null) return
    d += (begun < 0 ? 'M' : 'L') + i + ' ' + (39 - 37 * (top ? v / top : 0)).toFixed(1)
    if (begun < 0) begun = i
    to = i
  })
  if (begun >= 0 && begun === to) { // one part alone is a short dash
    d += 'h1'
    to++
  }
  const label = words + ', last hour: now ' + count(last) + ', at most ' + count(top)
  return h('svg', { class: 'spark' + (tall ? ' tall' : ''), viewBox: '0 0 ' + (parts - 1) + ' 40', preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
    d && h('path', { class: 'under', d: d + 'L' + to + ' 40L' + begun + ' 40Z' }), d && h('path', { d }))
}
