// Bars, the pipeline, and the read-out at the pointer.

import {element, fill, seconds} from './format.mjs';

// ---- the read-out

const tip = () => document.getElementById('tip');

function showTip(text, x, y) {
  const box = tip();
  box.textContent = text;
  box.hidden = false;
  const {width, height} = box.getBoundingClientRect();
  box.style.left = Math.max(4, Math.min(x + 12, innerWidth - width - 4)) + 'px';
  box.style.top = (y + height + 20 > innerHeight ? y - height - 12 : y + 16) + 'px';
}

export function hideTip() {
  tip().hidden = true;
}

// Elements with data-tip say it where the pointer is, and below themselves when they have the focus.
export function listenForTips() {
  document.addEventListener('pointermove', (event) => {
    const part = event.target.closest?.('[data-tip]');
    if (part) showTip(part.dataset.tip, event.clientX, event.clientY);
    else if (!event.target.closest?.('canvas')) hideTip();
  });
  document.addEventListener('focusin', (event) => {
    const part = event.target.closest?.('[data-tip]');
    if (!part) return hideTip();
    const box = part.getBoundingClientRect();
    showTip(part.dataset.tip, box.left, box.bottom - 12);
  });
}

// ---- bars

// Rows of stacked bars on one scale: [{label, parts: [{name, value, colour, tip}], text, limit}].
// `most` is the end of the scale, `limit` a line across the row.
export function stackedBars(place, rows, {most, title}) {
  const used = new Map();
  const list = element('div', {class: 'bars', role: 'list', 'aria-label': title});
  for (const {label, parts, text, limit, over} of rows) {
    const bar = element('div', {class: 'stack'});
    for (const {name, value, colour, tip: words} of parts) {
      if (value <= 0) continue;
      used.set(name, colour);
      const part = element('span', {class: 'part', 'data-tip': words});
      part.style.width = 100 * value / most + '%';
      part.style.background = colour;
      bar.append(part);
    }
    if (limit) {
      const line = element('i', {class: 'limit'});
      line.style.left = 100 * limit / most + '%';
      bar.append(line);
    }
    const words = `${label}: ${text}; ` + parts.filter((part) => part.value > 0).map((part) => part.tip).join(', ');
    list.append(element('div', {class: 'bar-row' + (over ? ' over' : ''), role: 'listitem', tabindex: 0, 'data-tip': words},
      element('span', {class: 'bar-label'}, label), bar, element('span', {class: 'bar-text'}, text)));
  }
  const keys = element('p', {class: 'keys'});
  for (const [name, colour] of used) {
    const swatch = element('i', {});
    swatch.style.background = colour;
    keys.append(element('span', {class: 'key'}, swatch, name));
  }
  fill(place, list, keys);
}

// ---- the pipeline

const ROW = 22;
const AXIS = 20;
const LABEL = 64;

// One row for each stage; bars are [start_ns, length_ns, kind, microbatch, layer, operations].
export class Pipeline {
  #data = null;
  #kinds = [];
  #zoom = 1;
  #at = null;  // the bar that the keyboard reads: [lane, number]

