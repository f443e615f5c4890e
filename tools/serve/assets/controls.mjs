// The controls: one row of the table for each field that people change. A control shows the
// scenario and writes into it; which values it offers follows from the scenario.

import {element, fill, grouped} from './format.mjs';
import {get, set} from './scenario.mjs';

const GIGABIT = 1e9 / 8;
const powers = (from, to) => {
  const values = [];
  for (let value = from; value <= to; value *= 2) values.push(value);
  return values;
};
const divisors = (number) => {
  const values = [];
  for (let value = 1; value <= number; ++value) if (number % value === 0) values.push(value);
  return values;
};
const named = (values) => values.map((value) => [value, grouped(value)]);

// ---- what a scenario says

export const nodeName = (document) => {
  const node = get(document, 'cluster.node');
  return typeof node === 'string' ? node : node?.like;
};
const nodeOf = (document, start) => {
  const node = get(document, 'cluster.node');
  const listed = start.nodes[nodeName(document)] ?? {gpus: 8, nic_nominal_bytes_per_s: 50e9, nic_bytes_per_s: 48e9};
  return typeof node === 'object' && node?.gpus ? {...listed, gpus: node.gpus} : listed;
};
export const gpusOf = (document, start) => (get(document, 'cluster.nodes') ?? 1) * nodeOf(document, start).gpus;
const modelOf = (document, start) =>
  typeof document.model === 'object' ? document.model : start.models[document.model] ?? {layers: 1, experts: 0};
const size = (document, name) => get(document, 'parallelism.' + name) ?? 1;

// The number of replicas follows from the other sizes. Where they do not divide the GPUs, it stays,
// and the reader says what is wrong.
export function settle(document, start) {
  const ranks = size(document, 'tensor') * size(document, 'pipeline') * size(document, 'context');
  const gpus = gpusOf(document, start);
  if (gpus % ranks === 0) set(document, 'parallelism.data', gpus / ranks);
  set(document, 'parallelism.sequence_parallel', size(document, 'tensor') > 1);
  set(document, 'parallelism.placement', undefined);
  delete document.published;  // of another run than this
  splitLayers(document, modelOf(document, start).layers);
  const interleave = size(document, 'interleave');
  const schedule = get(document, 'parallelism.schedule') ?? '1f1b';
  if (interleave > 1 && schedule === '1f1b') set(document, 'parallelism.schedule', 'interleaved_1f1b');
  if (interleave === 1 && schedule === 'interleaved_1f1b') set(document, 'parallelism.schedule', '1f1b');
}

const BY_HAND = ['first_stage_layers', 'last_stage_layers', 'layers_per_stage', 'operator_devices'];

// Where the layers alone do not divide over the stages, the embedding and the loss count as a layer
// each: the 126 layers of Llama 3 405B over 16 stages. A split by hand stays as it is.
function splitLayers(document, layers) {
  if (BY_HAND.some((field) => get(document, 'parallelism.' + field) !== undefined)) return;
  const stages = size(document, 'pipeline');
  const asLayers = layers % stages !== 0 && (layers + 2) % stages === 0;
  for (const field of ['embedding_in_split', 'loss_in_split']) set(document, 'parallelism.' + field, asLayers || undefined);
}

function setPipeline(document, stages) {
  set(document, 'parallelism.pipeline', stages);
  for (const field of BY_HAND) set(document, 'parallelism.' + field, undefined);
}

function setGpus(document, gpus, start) {
  const name = nodeName(document);
  const whole = start.nodes[name]?.gpus ?? 8;
  if (gpus < whole) {
    set(document, 'cluster.node', {like: name, gpus});
    set(document, 'cluster.nodes', 1);
  } else {
    set(document, 'cluster.node', name);
    set(document, 'cluster.nodes', Math.round(gpus / whole));
  }
  if (get(document, 'cluster.nodes') > 1 && !get(document, 'cluster.fabric'))
    set(document, 'cluster.fabric', {kind: 'rail_optimized'});
}

function setNode(document, name, start) {
  const gpus = gpusOf(document, start);
  set(document, 'cluster.node', name);
  set(document, 'cluster.nic', undefined);
  const whole = start.nodes[name].gpus;
  setGpus(document, gpus < whole ? gpus : Math.max(1, Math.round(gpus / whole)) * whole, start);
}

function setModel(document, name) {
  document.model = name;
  for (const field of BY_HAND) set(document, 'parallelism.' + field, undefined);
}

const nicRate = (document, start) => {
  const text = get(document, 'cluster.nic.nominal');
  if (typeof text === 'string') return parseFloat(text);
  return Math.round(nodeOf(document, start).nic_nominal_bytes_per_s / GIGABIT);
};

// ---- the table

