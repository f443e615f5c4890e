// The page: a scenario, its answer, and what follows from both.
//
// Every change goes the same way: change() edits the document, simulate() asks the server, and
// show...() draw the answer. A change that comes before the answer replaces the run.

import {hideTip, listenForTips, Pipeline, stackedBars} from './charts.mjs';
import {Controls, gpusOf, nodeName, settle} from './controls.mjs';
import {bytes, counted, element, fill, grouped, parseCount, percent, rate, seconds, sentence, signedPercent, significant, words} from './format.mjs';
import {differences, fromLink, History, toLink} from './scenario.mjs';
import {file, job, Refusal, start as startLists, takeToken, useToken} from './server.mjs';

const at = (id) => document.getElementById(id);
const errors = [];
document.body.dataset.errors = '';
addEventListener('error', (event) => noteError(event.message));
addEventListener('unhandledrejection', (event) => noteError(String(event.reason)));
function noteError(text) {  // read by tests
  errors.push(text);
  document.body.dataset.errors = errors.join('; ');
}

const history = new History();
let start = null;      // names, fields and colours
let controls = null;
let pipeline = null;
let state = {scenario: null, kept: null, budget: {tokens: '', price: ''}};  // what a link holds
let answer = null;     // of the scenario
let keptAnswer = null; // of state.kept
let running = null;    // AbortController of the run and of its neighbours
let searching = null;

// ---- changes

function change(edit, {settled = true} = {}) {
  const next = structuredClone(state);
  edit(next.scenario);
  if (settled) settle(next.scenario, start);
  use(next);
}

function use(next, {remember = true} = {}) {
  state = next;
  if (remember) history.add(state);
  at('undo').disabled = !history.canUndo;
  at('redo').disabled = !history.canRedo;
  controls.show(state.scenario);
  controls.mark(state.kept);
  at('source').value = JSON.stringify(state.scenario, null, 2);
  toLink(state).then((text) => globalThis.history.replaceState(null, '', '#s=' + text));
  simulate();
}

async function simulate() {
  running?.abort();
  running = new AbortController();
  const {signal} = running;
  const asked = performance.now();
  showProgress(0);
  showWaiting(true);
  try {
    const found = await job('run', {scenario: state.scenario}, {signal, progress: showProgress});
    if (signal.aborted) return;
    answer = found;
    showWaiting(false);
    showAnswer(performance.now() - asked);
    document.body.dataset.latency = (performance.now() - asked).toFixed(1);
    document.body.dataset.answers = Number(document.body.dataset.answers ?? 0) + 1;
    if (state.kept && !keptAnswer) keptAnswer = await job('run', {scenario: state.kept}, {});
    if (signal.aborted) return;
    showComparison();
    await showNeighbours(signal);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (signal.aborted) return;
    showWaiting(false);
    showRefusal(error);
    document.body.dataset.answers = Number(document.body.dataset.answers ?? 0) + 1;
  }
}

// A run that takes longer than a moment shows how far it is, and can be cancelled.
function showProgress(fraction) {
  at('run-progress').value = fraction;
}

function showWaiting(isWaiting) {
  document.body.classList.toggle('busy', isWaiting);
  clearTimeout(showWaiting.timer);
  at('waiting').hidden = true;
  if (isWaiting) showWaiting.timer = setTimeout(() => { at('waiting').hidden = false; }, 1000);
}

// ---- refusals

function showRefusal(refusal) {
  if (refusal.kind === 'token') return at('login').showModal();
  document.body.classList.add('stale');
  const rest = controls.showProblems(refusal.problems);
  const list = element('ul', {}, ...refusal.problems.map(({pointer, problem, hint}) =>
    element('li', {}, pointer ? element('code', {}, pointer.slice(1).replaceAll('/', '.')) : null,
      ` ${problem}${hint ? ` (${hint})` : ''}`)));
  fill(at('problems'),
    element('p', {}, element('strong', {}, refusal.kind === 'input' ? 'This is no scenario yet. ' : 'There is no answer. '),
      rest.length < refusal.problems.length ? 'The marked controls say why.' : ''),
    list,
    refusal.kind === 'input' ? findLayoutButton() : null);
}

