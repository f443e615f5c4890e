// The timeline of a run, which zooms, and the values of memory curves at the pointer.
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('page-data').textContent);
  const body = document.body;

  function seconds(value) {
    if (value === 0) return '0 s';
    if (value >= 1) return value.toPrecision(4) + ' s';
    if (value >= 1e-3) return (value * 1e3).toPrecision(4) + ' ms';
    return (value * 1e6).toPrecision(4) + ' µs';
  }

  // ---- timeline

  const canvas = document.getElementById('timeline-canvas');
  const kRow = 16, kHead = 22, kAxis = 20;
  const view = {from: 0, to: data.step_s * 1e9};
  const rows = [];  // {y, blocks, stream, lane}, from top to bottom
  const heads = [];
  let height = 0, names = 0;  // names: the width of the names of streams
  const chosen = {row: 0, block: -1};  // of the keyboard

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
      height += 6;
    }
    height += kAxis;
  }

  function paintRow(pen, row, width, per) {
    pen.fillStyle = getComputedStyle(body).color;
    pen.textAlign = 'right';
    pen.fillText(row.stream, names - 6, row.y + 11, names - 8);
    pen.textAlign = 'left';
    pen.save();
    pen.beginPath();
    pen.rect(names, row.y, width, kRow);
    pen.clip();
    // Blocks narrower than half a pixel share it: the pixel is as dark as they fill it.
    const thin = new Map();
    for (const block of row.blocks) {
      const x = names + (block[0] - view.from) * per, w = block[1] * per;
      if (x + w < names || x > names + width) continue;
      if (w < 0.5) {
        const shared = thin.get(Math.floor(x)) || {share: 0, kind: block[2]};
        shared.share += w;
        thin.set(Math.floor(x), shared);
        continue;
      }
      pen.fillStyle = data.kinds[block[2]].colour;
      pen.fillRect(x, row.y, w - (w > 3 ? 0.5 : 0), kRow - 2);
      if (w > 18 && block[4] >= 0) {
        pen.fillStyle = data.kinds[block[2]].text;
        pen.fillText(String(block[4]), Math.max(x, names) + 3, row.y + 11);
      }
    }
    for (const [x, shared] of thin) {
      pen.globalAlpha = Math.min(1, Math.max(0.15, shared.share));
      pen.fillStyle = data.kinds[shared.kind].colour;
      pen.fillRect(x, row.y, 1, kRow - 2);
    }
    pen.restore();
  }

  function paint() {
    const scale = window.devicePixelRatio || 1;
    const all = canvas.clientWidth;
    canvas.width = all * scale;
    canvas.height = height * scale;
    canvas.style.height = height + 'px';
    const pen = canvas.getContext('2d');
    pen.scale(scale, scale);
    pen.clearRect(0, 0, all, height);
    pen.font = '12px system-ui, sans-serif';
    const longest = Math.max(...rows.map((row) => pen.measureText(row.stream).width), 0);
    names = Math.min(longest + 10, all / 3);
    const width = all - names;
    const per = width / (view.to - view.from);
    const ink = getComputedStyle(body).color;
    pen.fillStyle = ink;
    for (const head of heads) pen.fillText(head.title, 2, head.y + 16);
    for (const row of rows) paintRow(pen, row, width, per);
    pen.fillStyle = ink;
    const ticks = width < 500 ? 2 : 4;
    for (let i = 0; i <= ticks; ++i) {
      pen.textAlign = i === 0 ? 'left' : i === ticks ? 'right' : 'center';
      pen.fillText(seconds((view.from + (view.to - view.from) * i / ticks) * 1e-9), names + width * i / ticks, height - 5);
    }
    pen.textAlign = 'left';
  }

  function setView(from, span) {
    const all = data.step_s * 1e9;
    const length = Math.min(Math.max(span, 10), all);
    view.from = Math.min(Math.max(from, 0), all - length);
    view.to = view.from + length;
    paint();
  }

  function zoom(factor, centre) {
    const span = view.to - view.from;
    setView(centre - (centre - view.from) * Math.min(factor, data.step_s * 1e9 / span), span * factor);
  }

  function shift(share) { setView(view.from + share * (view.to - view.from), view.to - view.from); }

  function timeAt(event) {
    const box = canvas.getBoundingClientRect();
    return view.from + (event.clientX - box.left - names) / (box.width - names) * (view.to - view.from);
  }

  function blockText(row, block) {
    return [
      data.kinds[block[2]].name,
      block[7] > 1 ? block[7] + ' operations' : data.names[block[6]],
      [block[4] >= 0 ? 'microbatch ' + block[4] : '', block[5] >= 0 ? 'layer ' + block[5] : ''].filter((part) => part).join(', '),
      seconds(block[1] * 1e-9) + ' from ' + seconds(block[0] * 1e-9),
      row.stream + ' of ' + row.lane
    ].filter((part) => part).join('\n');
  }

  function tell(event) {
    const y = event.clientY - canvas.getBoundingClientRect().top;
    const row = rows.find((one) => y >= one.y && y < one.y + kRow);
    const at = timeAt(event);
    const block = row && row.blocks.find((one) => at >= one[0] && at <= one[0] + one[1]);
    if (block) page.showTip(blockText(row, block), event.clientX, event.clientY); else page.hideTip();
  }

  // Up and down choose a stream, Enter its next block.
  function choose(key) {
    if (key === 'Enter') {
      chosen.block = (chosen.block + 1) % rows[chosen.row].blocks.length;
    } else {
      chosen.row = (chosen.row + (key === 'ArrowDown' ? 1 : rows.length - 1)) % rows.length;
      chosen.block = rows[chosen.row].blocks.findIndex((one) => one[0] + one[1] > view.from);
      if (chosen.block < 0) chosen.block = 0;
    }
    const row = rows[chosen.row], block = row.blocks[chosen.block];
    if (block[0] > view.to || block[0] + block[1] < view.from) setView(block[0], view.to - view.from);
    const box = canvas.getBoundingClientRect();
    const x = names + Math.max(block[0] - view.from, 0) / (view.to - view.from) * (box.width - names);
    page.showTip(blockText(row, block), box.left + x, box.top + row.y);
  }

  function pressed(event) {
    const middle = (view.from + view.to) / 2;
    const act = {
      '+': () => zoom(0.8, middle), '-': () => zoom(1.25, middle), ArrowLeft: () => shift(-0.2),
      ArrowRight: () => shift(0.2), ArrowUp: () => choose('ArrowUp'), ArrowDown: () => choose('ArrowDown'),
      Enter: () => choose('Enter')
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  function listen() {
    let held = null;
    // The wheel alone scrolls the page.
    canvas.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, timeAt(event));
    }, {passive: false});
    canvas.addEventListener('pointerdown', (event) => { held = event.clientX; tell(event); });
    window.addEventListener('pointerup', () => { held = null; });
    canvas.addEventListener('pointermove', (event) => {
      tell(event);
      if (held === null) return;
      shift((held - event.clientX) / (canvas.clientWidth - names));
      held = event.clientX;
    });
    canvas.addEventListener('pointerleave', (event) => { if (page.leaves(event)) page.hideTip(); });
    canvas.addEventListener('blur', page.hideTip);
    canvas.addEventListener('keydown', pressed);
    for (const button of document.querySelectorAll('[data-zoom]')) {
      button.addEventListener('click', () => {
        const middle = (view.from + view.to) / 2;
        ({
          in: () => zoom(0.5, middle), out: () => zoom(2, middle), left: () => shift(-0.3),
          right: () => shift(0.3), all: () => zoom(1e12, middle)
        })[button.dataset.zoom]();
      });
    }
    window.addEventListener('resize', paint);
    document.addEventListener('themechange', paint);
  }

  function drawTimeline() {
    if (!canvas) return;
    const used = new Set();
    let blocks = 0;
    for (const lane of data.lanes) {
      blocks += lane.blocks.length;
      for (const block of lane.blocks) used.add(block[2]);
    }
    const keys = document.getElementById('timeline-keys');
    for (const kind of [...used].sort((a, b) => a - b)) {
      const key = page.element('span', {class: 'key'});
      key.append(page.element('i', {style: 'background:' + data.kinds[kind].colour}), data.kinds[kind].name);
      keys.append(key);
    }
    document.getElementById('timeline-note').textContent =
      'One rank of each stage. ' + (data.joined
        ? 'Operations of one kind and microbatch are one block; a trace has them all. '
        : '') + 'Drag to move; Shift and the wheel, + and - zoom; the arrow keys and Enter walk through it.';
    document.querySelector('#timeline .tools').hidden = false;
    lay();
    paint();
    listen();
    body.dataset.blocks = String(blocks);
    body.dataset.drawn += ' timeline';
  }

  // ---- memory

  function memoryText(stage, at) {
    const total = stage.gib.reduce((sum, values) => sum + values[at], 0);
    const parts = stage.gib.map((values, i) => data.categories[i].name + ': ' + values[at].toFixed(2) + ' GiB')
      .filter((_, i) => stage.gib[i][at] > 0);
    return [seconds(stage.time_s[at]) + ': ' + total.toFixed(2) + ' GiB', ...parts.reverse()].join('\n');
  }

  // The last point at or before a time.
  function pointAt(stage, time) {
    let at = 0;
    while (at + 1 < stage.time_s.length && stage.time_s[at + 1] <= time) ++at;
    return at;
  }

  function watchMemory(chart, stage) {
    const cursor = chart.querySelector('.cursor');
    chart.tabIndex = 0;
    let at = 0;
    const show = (x, y) => {
      const place = stage.time_s[at] / data.step_s * 100 + '%';
      cursor.setAttribute('x1', place);
      cursor.setAttribute('x2', place);
      cursor.setAttribute('visibility', 'visible');
      page.showTip(memoryText(stage, at), x, y);
    };
    const leave = () => {
      cursor.setAttribute('visibility', 'hidden');
      page.hideTip();
    };
    const point = (event) => {
      const box = chart.getBoundingClientRect();
      const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
      at = pointAt(stage, share * data.step_s);
      show(event.clientX, event.clientY);
    };
    chart.addEventListener('pointermove', point);
    chart.addEventListener('pointerdown', point);
    chart.addEventListener('pointerleave', (event) => { if (page.leaves(event)) leave(); });
    chart.addEventListener('blur', leave);
    chart.addEventListener('keydown', (event) => {
      const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (!step) return;
      event.preventDefault();
      at = Math.min(Math.max(at + step * Math.ceil(stage.time_s.length / 100), 0), stage.time_s.length - 1);
      const box = chart.getBoundingClientRect();
      show(box.left + stage.time_s[at] / data.step_s * box.width, box.top + 40);
    });
  }

  drawTimeline();
  for (const chart of document.querySelectorAll('svg[data-memory]'))
    watchMemory(chart, data.memory[Number(chart.dataset.memory)]);
  if (document.querySelector('svg[data-memory]')) body.dataset.drawn += ' memory';
})();