  constructor(place, kinds) {
    this.#kinds = kinds;
    this.keys = element('p', {class: 'keys'});
    this.canvas = element('canvas', {tabindex: 0, role: 'img'});
    this.scroller = element('div', {class: 'scroller'}, this.canvas);
    this.here = element('p', {class: 'here', 'aria-live': 'polite'});
    const zoom = element('input', {type: 'range', min: 0, max: 6, step: 1, value: 0, id: 'pipeline-zoom'});
    zoom.addEventListener('input', () => {
      this.#zoom = 2 ** Number(zoom.value);
      this.draw();
    });
    place.append(this.keys, element('p', {class: 'zoom'}, element('label', {for: 'pipeline-zoom'}, 'Zoom '), zoom),
      this.scroller, this.here);
    this.canvas.addEventListener('pointermove', (event) => this.#point(event));
    this.canvas.addEventListener('pointerleave', hideTip);
    this.canvas.addEventListener('keydown', (event) => this.#key(event));
    new ResizeObserver(() => this.draw()).observe(this.scroller);
  }

  show(data) {
    this.#data = data;
    this.#at = null;
    const used = new Set(data.lanes.flatMap((lane) => lane.bars.map((bar) => bar[2])));
    fill(this.keys, ...[...used].sort((a, b) => a - b).map((kind) => {
      const swatch = element('i', {});
      swatch.style.background = this.#kinds[kind].colour;
      return element('span', {class: 'key'}, swatch, this.#kinds[kind].name);
    }));
    this.canvas.setAttribute('aria-label',
      `What one rank of each of ${data.lanes.length} stages computes over ${seconds(data.step_s)}; the arrow keys read the bars`);
    this.draw();
  }

  draw() {
    if (!this.#data) return;
    const scale = devicePixelRatio || 1;
    const width = Math.max(this.scroller.clientWidth, 200) * this.#zoom;
    const height = this.#data.lanes.length * ROW + AXIS;
    const drawn = Math.min(width, 16000);  // a canvas has a largest width
    this.canvas.width = drawn * scale;
    this.canvas.height = height * scale;
    this.canvas.style.width = drawn + 'px';
    this.canvas.style.height = height + 'px';
    const pen = this.canvas.getContext('2d');
    pen.scale(scale, scale);
    const ink = getComputedStyle(document.body).color;
    pen.font = '12px system-ui, sans-serif';
    this.per = (drawn - LABEL) / (this.#data.step_s * 1e9);
    this.#data.lanes.forEach((lane, row) => this.#lane(pen, lane, row * ROW, ink));
    pen.fillStyle = ink;
    const marks = 4 * this.#zoom;
    for (let mark = 0; mark <= marks; ++mark) {
      pen.textAlign = mark === 0 ? 'left' : mark === marks ? 'right' : 'center';
      pen.fillText(seconds(this.#data.step_s * mark / marks), LABEL + (drawn - LABEL) * mark / marks, height - 5);
    }
    document.body.dataset.bars = this.#data.lanes.reduce((sum, lane) => sum + lane.bars.length, 0);
  }

  #lane(pen, lane, y, ink) {
    pen.textAlign = 'left';
    pen.fillStyle = ink;
    pen.fillText('stage ' + lane.stage, 0, y + 14);
    for (const [start, length, kind, microbatch] of lane.bars) {
      const x = LABEL + start * this.per, width = length * this.per;
      pen.fillStyle = this.#kinds[kind].colour;
      pen.fillRect(x, y, Math.max(width - (width > 3 ? 0.5 : 0), 0.3), ROW - 4);
      if (width > 16 && microbatch >= 0) {
        pen.fillStyle = dark(this.#kinds[kind].colour) ? '#fff' : '#000';
        pen.textAlign = 'center';
        pen.fillText(String(microbatch), x + width / 2, y + 13);
      }
    }
  }

  #words(lane, [start, length, kind, microbatch, layer, operations]) {
    return [`stage ${lane.stage}`, this.#kinds[kind].name, microbatch >= 0 ? `microbatch ${microbatch}` : '',
      layer >= 0 ? `layer ${layer}` : '', operations > 1 ? `${operations} operations` : '',
      `${seconds(length * 1e-9)} from ${seconds(start * 1e-9)}`].filter((part) => part).join(' · ');
  }

  #point(event) {
    const box = this.canvas.getBoundingClientRect();
    const lane = this.#data?.lanes[Math.floor((event.clientY - box.top) / ROW)];
    const at = (event.clientX - box.left - LABEL) / this.per;
    const bar = lane?.bars.find(([start, length]) => at >= start && at <= start + length);
    if (bar) showTip(this.#words(lane, bar), event.clientX, event.clientY);
    else hideTip();
  }

  #key(event) {
    const moves = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0]};
    const move = moves[event.key];
    if (!move || !this.#data?.lanes.length) return;
    event.preventDefault();
    const [lane, bar] = this.#at ?? [0, -1];
    const row = Math.min(Math.max(lane + move[0], 0), this.#data.lanes.length - 1);
    const bars = this.#data.lanes[row].bars;
    this.#at = [row, Math.min(Math.max(bar + move[1], 0), bars.length - 1)];
    this.here.textContent = this.#words(this.#data.lanes[row], bars[this.#at[1]]);
  }
}

function dark(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue < 140;
}