function findLayoutButton() {
  return element('button', {type: 'button', id: 'find-layout', onclick: findLayout}, 'Find a layout that fits');
}

// A layout for the same model, nodes, sequence and batch.
async function findLayout(event) {
  event.target.disabled = true;
  event.target.textContent = 'Looking for a layout ...';
  const {scenario} = state;
  try {
    const found = await job('layout', {
      model: scenario.model, node: scenario.cluster.node, nodes: scenario.cluster.nodes ?? 1,
      sequence: scenario.training?.sequence_length ?? 0, batch: scenario.training?.global_batch_size ?? 0
    });
    const next = structuredClone(state);
    next.scenario = {...scenario, parallelism: found.scenario.parallelism,
      training: {...scenario.training, ...found.scenario.training}};
    delete next.scenario.published;
    use(next);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    showRefusal(new Refusal('run', error.problems));
  }
}

// ---- the answer

function showAnswer(milliseconds) {
  document.body.classList.remove('stale');
  controls.showProblems([]);
  fill(at('problems'));
  showSummary();
  showFigures(milliseconds);
  showTime();
  showMemory();
  pipeline.show(answer.pipeline);
  showLinks();
  showNotes();
}

function showSummary() {
  const line = ({name, text}) => [element('dt', {}, name), element('dd', {}, text)];
  fill(at('summary'),
    element('p', {class: 'verdict ' + (answer.fits ? 'fits' : 'fails')}, sentence(answer.verdict),
      answer.fits ? null : ' ', answer.fits ? null : findLayoutButton()),
    answer.limit ? element('p', {class: 'limits'}, sentence(answer.limit)) : null,
    element('dl', {class: 'setup'}, ...answer.setup.filter(({name}) => name !== 'changes').flatMap(line)));
}

const worstStage = (found) => found.result.memory.reduce(
  (worst, stage) => (worst === null || stage.peak_bytes / (stage.capacity_bytes || Infinity) > worst.peak_bytes / (worst.capacity_bytes || Infinity) ? stage : worst), null);

// [name, text, number (smaller is better: -1, larger: 1), what it means]
function figureRows(found) {
  const {result} = found;
  const worst = worstStage(found);
  const rows = [
    ['step', seconds(result.step_time_s), result.step_time_s, -1, 'Time of one optimizer step'],
    ['MFU', result.mfu ? percent(result.mfu) : '–', result.mfu, 1,
      'Model FLOPs utilisation: the FLOPs that the model needs, divided by what the GPUs could do in the same time'],
    ['tokens/s per GPU', result.tokens_per_s_per_gpu ? grouped(result.tokens_per_s_per_gpu) : '–', result.tokens_per_s_per_gpu, 1,
      'Tokens of training data per second and GPU'],
  ];
  if (worst) rows.push(['memory', bytes(worst.peak_bytes) + (worst.capacity_bytes ? ` of ${bytes(worst.capacity_bytes)}` : ''),
    worst.peak_bytes, -1, `Peak memory of a GPU of stage ${worst.stage}, which is the fullest`]);
  return [...rows, ...budgetRows(found)];
}

// With a number of tokens: days, GPU-hours and, with a price, the cost.
function budgetRows(found) {
  const tokens = parseCount(state.budget.tokens);
  if (!(tokens > 0) || !found.tokens_per_step) return [];
  const hours = tokens / found.tokens_per_step * found.result.step_time_s / 3600;
  const rows = [
    ['days', significant(hours / 24, 3), hours, -1, `For ${counted(tokens)} tokens, without failures and pauses`],
    ['GPU-hours', counted(hours * found.gpus), hours * found.gpus, -1, 'Days times 24 times GPUs'],
  ];
  const price = Number(state.budget.price);
  if (price > 0) rows.push(['cost', counted(hours * found.gpus * price), hours * found.gpus * price, -1, 'GPU-hours times the price']);
  return rows;
}