const GROUPS = [
  ['Model', [
    {path: 'model', label: 'Model', kind: 'select',
     values: (document, start) => start.lists.models.map(({name, summary}) => [name, `${name} (${summary.split(' parameters')[0]})`]),
     read: (document) => (typeof document.model === 'object' ? document.model.name ?? 'own' : document.model),
     write: setModel},
    {path: 'training.sequence_length', label: 'Sequence', unit: 'tokens', kind: 'steps', fallback: 4096,
     values: (document, start) => named(powers(1024, Math.max(131072, modelOf(document, start).max_positions ?? 0)))},
    {path: 'training.global_batch_size', label: 'Batch', unit: 'sequences', kind: 'number', fallback: 1},
  ]],
  ['Cluster', [
    {path: 'cluster.node', label: 'Node', kind: 'select',
     values: (document, start) => start.lists.nodes.map(({name}) => [name, `${name} (${start.nodes[name].gpus} x ${start.nodes[name].gpu})`]),
     read: nodeName, write: setNode},
    {path: 'cluster.nodes', label: 'GPUs', kind: 'steps',
     values: (document, start) => {
       const whole = start.nodes[nodeName(document)]?.gpus ?? 8;
       return named([...powers(1, whole - 1), ...powers(whole, 16384)]);
     },
     read: gpusOf, write: setGpus},
    {path: 'cluster.fabric.kind', label: 'Fabric', kind: 'select', fallback: 'rail_optimized',
     values: (document, start) => start.lists.fabrics.map(({name}) => [name, name]),
     shown: (document) => (get(document, 'cluster.nodes') ?? 1) > 1,
     write: (document, kind) => set(document, 'cluster.fabric', {kind})},
    {path: 'cluster.nic', label: 'NIC rate', unit: 'Gb/s', kind: 'steps',
     values: () => named([25, 50, 100, 200, 400, 800, 1600]),
     shown: (document, start) => (get(document, 'cluster.nodes') ?? 1) > 1 && nodeOf(document, start).nics > 0,
     read: nicRate,
     write: (document, gigabits, start) => {
       const node = start.nodes[nodeName(document)];
       const usable = node ? node.nic_bytes_per_s / node.nic_nominal_bytes_per_s : 1;
       const same = node && Math.round(node.nic_nominal_bytes_per_s / GIGABIT) === gigabits;
       set(document, 'cluster.nic', same ? undefined
         : {usable: +(gigabits * usable).toFixed(3) + ' Gb/s', nominal: gigabits + ' Gb/s'});
     }},
  ]],
  ['Layout', [
    {path: 'parallelism.tensor', label: 'Tensor (TP)', kind: 'steps', fallback: 1,
     values: (document, start) => named(powers(1, nodeOf(document, start).gpus))},
    {path: 'parallelism.pipeline', label: 'Pipeline (PP)', kind: 'steps', fallback: 1,
     values: (document, start) => {
       const {layers} = modelOf(document, start);
       return named([...new Set([...divisors(layers), ...divisors(layers + 2)])].sort((a, b) => a - b)
         .filter((stages) => stages <= Math.min(gpusOf(document, start), 128)));
     },
     write: setPipeline},
    {path: 'parallelism.interleave', label: 'Chunks a stage (VPP)', kind: 'steps', fallback: 1,
     values: (document, start) => named(divisors(Math.max(1, Math.floor(
       (modelOf(document, start).layers + (get(document, 'parallelism.embedding_in_split') ? 2 : 0)) / size(document, 'pipeline'))))),
     shown: (document) => size(document, 'pipeline') > 1},
    {path: 'parallelism.schedule', label: 'Schedule', kind: 'select', fallback: '1f1b',
     values: (document, start) => start.lists.schedules.map(({name}) => [name, name]),
     shown: (document) => size(document, 'pipeline') > 1},
    {path: 'parallelism.context', label: 'Context (CP)', kind: 'steps', fallback: 1, values: () => named(powers(1, 32))},
    {path: 'parallelism.expert', label: 'Experts (EP)', kind: 'steps', fallback: 1,
     values: (document, start) => named(divisors(modelOf(document, start).experts)),
     shown: (document, start) => modelOf(document, start).experts > 0},
    {path: 'parallelism.data', label: 'Data (DP)', kind: 'shown', fallback: 1},
    {path: 'parallelism.zero_stage', label: 'ZeRO', kind: 'select', fallback: 0,
     values: () => [[0, '0: nothing sharded'], [1, '1: optimizer'], [2, '2: and gradients'], [3, '3: and weights (FSDP)']]},
  ]],
  ['Training', [
    {path: 'training.micro_batch_size', label: 'Microbatch', unit: 'sequences', kind: 'steps', fallback: 1,
     values: () => named(powers(1, 32))},
    {path: 'training.recompute', label: 'Recompute', kind: 'select', fallback: 'none',
     values: (document, start) => enumOf(start, 'training', 'recompute')},
    {path: 'training.recipe', label: 'Recipe', kind: 'select', fallback: 'standard',
     values: (document, start) => enumOf(start, 'training', 'recipe')},
    {path: 'training.precision', label: 'Precision', kind: 'select', fallback: 'bf16',
     values: (document, start) => enumOf(start, 'training', 'precision')},
    {path: 'training.optimizer', label: 'Optimizer', kind: 'select', fallback: 'adam',
     values: (document, start) => enumOf(start, 'training', 'optimizer')},
  ]],
];

