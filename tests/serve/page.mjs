// Does six tasks of a person on the page of `trainyard serve`, in headless Chromium, then looks at it
// at three widths in two themes. Run by tests/serve/page_test.sh.
//
//    node page.mjs PLAYWRIGHT CHROMIUM ADDRESS FOLDER_FOR_SCREENSHOTS
import assert from 'node:assert/strict';
import {readFile, writeFile} from 'node:fs/promises';
import {pathToFileURL} from 'node:url';

const [entry, executablePath, address, folder] = process.argv.slice(2);
const {chromium} = await import(pathToFileURL(entry));
const browser = await chromium.launch({executablePath, headless: true, args: ['--no-sandbox', '--disable-gpu']});
const context = await browser.newContext({viewport: {width: 1400, height: 900}, acceptDownloads: true});
await context.grantPermissions(['clipboard-read', 'clipboard-write']);
const page = await context.newPage();
const said = [];
page.on('console', (message) => message.type() === 'error' && said.push(message.text()));
page.on('pageerror', (error) => said.push(error.message));
page.on('request', (request) => request.url().startsWith(new URL(address).origin) || request.url().startsWith('data:') ||
  request.url().startsWith('blob:') || said.push('asked elsewhere: ' + request.url()));

const answers = async () => Number(await page.evaluate(() => document.body.dataset.answers ?? 0));
// Does something that changes the scenario, and waits for the answer.
async function answered(act) {
  const before = await answers();
  await act();
  await page.waitForFunction((count) => Number(document.body.dataset.answers ?? 0) > count, before, {timeout: 60_000});
}
const slide = (id, steps) => async () => {
  await page.focus('#' + id);
  for (let i = 0; i < Math.abs(steps); ++i) await page.keyboard.press(steps > 0 ? 'ArrowRight' : 'ArrowLeft');
};
const figure = (name) => page.locator('.figure', {has: page.locator('dt', {hasText: new RegExp('^' + name + '$')})}).locator('dd').innerText();
const scenario = async () => JSON.parse(await page.inputValue('#source'));

let tasks = 0;
async function task(name, act) {
  await act();
  tasks += 1;
  console.log(`ok   ${name}`);
}

await answered(() => page.goto(address));

await task('How long does a step of another layout take? The figures follow the control, within the page\'s own clock', async () => {
  const before = await figure('step');
  await answered(slide('control-parallelism-tensor', -1));
  assert.equal((await scenario()).parallelism.tensor, 4);
  assert.notEqual(await figure('step'), before);
  assert.ok(Number(await page.evaluate(() => document.body.dataset.latency)) > 0);
  assert.ok(!page.url().includes('token'), 'the token is not in the address that people copy');
});

await task('Does it fit, and what would? A step that does not fit is said, and a layout that fits is one button away', async () => {
  await answered(slide('control-training-micro_batch_size', 4));
  await page.waitForSelector('.verdict.fails');
  assert.ok(await page.locator('#memory .bar-row.over').count() > 0);
  await answered(() => page.click('#find-layout'));
  await page.waitForSelector('.verdict.fits', {timeout: 60_000});
});

await task('What would make it faster? Neighbours fill in, and one of them can be taken', async () => {
  await page.waitForFunction(() => Number(document.body.dataset.neighbours) > 0, null, {timeout: 30_000});
  const row = page.locator('#neighbours tbody tr').first();
  const step = await row.locator('td').first().innerText();
  await answered(() => row.getByRole('button').click());
  assert.equal(await figure('step'), step);
});

await task('Which of two is better? A is kept, and differences are marked on controls, figures and in a table', async () => {
  await page.click('#keep');
  await answered(slide('control-cluster-nic', -1));
  await page.waitForSelector('#compare-body tr.differs');
  assert.ok((await page.locator('#compare-body tr.differs').allInnerTexts()).some((text) => text.includes('nic')));
  assert.equal(await page.locator('.control.differs').count(), 1);
  assert.match(await page.locator('.figure').first().innerText(), /from A/);
});

await task('Do A and this slow each other on one cluster? Both run together, and the report can be taken along', async () => {
  await page.click('#together');
  await page.waitForSelector('#together-result tbody tr', {timeout: 60_000});
  const rows = await page.locator('#together-result tbody tr').allInnerTexts();
  assert.equal(rows.length, 2);
  assert.ok(rows.every((text) => /^(A|now)\s+[\d.]+ m?s\s+[\d.]+ m?s\s+[+-]?[\d.]+ %$/.test(text.trim())), rows.join('; '));
  const [download] = await Promise.all([page.waitForEvent('download'), page.locator('#together-result button').click()]);
  assert.equal(download.suggestedFilename(), 'jobs.html');
  assert.ok((await readFile(await download.path(), 'latin1')).startsWith('<!doctype html>'));
});

await task('Show it to a colleague: a link holds both scenarios, undo goes back, and files can be taken along', async () => {
  const step = await figure('step');
  const link = page.url();
  const other = await context.newPage();
  await other.goto(address);  // a colleague has a server and a token of his own
  await other.waitForFunction(() => document.body.dataset.ready === 'yes');
  await other.goto('about:blank');
  await other.goto(link);
  await other.waitForFunction(() => Number(document.body.dataset.answers ?? 0) > 0);
  assert.equal(await other.locator('.figure dd').first().innerText(), step);
  await other.waitForSelector('#compare:not([hidden])', {timeout: 60_000});
  await other.close();
  const before = await scenario();
  await answered(() => page.keyboard.press('Control+z'));
  assert.notDeepEqual(await scenario(), before);
  await answered(() => page.click('#redo'));
  assert.deepEqual(await scenario(), before);
  for (const [kind, name, begins] of [['scenario', 'scenario.json', '{'], ['page', 'report.html', '<!doctype html>'], ['trace', 'trace.json.gz', '\x1f\x8b']]) {
    await page.click('#downloads summary');
    const [download] = await Promise.all([page.waitForEvent('download'), page.click(`[data-download=${kind}]`)]);
    assert.equal(download.suggestedFilename(), name);
    const bytes = await readFile(await download.path(), 'latin1');
    assert.ok(bytes.startsWith(begins), `${name} begins with ${JSON.stringify(bytes.slice(0, 20))}`);
  }
});