function showFigures(milliseconds) {
  const kept = keptAnswer ? new Map(figureRows(keptAnswer).map((row) => [row[0], row[2]])) : new Map();
  const cards = figureRows(answer).map(([name, text, value, better, help]) => {
    const before = kept.get(name);
    const ratio = before && value ? value / before - 1 : 0;
    const good = Math.abs(ratio) < 5e-4 ? 'same' : ratio * better > 0 ? 'good' : 'bad';
    return element('div', {class: 'figure', tabindex: 0, 'data-tip': help},
      element('dt', {}, name), element('dd', {}, text),
      before ? element('small', {class: good}, `${signedPercent(ratio)} from A`) : null);
  });
  const interval = answer.result.interval;
  fill(at('figures'), element('dl', {}, ...cards),
    element('p', {class: 'aside'},
      interval ? `In nine of ten measured runs, ${seconds(interval.low_s)} to ${seconds(interval.high_s)}: ` +
        `most of that range is the uncertainty of ${interval.parts[0].name}. ` : '',
      `Simulated in ${significant(milliseconds, 3)} ms.`));
}

function showTime() {
  const most = answer.result.step_time_s;
  stackedBars(at('time'), answer.stages.map(({stage, ranks, shares}) => ({
    label: 'stage ' + stage,
    text: percent((shares.compute ?? 0) / most) + ' compute',
    parts: Object.entries(shares).map(([name, value]) => ({
      name: start.colours.shares[name].title, value, colour: start.colours.shares[name].colour,
      tip: `${start.colours.shares[name].title} ${seconds(value)} (${percent(value / most)})`
    })),
    ranks
  })), {most, title: 'Where the time of a rank goes, by stage'});
}

function showMemory() {
  const stages = answer.result.memory;
  const most = Math.max(...stages.map((stage) => Math.max(stage.peak_bytes, stage.capacity_bytes ?? 0)), 1);
  const names = [...new Set(stages.flatMap((stage) => Object.keys(stage.by_category_bytes)))];
  stackedBars(at('memory'), stages.map((stage) => ({
    label: 'stage ' + stage.stage,
    text: bytes(stage.peak_bytes) + (stage.fits === false ? ': too much' : ''),
    over: stage.fits === false,
    limit: stage.capacity_bytes,
    parts: Object.entries(stage.by_category_bytes).map(([name, value]) => ({
      name: words(name), value, colour: start.colours.memory[names.indexOf(name) % start.colours.memory.length],
      tip: `${words(name)} ${bytes(value)}`
    }))
  })), {most: most * 1.02, title: 'Peak memory of a GPU, by stage; the line is its capacity'});
}

function showLinks() {
  const rows = answer.result.links;
  if (rows.length === 0) return fill(at('links'), element('p', {}, 'Nothing is sent.'));
  const share = (value) => {
    const bar = element('i', {class: 'share'});
    bar.style.width = 100 * Math.min(value, 1) + '%';
    return element('td', {class: 'share-cell'}, element('span', {}, percent(value)), element('span', {class: 'track'}, bar));
  };
  fill(at('links'), table(['links', 'number', 'each', 'carried', 'busy', 'busiest'], rows.map((row) => element('tr', {},
    element('th', {scope: 'row'}, row.kind), element('td', {}, grouped(row.links)), element('td', {}, rate(row.capacity_bytes_per_s)),
    element('td', {}, bytes(row.bytes)), share(row.busy_fraction), share(row.busiest_link_busy_fraction)))));
}

function showNotes() {
  const sentences = Object.values(answer.result.approximations).map((one) => `${one.sentence} (${one.count} times)`);
  fill(at('notes'), sentences.length === 0 ? element('p', {}, 'None.')
    : element('ul', {}, ...sentences.map((text) => element('li', {}, text))));
}

