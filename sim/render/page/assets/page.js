// What paper cannot do, on every page: a theme switch, read-outs at the pointer, tables that sort.
// Errors and what was drawn are left on <body> as data-* for tests to read.
'use strict';
const page = (() => {
  const body = document.body;
  const root = document.documentElement;
  const errors = [];
  window.addEventListener('error', (event) => {
    errors.push(event.message);
    body.dataset.errors = errors.join('; ');
  });
  body.dataset.errors = '';

  function element(name, attributes, text) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // ---- theme

  const system = window.matchMedia('(prefers-color-scheme: dark)');
  const button = document.getElementById('theme');
  const isDark = () => (root.dataset.theme ? root.dataset.theme === 'dark' : system.matches);

  // Tells what is drawn by hand that colours have changed.
  function themeChanged() {
    button.textContent = isDark() ? 'Light' : 'Dark';
    button.setAttribute('aria-label', isDark() ? 'Use light colours' : 'Use dark colours');
    document.dispatchEvent(new Event('themechange'));
  }

  function setTheme(theme) {
    root.dataset.theme = theme;
    try { localStorage.setItem('trainyard-theme', theme); } catch (refused) { /* a page from disk may not store */ }
    themeChanged();
  }

  button.hidden = false;
  button.addEventListener('click', () => setTheme(isDark() ? 'light' : 'dark'));
  system.addEventListener('change', themeChanged);
  themeChanged();

  // ---- read-outs

  const tip = element('div', {id: 'tip', role: 'status', hidden: ''});
  body.append(tip);

  function showTip(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const right = window.innerWidth - box.width - 4;
    tip.style.left = Math.max(4, Math.min(x + 14, right)) + 'px';
    const below = y + 18;
    tip.style.top = (below + box.height < window.innerHeight ? below : Math.max(4, y - 12 - box.height)) + 'px';
  }

  function hideTip() { tip.hidden = true; }

  // A finger that is lifted leaves the read-out until it touches something else.
  function leaves(event) { return event.pointerType !== 'touch'; }

  window.addEventListener('scroll', hideTip, {passive: true});
  document.addEventListener('pointerdown', (event) => {
    if (!event.target.closest('[data-chart], a.term, canvas')) hideTip();
  });
  window.addEventListener('keydown', (event) => { if (event.key === 'Escape') hideTip(); });

  // Terms: the glossary's entry at the pointer, for the keyboard and for fingers as well.
  for (const term of document.querySelectorAll('a.term')) {
    const entry = document.getElementById(term.getAttribute('href').slice(1));
    if (!entry) continue;
    const show = () => {
      const box = term.getBoundingClientRect();
      showTip(entry.textContent + ': ' + entry.nextElementSibling.textContent, box.left, box.bottom - 12);
    };
    term.addEventListener('pointerenter', show);
    term.addEventListener('pointerleave', hideTip);
    term.addEventListener('focus', show);
    term.addEventListener('blur', hideTip);
    term.addEventListener('click', (event) => {
      event.preventDefault();
      show();
    });
  }

  // The mark of a chart under the pointer, or the nearest within a few pixels.
  function markAt(chart, event) {
    for (const reach of [0, 4, 8]) {
      for (const [x, y] of [[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]]) {
        const found = document.elementFromPoint(event.clientX + reach * x, event.clientY + reach * y);
        const mark = found && found.closest('[data-tip]');
        if (mark && chart.contains(mark)) return mark;
      }
    }
    return null;
  }

  for (const chart of document.querySelectorAll('[data-chart]')) {
    const marks = [...chart.querySelectorAll('[data-tip]')].filter((mark) => mark.dataset.tip);
    if (marks.length === 0) continue;
    chart.tabIndex = 0;
    let at = -1;
    const choose = (mark) => {
      for (const old of chart.querySelectorAll('.at')) old.classList.remove('at');
      at = marks.indexOf(mark);
      if (mark) mark.classList.add('at');
    };
    const leave = () => { choose(null); hideTip(); };
    const point = (event) => {
      const mark = markAt(chart, event);
      choose(mark);
      if (mark) showTip(mark.dataset.tip, event.clientX, event.clientY); else hideTip();
    };
    chart.addEventListener('pointermove', point);
    chart.addEventListener('pointerdown', point);
    chart.addEventListener('pointerleave', (event) => { if (leaves(event)) leave(); });
    chart.addEventListener('blur', leave);
    chart.addEventListener('keydown', (event) => {
      const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
      if (!step) return;
      event.preventDefault();
      const next = at < 0 ? 0 : (at + step + marks.length) % marks.length;
      choose(marks[next]);
      const box = marks[next].getBoundingClientRect();
      showTip(marks[next].dataset.tip, box.left + Math.min(box.width, 60), box.top);
    });
  }

  // ---- tables

  const factors = {ns: 1e-9, us: 1e-6, 'µs': 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400};
  for (const [power, prefix] of ['K', 'M', 'G', 'T', 'P'].entries()) {
    factors[prefix + 'iB'] = 1024 ** (power + 1);
    factors[prefix.replace('K', 'k') + 'B'] = 1000 ** (power + 1);
  }

  // The number at the start of a text, in the base unit; NaN where there is none.
  function numberOf(text) {
    const found = text.replace(/(\d) (?=\d{3}\b)/g, '$1').match(/^\s*([+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([A-Za-zµ]*)/);
    return found ? Number(found[1]) * (factors[found[2]] || 1) : NaN;
  }

  function sortBy(table, column, down) {
    const rows = [...table.tBodies[0].rows];
    const texts = new Map(rows.map((row) => [row, row.cells[column].textContent]));
    const numeric = rows.every((row) => !Number.isNaN(numberOf(texts.get(row))) || /^-?$/.test(texts.get(row)));
    const order = (a, b) => {
      const one = texts.get(a), other = texts.get(b);
      if (!numeric) return one.localeCompare(other);
      const [x, y] = [numberOf(one), numberOf(other)];
      return Number.isNaN(x) - Number.isNaN(y) || x - y;
    };
    rows.sort((a, b) => (down ? order(b, a) : order(a, b)));
    table.tBodies[0].append(...rows);
  }

  for (const table of document.querySelectorAll('table.sorts')) {
    if (table.tBodies[0].rows.length < 2) continue;
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (!head.textContent) return;
      const sort = element('button', {class: 'sort', type: 'button', 'aria-label': 'Sort by ' + head.textContent}, '↕');
      sort.addEventListener('click', () => {
        const down = head.getAttribute('aria-sort') === 'ascending';
        for (const other of heads) {
          other.removeAttribute('aria-sort');
          const mark = other.querySelector('.sort');
          if (mark) mark.textContent = '↕';
        }
        head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        sort.textContent = down ? '↓' : '↑';
        sortBy(table, column, down);
      });
      head.append(sort);
    });
  }

  body.dataset.drawn = 'page';
  return {element, showTip, hideTip, leaves};
})();
