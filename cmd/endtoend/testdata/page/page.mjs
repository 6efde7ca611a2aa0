// Opens every page of a daemon in a headless browser, presses every button, and holds each page against axe, against the
// width of the window and against requests to other hosts. Arguments: address, folder with node_modules, folder for
// screenshots, browser, name and password of an operator.
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'

const [base, tools, shots, browserPath, name, password] = process.argv.slice(2)
const require = createRequire(tools + '/')
const { chromium } = require('playwright-core')
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8')
const patience = 120000

const problems = []
const browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox', '--disable-dev-shm-usage'], timeout: patience })

async function open(width, scheme) {
  const context = await browser.newContext({ viewport: { width, height: width < 500 ? 800 : 1300 }, colorScheme: scheme, reducedMotion: 'reduce' })
  const page = await context.newPage()
  page.setDefaultTimeout(patience)
  page.on('pageerror', e => problems.push(`${page.url()}: ${e.message}`))
  page.on('console', m => m.type() === 'error' && !/status of 401/.test(m.text()) && problems.push(`${page.url()}: ${m.text()}`))
  page.on('request', r => r.url().startsWith(base) || problems.push(`${page.url()} asks ${r.url()}`))
  return page
}

async function look(page, what, width, scheme) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
  if (wide > 0) problems.push(`${what} at ${width}: ${wide} pixels too wide`)
  await page.evaluate(axe)
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }))
  for (const v of found.violations) problems.push(`${what} at ${width} ${scheme}: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map(n => n.target + ' ' + n.failureSummary).join('; ')}`)
  await page.screenshot({ path: `${shots}/${what}-${width}-${scheme}.png`, fullPage: width < 500 })
}

async function login(page) {
  await page.goto(base + '/')
  await page.getByLabel('Name').fill(name)
  await page.getByLabel('Password').fill(password)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'The line' }).waitFor()
}

const pages = { line: ['', 'The line'], topics: ['topics', 'Topics'], source: ['sources/shop', 'shop'], sink: ['sinks/copy', 'copy'], topic: ['topics/shop.main.orders', 'shop.main.orders'], audit: ['audit', 'Who did what'] }

// go opens a page and waits until what it reads beside the status is there.
async function go(page, path, title) {
  await page.evaluate(to => { location.hash = '#/' + to }, path)
  await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor()
}

async function press(page, button, says, before) {
  await page.getByRole('button', { name: button, exact: typeof button === 'string' }).first().click()
  const dialog = page.getByRole('dialog')
  await dialog.waitFor()
  if (!says.test(await dialog.innerText())) problems.push(`${button} says ${await dialog.innerText()}`)
  if (before) await before(dialog)
  await dialog.locator('button.main').focus()
  await page.keyboard.press('Enter')
  return dialog
}

const done = (page, text) => page.locator('#toast', { hasText: text }).waitFor()