// ---- comparison

// A table that scrolls sideways where it is too wide. `rows` are elements.
const table = (titles, rows) => element('div', {class: 'scroller'}, element('table', {},
  element('thead', {}, element('tr', {}, ...titles.map((title) => element('th', {scope: 'col'}, title)))),
  element('tbody', {}, ...rows)));

function showComparison() {
  at('compare').hidden = !state.kept;
  at('keep').textContent = state.kept ? 'Drop A' : 'Keep as A';
  if (!state.kept) return;
  const rows = differences(keptAnswer.result.scenario, answer.result.scenario);
  const text = (value) => (value === undefined ? '–' : String(value));
  const names = [...new Set([keptAnswer, answer].flatMap((one) => one.stages.flatMap(({shares}) => Object.keys(shares))))];
  const mean = (found, name) => found.stages.reduce((sum, stage) => sum + (stage.shares[name] ?? 0) * stage.ranks, 0) /
    found.stages.reduce((sum, stage) => sum + stage.ranks, 0);
  const most = Math.max(answer.result.step_time_s, keptAnswer.result.step_time_s);
  const bars = element('div', {});
  stackedBars(bars, [['A', keptAnswer], ['now', answer]].map(([label, found]) => ({
    label, text: seconds(found.result.step_time_s),
    parts: names.map((name) => ({name: start.colours.shares[name].title, value: mean(found, name),
      colour: start.colours.shares[name].colour, tip: `${start.colours.shares[name].title} ${seconds(mean(found, name))}`}))
  })), {most, title: 'The mean rank of A and of the scenario now'});
  fill(at('compare-body'), bars,
    rows.length === 0 ? element('p', {}, 'Nothing differs yet: change a control.')
      : table(['field', 'A', 'now'], rows.map(([path, a, b]) => element('tr', {class: 'differs'},
        element('th', {scope: 'row'}, path), element('td', {}, text(a)), element('td', {}, text(b))))),
    element('p', {}, element('button', {type: 'button', onclick: swap}, 'Go back to A')));
  fill(at('together-result'));
}

// A and the scenario as it is now, as two jobs on a cluster with the nodes of both.
async function together() {
  const asked = state;
  const nodes = (scenario) => scenario.cluster?.nodes ?? 1;
  const of = (name, scenario) => ({name, scenario, placement: at('placement').value});
  const jobs = {
    cluster: {...state.scenario.cluster, nodes: nodes(state.kept) + nodes(state.scenario)},
    jobs: [of('A', state.kept), of('now', state.scenario)]
  };
  const bar = at('together-progress');
  at('together').disabled = true;
  bar.hidden = false;
  try {
    const found = await job('jobs', {jobs}, {progress: (fraction) => { bar.value = fraction; }});
    const cells = (one) => [seconds(one.alone_s), seconds(one.together_s), signedPercent(one.slowdown - 1)];
    if (state !== asked) return;  // it is of other scenarios
    fill(at('together-result'), table(['job', 'alone', 'together', 'slower'], found.jobs.map((one) => element('tr', {},
      element('th', {scope: 'row'}, one.name), ...cells(one).map((text) => element('td', {}, text))))),
    element('p', {class: 'aside'}, found.sentence),
    element('p', {}, element('button', {type: 'button', onclick: async () => save(await file(found.job), 'jobs.html')}, 'Report of both (HTML)')));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    fill(at('together-result'), element('p', {class: 'aside'}, error.message));
  } finally {
    at('together').disabled = false;
    bar.hidden = true;
  }
}

function keep() {
  const next = structuredClone(state);
  next.kept = state.kept ? null : structuredClone(state.scenario);
  keptAnswer = next.kept ? answer : null;
  state = next;
  history.add(state);
  use(state, {remember: false});
}

function swap() {
  const next = structuredClone(state);
  [next.scenario, next.kept] = [next.kept, next.scenario];
  keptAnswer = null;
  use(next);
}