await task('Simulate my own: a scenario and a config.json can be given, and what is wrong is said at its control', async () => {
  await page.click('#keep');  // drops A
  const own = {...await scenario(), description: 'my own'};
  own.parallelism.tensor = 3;
  await page.fill('#source', JSON.stringify(own));
  await answered(() => page.click('#apply'));
  assert.match(await page.innerText('#problems'), /tensor/);
  own.parallelism.tensor = 8;
  own.parallelism.data = 64 / (8 * own.parallelism.pipeline * (own.parallelism.context ?? 1));
  await writeFile(folder + '/own.json', JSON.stringify(own));
  await answered(() => page.setInputFiles('#file', folder + '/own.json'));
  assert.equal(await page.innerText('#problems'), '');
  await answered(() => page.setInputFiles('#file', process.env.TRAINYARD_CONFIG_JSON));
  assert.equal((await scenario()).model.layers, 32);
  await page.fill('#source', '{"model": ');
  await page.click('#apply');
  await page.waitForSelector('#problems:not(:empty)');
  assert.match(await page.innerText('#problems'), /no JSON/);
});

// A run that takes longer shows its progress, and can be cancelled; the next change simulates again.
await page.goto('about:blank');
await answered(() => page.goto(address));
const large = await scenario();
large.training.global_batch_size = 131072;  // tens of thousands of microbatches
await page.fill('#source', JSON.stringify(large));
await page.click('#apply');
await page.waitForSelector('#waiting:not([hidden])', {timeout: 20_000});
await page.click('#run-cancel');
await page.waitForSelector('#problems:not(:empty)');
assert.match(await page.innerText('#problems'), /cancelled/);
await answered(() => page.click('#undo'));
assert.equal(await page.innerText('#problems'), '');
console.log('ok   a long run can be cancelled');

// ---- how it looks

// Pairs of texts that lie on each other, and what is wider than the page.
const faults = () => page.evaluate(() => {
  const found = [];
  if (document.documentElement.scrollWidth > innerWidth) {
    const wide = [...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroller'));
    found.push(`the page is ${document.documentElement.scrollWidth} wide, at ${innerWidth}: ${wide.slice(0, 3).map((one) => one.tagName + '#' + one.id + '.' + one.className)}`);
  }
  const texts = [...document.querySelectorAll('label, legend, h1, h2, dt, dd, output, button, .bar-label, .bar-text, .figure small, .key, th, td')]
    .filter((one) => one.offsetParent && one.textContent.trim() && !one.closest('[hidden], .scroller, .menu div, dialog'));
  const sticky = document.getElementById('figures');
  for (let i = 0; i < texts.length; ++i) {
    const a = texts[i].getBoundingClientRect();
    for (let j = i + 1; j < texts.length; ++j) {
      if (texts[i].contains(texts[j]) || texts[j].contains(texts[i])) continue;
      if (sticky.contains(texts[i]) !== sticky.contains(texts[j])) continue;
      const b = texts[j].getBoundingClientRect();
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && high > 3) found.push(`"${texts[i].textContent.trim().slice(0, 30)}" lies on "${texts[j].textContent.trim().slice(0, 30)}"`);
    }
  }
  return found.slice(0, 5);
});

await page.goto('about:blank');
await answered(() => page.goto(address));
await page.click('#keep');
await answered(slide('control-training-micro_batch_size', 1));
await page.waitForFunction(() => Number(document.body.dataset.neighbours) > 0, null, {timeout: 30_000});
let looks = 0;
for (const theme of ['light', 'dark']) {
  if (await page.evaluate(() => document.documentElement.dataset.theme) !== theme) await page.click('#theme');
  for (const width of [400, 900, 1400]) {
    await page.setViewportSize({width, height: 900});
    await page.evaluate(() => scrollTo(0, 0));
    await page.waitForTimeout(150);
    assert.deepEqual(await faults(), [], `${theme} at ${width}`);
    await page.screenshot({path: `${folder}/serve-${width}-${theme}.png`, fullPage: true});
    looks += 1;
  }
}
await page.emulateMedia({media: 'print'});
assert.equal(await page.locator('#controls').isVisible(), false, 'a printed page has no controls');
await page.emulateMedia({media: 'screen'});

// Every control has a label, and can be reached by the keyboard.
const unlabelled = await page.evaluate(() => [...document.querySelectorAll('input, select, textarea, button, canvas')]
  .filter((one) => !(one.labels?.length || one.textContent.trim() || one.getAttribute('aria-label'))).map((one) => one.outerHTML));
assert.deepEqual(unlabelled, []);

assert.deepEqual(said, []);
assert.equal(await page.evaluate(() => document.body.dataset.errors), '');
assert.equal(tasks, 7);
assert.equal(looks, 6);
await browser.close();
console.log('ok   no overlap and no sideways scrolling at 400, 900 and 1400 pixels, light and dark');