const enumOf = (start, section, field) =>
  start.schema.properties[section].properties[field].enum.map((word) => [word, word.replaceAll('_', ' ')]);

function helpOf(path, start) {
  let place = start.schema;
  for (const key of path.split('.')) place = place?.properties?.[key];
  return place?.description;
}

// ---- drawing

export class Controls {
  #rows = [];
  #document = null;

  // `changed(edit)` is called with a function that makes the change in a document.
  constructor(place, start, changed) {
    this.start = start;
    for (const [title, specs] of GROUPS) {
      const set = element('fieldset', {}, element('legend', {}, title));
      for (const spec of specs) set.append(this.#row(spec, changed));
      place.append(set);
    }
  }

  #row(spec, changed) {
    const id = 'control-' + spec.path.replaceAll('.', '-');
    const input = {
      select: () => element('select', {id}),
      steps: () => element('input', {id, type: 'range', min: 0, step: 1}),
      number: () => element('input', {id, type: 'number', min: 1, step: 1, inputmode: 'numeric'}),
      shown: () => element('output', {id}),
    }[spec.kind]();
    const output = spec.kind === 'steps' ? element('output', {for: id}) : null;
    const problem = element('small', {class: 'problem', id: id + '-problem', hidden: true});
    const help = helpOf(spec.path, this.start);
    const label = element('label', {for: id, title: help}, spec.label,
      spec.unit ? element('small', {}, ' ' + spec.unit) : null);
    const row = element('div', {class: 'control ' + spec.kind}, label, input, output, problem);
    input.setAttribute('aria-describedby', problem.id);
    const entry = {spec, input, output, problem, row, values: []};
    const read = () => {
      if (spec.kind === 'number') return input.value === '' ? undefined : Number(input.value);
      return entry.values[spec.kind === 'steps' ? Number(input.value) : input.selectedIndex]?.[0];
    };
    const write = (document) => {
      const value = read();
      if (value === undefined) return;
      if (spec.write) spec.write(document, value, this.start);
      else set(document, spec.path, value);
    };
    if (spec.kind !== 'shown') {
      input.addEventListener('input', () => {
        if (output) output.textContent = entry.values[Number(input.value)]?.[1] ?? '';
        changed(write);
      });
    }
    this.#rows.push(entry);
    return row;
  }

  #read(spec, document) {
    const value = spec.read ? spec.read(document, this.start) : get(document, spec.path);
    return value ?? spec.fallback;
  }

  show(document) {
    this.#document = document;
    for (const entry of this.#rows) {
      const {spec, input, output, row} = entry;
      row.hidden = spec.shown ? !spec.shown(document, this.start) : false;
      const value = this.#read(spec, document);
      if (spec.kind === 'shown') {
        input.textContent = grouped(value);
        continue;
      }
      if (spec.kind === 'number') {
        if (document !== undefined && Number(input.value) !== value) input.value = value;
        continue;
      }
      const values = spec.values(document, this.start);
      if (!values.some(([one]) => one === value)) {
        values.push([value, typeof value === 'number' ? grouped(value) : String(value)]);
        if (typeof value === 'number') values.sort((a, b) => a[0] - b[0]);
      }
      const at = values.findIndex(([one]) => one === value);
      if (spec.kind === 'steps') {
        input.max = values.length - 1;
        input.value = at;
        input.setAttribute('aria-valuetext', values[at][1]);
        output.textContent = values[at][1];
        input.disabled = values.length < 2;
      } else {
        if (JSON.stringify(values) !== JSON.stringify(entry.values))
          fill(input, ...values.map(([one, text]) => element('option', {value: one}, text)));
        input.selectedIndex = at;
      }
      entry.values = values;
    }
  }

  // Shows each problem at its control. Returns those that belong to none.
  showProblems(problems) {
    for (const {input, problem} of this.#rows) {
      problem.hidden = true;
      input.removeAttribute('aria-invalid');
    }
    return problems.filter(({pointer, problem: text, hint}) => {
      const path = pointer.replace(/^\//, '').replaceAll('/', '.');
      const entry = this.#rows.find(({spec, row}) => !row.hidden && path !== '' && path === spec.path);
      if (!entry) return true;
      entry.problem.textContent = text + (hint ? ` (${hint})` : '');
      entry.problem.hidden = false;
      entry.input.setAttribute('aria-invalid', 'true');
      return false;
    });
  }

  // Marks the controls whose value differs from that of another document; null: none.
  mark(other) {
    for (const {spec, row} of this.#rows) {
      const differs = other !== null &&
        JSON.stringify(this.#read(spec, other)) !== JSON.stringify(this.#read(spec, this.#document));
      row.classList.toggle('differs', differs);
    }
  }
}