// ---- neighbours and search

// A table of scenarios with their step times; a button takes one.
function layoutTable(title, rows) {
  return table([title, 'step', 'against now', 'memory', ''], rows.map((row) => {
    const ratio = row.step_time_s / answer.result.step_time_s - 1;
    return element('tr', {class: row.fits ? '' : 'over'},
      element('th', {scope: 'row'}, row.name), element('td', {}, seconds(row.step_time_s)),
      element('td', {class: ratio < -5e-4 ? 'good' : ratio > 5e-4 ? 'bad' : 'same'}, signedPercent(ratio)),
      element('td', {}, row.peak_bytes ? bytes(row.peak_bytes) : '', row.fits ? '' : ' does not fit'),
      element('td', {}, element('button', {type: 'button', 'aria-label': 'Take ' + row.name, onclick: () => take(row)}, 'Take')));
  }));
}

function take(row) {
  const next = structuredClone(state);
  next.scenario = row.scenario;
  use(next);
}

async function showNeighbours(signal) {
  const rows = [];
  const show = (text) => {
    rows.sort((a, b) => Number(b.fits) - Number(a.fits) || a.step_time_s - b.step_time_s);
    fill(at('neighbours'), rows.length > 0 ? layoutTable('change', rows.slice(0, 8)) : null, element('p', {class: 'aside'}, text));
  };
  show('Simulating the layouts that differ in one size ...');
  const told = await job('neighbours', {scenario: state.scenario, seconds: 2}, {
    signal,
    row: (row) => {
      if (signal.aborted) return;
      rows.push(row);
      show('Simulating the layouts that differ in one size ...');
    }
  });
  show(told.neighbours === 0 ? 'No legal layout differs in one size only.'
    : `The quickest of ${told.tried} layouts that differ in one size` +
      (told.tried < told.neighbours ? `; ${told.neighbours - told.tried} more were not reached in two seconds.` : '.'));
  document.body.dataset.neighbours = rows.length;
}

async function search() {
  searching = new AbortController();
  const bar = at('search-progress');
  at('search').disabled = true;
  bar.hidden = at('search-cancel').hidden = false;
  try {
    const found = await job('search', {scenario: state.scenario}, {
      signal: searching.signal, progress: (fraction) => { bar.value = fraction; }});
    fill(at('search-result'), found.best.length > 0 ? layoutTable('layout', found.best) : null,
      element('p', {class: 'aside'}, found.best.length > 0
        ? `The best of ${grouped(found.legal)} legal layouts, ${grouped(found.simulated)} of which were simulated.`
        : `None of ${grouped(found.legal)} legal layouts fits.`));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    fill(at('search-result'), element('p', {class: 'aside'}, error.kind === 'cancelled' ? 'Cancelled.' : error.message));
  } finally {
    at('search').disabled = false;
    bar.hidden = at('search-cancel').hidden = true;
  }
}

// ---- files

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const anchor = element('a', {href: address, download: name});
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

async function download(kind) {
  at('downloads').open = false;
  if (kind === 'scenario')
    return save(new Blob([JSON.stringify(state.scenario, null, 2) + '\n'], {type: 'application/json'}), 'scenario.json');
  try {
    const done = await job(kind, {scenario: state.scenario});
    save(await file(done.job), kind === 'page' ? 'report.html' : 'trace.json.gz');
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    showRefusal(error);
  }
}

// A scenario, or the config.json of a model, which then replaces the model.
async function openText(text) {
  try {
    const parsed = JSON.parse(text.replace(/^\s*\/\/.*$/gm, ''));
    if (parsed.model_type && !parsed.cluster) {
      const {model} = await job('model', {text});
      return change((scenario) => { scenario.model = model; });
    }
    const next = structuredClone(state);
    next.scenario = parsed;
    use(next);
  } catch (error) {
    if (error instanceof Refusal) return showRefusal(error);
    showRefusal(new Refusal('input', [{pointer: '', problem: 'the text is no JSON: ' + error.message, hint: ''}]));
  }
}

