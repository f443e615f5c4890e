// Looks at pages in frames of several widths, in both themes, and writes what is wrong into the element "found", one
// fault a line; then "done". tools/web/check_page makes the frames, in a page that loads this script: data-page of a
// frame is the page, and data-sections the sections that it must have, empty for the report of a run.
'use strict';
window.addEventListener('load', () => {
  const faults = [];
  const kReport = ['sensitivities', 'fits', 'memory', 'breakdown', 'path', 'pipeline', 'timeline', 'links', 'topology',
    'costs', 'notes', 'scenario', 'terms'];

  // Did the script run, and are all parts there, with words for those who cannot see them?
  function complete(frame, tell) {
    const page = frame.contentDocument, drawn = page.body.dataset.drawn || '';
    const report = frame.dataset.sections === '';
    if (!drawn.startsWith('page')) tell('the script did not run');
    if (report && drawn !== 'page timeline memory') tell(`timeline or memory curves are not drawn: "${drawn}"`);
    if (report && !(Number(page.body.dataset.blocks) > 0)) tell('the timeline is empty');
    for (const part of report ? kReport : frame.dataset.sections.split(',')) {
      if (!page.querySelector(`section[id="${part}"]`)) tell(`a section is missing: ${part}`);
      if (!page.querySelector(`a[href="#${part}"]`)) tell(`the list of contents lacks a section: ${part}`);
    }
    const charts = [...page.querySelectorAll('svg[data-chart]')];
    const untitled = charts.filter((chart) => !chart.querySelector(':scope > title')?.textContent).length;
    if (untitled > 0) tell(`${untitled} of ${charts.length} charts have no title`);
    for (const canvas of page.querySelectorAll('canvas[id]'))
      if (!canvas.getAttribute('aria-label')) tell('a canvas has no label');
    if (/(src|href)="?(https?:)?\/\//.test(page.documentElement.outerHTML)) tell('it asks for something from elsewhere');
  }

  // Pairs of texts of one picture that lie on each other by more than a pixel.
  function overlaps(picture) {
    const texts = [...picture.querySelectorAll('text')]
      .map((text) => ({words: text.textContent, box: text.getBoundingClientRect()}))
      .filter((text) => text.box.width > 0);
    const found = [];
    for (let i = 0; i < texts.length; ++i) {
      for (let j = i + 1; j < texts.length; ++j) {
        const a = texts[i].box, b = texts[j].box;
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 2) found.push(`"${texts[i].words}" on "${texts[j].words}"`);
      }
    }
    return found;
  }

  function look(frame, width, tell) {
    const view = frame.contentWindow, root = frame.contentDocument.documentElement;
    const errors = frame.contentDocument.body.dataset.errors;
    if (errors !== '') tell(`at ${width} pixels the script failed: ${errors}`);
    if (root.scrollWidth > view.innerWidth) tell(`at ${width} pixels the page is ${root.scrollWidth} wide`);
    for (const picture of frame.contentDocument.querySelectorAll('svg[data-chart]')) {
      const title = picture.querySelector('title')?.textContent;
      const pairs = overlaps(picture);
      if (pairs.length > 0)
        tell(`at ${width} pixels texts overlap in "${title}": ${pairs.length} pairs, such as ${pairs[0]}`);
    }
  }

  const colours = (frame) => {
    const style = frame.contentWindow.getComputedStyle(frame.contentDocument.body);
    return style.color + ' on ' + style.backgroundColor;
  };

  function switchTheme(frame, tell) {
    const before = colours(frame);
    frame.contentDocument.getElementById('theme').click();
    const after = colours(frame);
    if (before === after) tell('the theme switch changes no colour');
    frame.contentDocument.getElementById('theme').click();
    if (colours(frame) !== before) tell('the theme switch does not go back');
  }

  // The first mark of a chart has a read-out for the keyboard.
  function readOut(frame, tell) {
    const chart = [...frame.contentDocument.querySelectorAll('[data-chart]')].find((one) => one.querySelector('[data-tip]:not([data-tip=""])'));
    if (!chart) return;
    chart.focus();
    chart.dispatchEvent(new frame.contentWindow.KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
    const tip = frame.contentDocument.getElementById('tip');
    if (tip.hidden || !tip.textContent) tell('a chart has no read-out for the keyboard');
  }

  // A mark, and the first stream of a timeline, have a read-out under the pointer.
  function point(frame, target, x, y) {
    const tip = frame.contentDocument.getElementById('tip');
    tip.hidden = true;
    target.dispatchEvent(new frame.contentWindow.PointerEvent('pointermove', {clientX: x, clientY: y, bubbles: true}));
    return !tip.hidden;
  }

  function pointAt(frame, tell) {
    const mark = frame.contentDocument.querySelector('[data-chart] rect[data-tip], [data-chart] .point, td[data-tip]');
    if (mark) {
      mark.scrollIntoView({block: 'center'});
      const box = mark.getBoundingClientRect();
      if (!point(frame, mark, box.left + box.width / 2, box.top + box.height / 2))
        tell('a mark has no read-out under the pointer');
    }
    const canvas = frame.contentDocument.getElementById('timeline-canvas');
    if (!canvas) return;
    canvas.scrollIntoView();
    const box = canvas.getBoundingClientRect();
    let told = false;
    for (let x = box.left + box.width / 3; x < box.right && !told; x += 7) told = point(frame, canvas, x, box.top + 30);
    if (!told) tell('the timeline has no read-out under the pointer');
  }

  // A column that was sorted is in order, and sorting it again turns it round.
  function sortTable(frame, tell) {
    const button = frame.contentDocument.querySelector('table.sorts th button.sort');
    if (!button) return;
    button.click();
    const head = button.closest('th');
    if (head.getAttribute('aria-sort') !== 'ascending') tell('a table does not sort');
    button.click();
    if (head.getAttribute('aria-sort') !== 'descending') tell('a table does not sort the other way');
  }

  // The first frame of a page tells what does not depend on the width.
  const seen = new Set();
  for (const frame of document.querySelectorAll('iframe')) {
    const name = frame.dataset.page, tell = (fault) => faults.push(`${name}: ${fault}`);
    try {
      if (!seen.has(name)) complete(frame, tell);
      seen.add(name);
      look(frame, frame.clientWidth, tell);
      switchTheme(frame, tell);
      readOut(frame, tell);
      pointAt(frame, tell);
      sortTable(frame, tell);
    } catch (error) {
      tell('the check itself failed: ' + error.message);
    }
  }
  document.getElementById('found').textContent = [...faults, 'done'].join('\n');
});
