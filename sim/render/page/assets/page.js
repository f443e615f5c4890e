// What paper cannot do: a timeline that zooms, and memory curves that tell their values.
// Errors and what was drawn are left on <body> as data-* for tests to read.
'use strict';
(() => {
  const body = document.body;
  const errors = [];
  window.addEventListener('error', (event) => {
    errors.push(event.message);
    body.dataset.errors = errors.join('; ');
  });
  body.dataset.errors = '';
  const data = JSON.parse(document.getElementById('page-data').textContent);
  const drawn = [];

  function element(name, attributes, text) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function seconds(value) {
    if (value >= 1) return value.toPrecision(4) + ' s';
    if (value >= 1e-3) return (value * 1e3).toPrecision(4) + ' ms';
    return (value * 1e6).toPrecision(4) + ' µs';
  }

  // ---- timeline

  const canvas = document.getElementById('timeline-canvas');
  const here = document.getElementById('timeline-here');
  const kRow = 15, kHead = 20, kAxis = 18;
  const view = {from: 0, to: data.step_s * 1e9};
  const rows = [];  // {y, blocks} in drawing order
  const heads = [];
  let height = 0;

  function lay() {
    for (const lane of data.lanes) {
      heads.push({y: height, title: lane.title});
      height += kHead;
      const byStream = new Map();
      for (const block of lane.blocks) {
        if (!byStream.has(block[3])) byStream.set(block[3], []);
        byStream.get(block[3]).push(block);
      }
      for (const [stream, blocks] of [...byStream].sort((a, b) => a[0] - b[0])) {
        rows.push({y: height, blocks, stream: lane.streams[stream], lane: lane.title});
        height += kRow;
      }
      height += 4;
    }
    height += kAxis;
  }

  function paint() {
    const scale = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.height = height + 'px';
    const pen = canvas.getContext('2d');
    pen.scale(scale, scale);
    pen.clearRect(0, 0, width, height);
    const ink = getComputedStyle(body).color;
    const per = width / (view.to - view.from);
    pen.font = '12px system-ui, sans-serif';
    pen.fillStyle = ink;
    for (const head of heads) pen.fillText(head.title, 2, head.y + 14);
    for (const row of rows) {
      for (const block of row.blocks) {
        const x = (block[0] - view.from) * per, w = block[1] * per;
        if (x + w < 0 || x > width || w < 0.02) continue;
        pen.fillStyle = data.kinds[block[2]].colour;
        pen.fillRect(x, row.y, Math.max(w - (w > 3 ? 0.5 : 0), 0.3), kRow - 2);
        if (w > 18 && block[4] >= 0) {
          pen.fillStyle = '#fff';
          pen.fillText(String(block[4]), Math.max(x, 0) + 3, row.y + 11);
        }
      }
    }
    pen.fillStyle = ink;
    for (let i = 0; i <= 4; ++i) {
      const at = view.from + (view.to - view.from) * i / 4;
      pen.textAlign = i === 0 ? 'left' : i === 4 ? 'right' : 'center';
      pen.fillText(seconds(at * 1e-9), width * i / 4, height - 4);
    }
    pen.textAlign = 'left';
  }

  function zoom(factor, centre) {
    const all = data.step_s * 1e9;
    const span = Math.min(Math.max((view.to - view.from) * factor, 10), all);
    let from = centre - (centre - view.from) * span / (view.to - view.from);
    from = Math.min(Math.max(from, 0), all - span);
    view.from = from;
    view.to = from + span;
    paint();
  }

  function shift(share) {
    const all = data.step_s * 1e9, span = view.to - view.from;
    view.from = Math.min(Math.max(view.from + share * span, 0), all - span);
    view.to = view.from + span;
    paint();
  }

  function timeAt(event) {
    const box = canvas.getBoundingClientRect();
    return view.from + (event.clientX - box.left) / box.width * (view.to - view.from);
  }

  function tell(event) {
    const y = event.clientY - canvas.getBoundingClientRect().top;
    const row = rows.find((one) => y >= one.y && y < one.y + kRow);
    const at = timeAt(event);
    const block = row && row.blocks.find((one) => at >= one[0] && at <= one[0] + one[1]);
    here.textContent = !block ? '\u00a0' : [
      row.lane + ', ' + row.stream,
      data.kinds[block[2]].name,
      block[7] > 1 ? block[7] + ' operations' : data.names[block[6]],
      block[4] >= 0 ? 'microbatch ' + block[4] : '',
      block[5] >= 0 ? 'layer ' + block[5] : '',
      seconds(block[1] * 1e-9) + ' from ' + seconds(block[0] * 1e-9)
    ].filter((part) => part).join(' · ');
  }

  function listen() {
    let held = null;
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event));
    }, {passive: false});
    canvas.addEventListener('pointerdown', (event) => { held = event.clientX; });
    window.addEventListener('pointerup', () => { held = null; });
    canvas.addEventListener('pointermove', (event) => {
      tell(event);
      if (held === null) return;
      shift((held - event.clientX) / canvas.clientWidth);
      held = event.clientX;
    });
    canvas.addEventListener('keydown', (event) => {
      const middle = (view.from + view.to) / 2;
      if (event.key === '+') zoom(0.8, middle);
      if (event.key === '-') zoom(1.25, middle);
      if (event.key === 'ArrowLeft') shift(-0.2);
      if (event.key === 'ArrowRight') shift(0.2);
    });
    for (const button of document.querySelectorAll('[data-zoom]')) {
      button.addEventListener('click', () => {
        const middle = (view.from + view.to) / 2;
        const act = {
          in: () => zoom(0.5, middle), out: () => zoom(2, middle), left: () => shift(-0.3),
          right: () => shift(0.3), all: () => zoom(1e12, middle)
        };
        act[button.dataset.zoom]();
      });
    }
    window.addEventListener('resize', paint);
    window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', paint);
  }

  function drawTimeline() {
    const used = new Set();
    let blocks = 0;
    for (const lane of data.lanes) {
      blocks += lane.blocks.length;
      for (const block of lane.blocks) used.add(block[2]);
    }
    const keys = document.getElementById('timeline-keys');
    for (const kind of [...used].sort((a, b) => a - b)) {
      const key = element('span', {class: 'key'});
      key.append(element('i', {style: 'background:' + data.kinds[kind].colour}), data.kinds[kind].name);
      keys.append(key);
    }
    document.getElementById('timeline-note').textContent =
      'One rank of each stage; ' + (data.joined
        ? 'operations of one kind and microbatch are drawn as one block (a trace has them all). '
        : '') + 'Wheel or + and - zoom, dragging or the arrows move.';
    document.querySelector('#timeline .tools').hidden = false;
    lay();
    paint();
    listen();
    body.dataset.blocks = String(blocks);
    drawn.push('timeline');
  }

  // ---- memory

  function stacked(stage) {
    const sums = [];
    let below = stage.time_s.map(() => 0);
    for (const values of stage.gib) {
      below = below.map((sum, i) => sum + values[i]);
      sums.push(below);
    }
    return sums;
  }

  function memoryPlot(stage, place) {
    const sums = stacked(stage);
    const order = sums.map((_, i) => i).reverse();  // the highest first, so that lower ones lie on it
    const ink = getComputedStyle(body).color;
    const axis = {stroke: ink, grid: {stroke: '#8884'}, ticks: {stroke: '#8884'}};
    const series = [{label: 's', value: (_, v) => v === null ? '' : seconds(v)}];
    for (const i of order) {
      series.push({
        label: data.categories[i].name, stroke: data.categories[i].colour,
        fill: data.categories[i].colour, paths: uPlot.paths.stepped({align: 1}), points: {show: false},
        value: (_, v, s, at) => at === null ? '' : stage.gib[i][at].toFixed(2) + ' GiB'
      });
    }
    const capacity = stage.capacity_gib;
    if (capacity > 0) {
      series.push({label: 'capacity', stroke: ink, dash: [6, 4], points: {show: false}});
    }
    const columns = [stage.time_s, ...order.map((i) => sums[i])];
    if (capacity > 0) columns.push(stage.time_s.map(() => capacity));
    return new uPlot({
      title: 'Memory of ' + stage.title, width: Math.max(place.clientWidth, 280), height: 300,
      scales: {x: {time: false}}, series,
      axes: [{...axis, label: 'seconds'}, {...axis, label: 'GiB'}]
    }, columns, place);
  }

  function drawMemory() {
    const live = document.getElementById('memory-live');
    if (typeof uPlot === 'undefined' || !live || data.memory.length === 0) return;
    live.hidden = false;
    document.getElementById('memory-still').style.display = 'none';
    const choice = element('select', {'aria-label': 'stage'});
    data.memory.forEach((stage, i) => choice.append(element('option', {value: i}, stage.title)));
    const place = element('div', {
      role: 'img', 'aria-label': 'Memory of one stage over the step, by category; the same in figures below'});
    live.append(choice, place);
    let plot = null;
    const show = () => {
      if (plot) plot.destroy();
      plot = memoryPlot(data.memory[Number(choice.value)], place);
    };
    choice.addEventListener('change', show);
    window.addEventListener('resize', show);
    show();
    drawn.push('memory');
  }

  drawTimeline();
  drawMemory();
  body.dataset.drawn = drawn.join(' ');
})();