// ---- the frame

function showTheme(theme) {
  document.documentElement.dataset.theme = theme;
  at('theme').textContent = theme === 'dark' ? 'Light' : 'Dark';
  pipeline?.draw();
}

function stored(key, value) {
  try {
    if (value !== undefined) localStorage.setItem(key, value);
    return localStorage.getItem(key);
  } catch {
    return null;  // the browser stores nothing
  }
}

function go(next) {
  keptAnswer = null;
  use(next, {remember: false});
}

function budgetControls(place) {
  const field = (id, label, unit, key) => {
    const input = element('input', {id, size: 8, inputmode: 'decimal', value: state.budget[key]});
    input.addEventListener('input', () => {
      state.budget[key] = input.value;
      if (answer) showFigures(Number(document.body.dataset.latency));
    });
    return element('div', {class: 'control number'}, element('label', {for: id}, label, element('small', {}, ' ' + unit)), input);
  };
  place.append(element('fieldset', {}, element('legend', {}, 'Budget'),
    field('budget-tokens', 'Tokens', 'such as 15T', 'tokens'), field('budget-price', 'Price', 'a GPU-hour', 'price')));
}

function listen() {
  at('undo').addEventListener('click', () => history.canUndo && go(history.undo()));
  at('redo').addEventListener('click', () => history.canRedo && go(history.redo()));
  at('keep').addEventListener('click', keep);
  at('together').addEventListener('click', together);
  at('link').addEventListener('click', async () => {
    await navigator.clipboard?.writeText(location.href).catch(() => {});
    at('link').textContent = 'Copied';
    setTimeout(() => { at('link').textContent = 'Copy link'; }, 1500);
  });
  at('theme').addEventListener('click', () => {
    const theme = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
    stored('trainyard-theme', theme);
    showTheme(theme);
  });
  for (const button of document.querySelectorAll('[data-download]'))
    button.addEventListener('click', () => download(button.dataset.download));
  at('run-cancel').addEventListener('click', () => {
    running?.abort();
    showWaiting(false);
    showRefusal(new Refusal('cancelled', [{pointer: '', problem: 'the run was cancelled', hint: 'any change begins another'}]));
  });
  at('search').addEventListener('click', search);
  at('search-cancel').addEventListener('click', () => searching?.abort());
  at('apply').addEventListener('click', () => openText(at('source').value));
  at('file').addEventListener('change', async () => at('file').files[0] && openText(await at('file').files[0].text()));
  at('controls').addEventListener('submit', (event) => event.preventDefault());
  addEventListener('dragover', (event) => event.preventDefault());
  addEventListener('drop', async (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) openText(await event.dataTransfer.files[0].text());
  });
  addEventListener('keydown', (event) => {
    if (event.key === 'Escape') hideTip();
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== 'z' || event.target.matches?.('textarea')) return;
    event.preventDefault();
    at(event.shiftKey ? 'redo' : 'undo').click();
  });
  listenForTips();
}

async function begin() {
  start = await startLists();
  let linked = null;
  if (location.hash.startsWith('#s=')) {
    linked = await fromLink(location.hash.slice(3)).catch(() => null);
    if (!linked) noteError('the link is damaged; the page shows its own scenario');
  }
  state = {scenario: start.scenario, kept: null, budget: {tokens: '', price: ''}, ...linked};
  controls = new Controls(at('controls'), start, change);
  budgetControls(at('controls'));
  pipeline = new Pipeline(at('pipeline'), start.colours.bars);
  listen();
  use(state);
  document.body.dataset.ready = 'yes';
}

takeToken();
showTheme(stored('trainyard-theme') ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'));
at('login').addEventListener('close', () => {
  useToken(at('token').value);
  location.reload();
});
begin().catch((error) => {
  if (error instanceof Refusal && error.kind === 'token') at('login').showModal();
  else fill(at('problems'), element('p', {}, error.message));
});
