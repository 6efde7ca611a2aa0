// Shows what a person sees who looks at sources and sinks in trouble, over https: presses Pause on one sink, and then holds
// each page against what the command line said. Arguments: address, folder with node_modules, folder for screenshots,
// browser, name and password of an operator, and the states as JSON: [{kind, name, state, reason}].
import { createRequire } from 'node:module'

const [base, tools, shots, browserPath, name, password, wanted] = process.argv.slice(2)
const { chromium } = createRequire(tools + '/')('playwright-core')
const patience = 120000
const problems = []
const browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox', '--disable-dev-shm-usage'], timeout: patience })
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ignoreHTTPSErrors: true, reducedMotion: 'reduce' })
  const page = await context.newPage()
  page.setDefaultTimeout(patience)
  page.on('pageerror', e => problems.push(`${page.url()}: ${e.message}`))
  page.on('request', r => r.url().startsWith(base) || problems.push(`${page.url()} asks ${r.url()}`))
  await page.goto(base + '/')
  await page.getByLabel('Name').fill(name)
  await page.getByLabel('Password').fill(password)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'The line' }).waitFor()
  await page.getByText('live', { exact: true }).waitFor() // server-sent events
  const cookies = await context.cookies()
  if (!cookies.length || cookies.some(c => !c.secure || !c.httpOnly || c.sameSite !== 'Strict')) problems.push('cookies over https: ' + JSON.stringify(cookies.map(c => ({ ...c, value: '…' }))))
  const states = JSON.parse(wanted)
  for (const { kind, name, state, reason } of states) {
    await page.evaluate(to => { location.hash = '#/' + to }, `${kind}/${name}`)
    await page.getByRole('heading', { level: 1, name, exact: true }).waitFor()
    if (state === 'paused') {
      await page.getByRole('button', { name: 'Pause', exact: true }).first().click()
      await page.getByRole('dialog').locator('button.main').click()
    }
    await page.locator('.top .state', { hasText: state }).waitFor()
    await page.locator('p.reason', { hasText: reason }).first().waitFor()
    await page.screenshot({ path: `${shots}/state-${state}.png` })
  }
  await page.evaluate(() => { location.hash = '#/' })
  await page.getByRole('heading', { name: 'The line' }).waitFor()
  for (const { state } of states) await page.locator('.card .state', { hasText: state }).first().waitFor()
  await page.screenshot({ path: `${shots}/states-line.png`, fullPage: true })
} catch (e) {
  problems.push(String(e.message).slice(0, 2000))
}
await browser.close()
for (const p of new Set(problems)) console.log(p)
process.exit(problems.length ? 1 : 0)