try {
  const page = await open(1280, 'light')
  await page.goto(base + '/')
  await look(page, 'login', 1280, 'light')
  await page.getByLabel('Name').fill(name)
  await page.getByLabel('Password').fill('wrong ' + password)
  await page.keyboard.press('Enter')
  await page.getByRole('alert').waitFor()
  await login(page)
  await page.locator('#view', { hasText: 'shop.main.orders' }).waitFor()
  await page.locator('.wires path').first().waitFor({ state: 'attached' })

  await go(page, 'sinks/copy', 'copy')
  await page.getByRole('cell', { name: /CHECK constraint/ }).first().waitFor()
  await look(page, 'letters', 1280, 'light')
  await press(page, 'Replay all', /2 rows that the sink refused are written again/)
  await done(page, '0 rows were written, 2 stay dead letters')
  await press(page, /^Replay dead letter/, /1 row that the sink refused is written again/)
  await done(page, /^dead letter .* stays: .*CHECK constraint/)
  await press(page, /^Discard dead letter/, /1 row is given up/)
  await done(page, '1 dead letter was discarded')
  await page.getByRole('heading', { name: 'Dead letters: 1 wait, 1 are done with' }).waitFor()
  await press(page, 'Discard all', /1 row is given up/)
  await done(page, '1 dead letter was discarded')
  await press(page, 'Pause shop.main.orders', /Its topic has .* rows?; what the sink has not read of them waits/)
  await done(page, 'paused table shop.main.orders of sink copy')
  await press(page, 'Resume shop.main.orders', /It is paused by a person/)
  await done(page, 'resumed table shop.main.orders of sink copy')
  await press(page, 'Pause', /rows? a second are written now, and .* wait/)
  await done(page, 'paused sink copy')
  await page.locator('.state', { hasText: 'paused' }).waitFor()
  await look(page, 'paused', 1280, 'light')
  await press(page, 'Move group', /Move group copy/, async dialog => {
    if (await dialog.locator('button.main').isEnabled()) problems.push('a group can be moved without a preview')
    await dialog.getByRole('button', { name: 'Preview' }).click()
    await dialog.getByText(/records are read again/).waitFor()
    await look(page, 'preview', 1280, 'light')
  })
  await done(page, 'moved group copy')
  await press(page, 'Resume', /It is paused/)
  await done(page, 'resumed sink copy')
  await page.locator('.state', { hasText: 'caught up' }).first().waitFor()
  const verdict = await press(page, 'Verify', /are read by ranges/)
  await verdict.locator('.answer .problem, .answer table, .answer .note').first().waitFor()
  await page.keyboard.press('Escape')
  await press(page, 'Resync', /writes .* rows again/)
  await done(page, 'resync begins: sink copy')
  await go(page, 'sources/shop', 'shop')
  await press(page, 'Resync all', /are read from the server/)
  await done(page, 'resync begins: source shop')
  await press(page, 'Resync main.orders', /Read table main.orders anew/)
  await done(page, 'resync begins: table main.orders')
  await press(page, 'Pause main.orders', /is read and waits in the log/)
  await done(page, 'paused table main.orders of source shop')
  await look(page, 'pausedtable', 1280, 'light')
  await press(page, 'Resume main.orders', /What waits comes first/)
  await done(page, 'resumed table main.orders of source shop')
  await go(page, 'sources/nightly', 'nightly')
  await press(page, 'Extract now', /The next run would begin/)
  await done(page, 'extracted source nightly')
  await go(page, 'audit', 'Who did what')
  for (const act of ['log in', 'deadletters/replay', 'deadletters/discard', 'sinks/copy/pause', 'groups/copy/reset', 'sinks/copy/resume', 'sinks/copy/verify', 'sources/shop/main.orders/resync', 'sources/shop/main.orders/pause', 'sinks/copy/shop.main.orders/resume', 'sources/nightly/extract']) {
    await page.getByRole('row').filter({ hasText: act }).filter({ hasText: name }).first().waitFor()
  }

  const jar = await page.context().storageState()
  for (const [width, scheme] of [[360, 'light'], [360, 'dark'], [2560, 'light'], [2560, 'dark']]) {
    const other = await open(width, scheme)
    await other.context().addCookies(jar.cookies)
    await other.goto(base + '/')
    for (const [what, [path, title]] of Object.entries(pages)) {
      await go(other, path, title)
      if (what === 'topic') await other.getByText('the newest', { exact: false }).first().waitFor()
      if (what === 'sink' || what === 'source') await other.getByRole('heading', { name: 'Configuration, without secrets' }).waitFor()
      await look(other, what, width, scheme)
    }
    await other.context().close()
  }

  await go(page, '', 'The line')
  await page.keyboard.press('Tab')
  await page.getByRole('button', { name: 'Log out' }).click()
  await page.getByLabel('Password').waitFor()
} catch (e) {
  problems.push(String(e.message).slice(0, 2000))
}
await browser.close()
for (const p of new Set(problems)) console.log(p)
process.exit(problems.length ? 1 : 0)
