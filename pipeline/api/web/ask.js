// Talks to the API.

// ask makes one request. Its error is in the words of the server.
export async function ask(method, path, body) {
  const answer = await fetch('api/' + path, { method, cache: 'no-store', headers: body ? { 'Content-Type': 'application/json' } : {}, body: body ? JSON.stringify(body) : undefined })
  if (answer.status === 401) location.assign('login')
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error || 'status ' + answer.status)
  return answer
}

export const get = async path => (await ask('GET', path)).json()

// lines calls each for every line of JSON of an answer, as it arrives.
export async function lines(answer, each) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { value, done } = await reader.read()
    const parts = (rest + (value || '')).split('\n')
    rest = parts.pop()
    for (const part of parts) if (part) each(JSON.parse(part))
    if (done) return
  }
}

// records returns the newest records of a topic, newest first; none of an internal topic that is not there yet.
export async function records(name, most) {
  if (name.startsWith('_') && !(await get('topics?internal')).some(t => t.name === name)) return []
  const t = await get('topics/' + encodeURIComponent(name))
  const all = []
  await Promise.all(t.partitions.map(async p => {
    if (p.last_stable <= p.log_start) return
    const offset = Math.max(p.log_start, p.last_stable - most)
    await lines(await ask('GET', `topics/${encodeURIComponent(name)}/records?partition=${p.partition}&offset=${offset}&max=${most}`), r => {
      if (r.error) throw new Error(r.error)
      all.push(r)
    })
  }))
  return all.sort((a, b) => b.timestamp - a.timestamp || b.offset - a.offset).slice(0, most)
}
