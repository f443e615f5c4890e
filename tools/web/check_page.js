// Looks at a page in frames of several widths, in both themes, and writes what is wrong into the element "found",
// one fault a line; then "done". tools/web/check_page makes the frames, in a page that loads this script.
'use strict';
window.addEventListener('load', () => {
  const faults = [];

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

  function look(frame, width) {
    const view = frame.contentWindow, root = frame.contentDocument.documentElement;
    const errors = frame.contentDocument.body.dataset.errors;
    if (errors) faults.push(`at ${width} pixels the script failed: ${errors}`);
    if (root.scrollWidth > view.innerWidth)
      faults.push(`at ${width} pixels the page is ${root.scrollWidth} wide`);
    for (const picture of frame.contentDocument.querySelectorAll('svg[data-chart]')) {
      const title = picture.querySelector('title').textContent;
      const pairs = overlaps(picture);
      if (pairs.length > 0)
        faults.push(`at ${width} pixels texts overlap in "${title}": ${pairs.length} pairs, such as ${pairs[0]}`);
    }
  }

  const colours = (frame) => {
    const style = frame.contentWindow.getComputedStyle(frame.contentDocument.body);
    return style.color + ' on ' + style.backgroundColor;
  };

  function switchTheme(frame) {
    const before = colours(frame);
    frame.contentDocument.getElementById('theme').click();
    const after = colours(frame);
    if (before === after) faults.push('the theme switch changes no colour');
    frame.contentDocument.getElementById('theme').click();
    if (colours(frame) !== before) faults.push('the theme switch does not go back');
  }

  // The first mark of a chart has a read-out for the keyboard.
  function readOut(frame) {
    const chart = [...frame.contentDocument.querySelectorAll('[data-chart]')].find((one) => one.querySelector('[data-tip]:not([data-tip=""])'));
    if (!chart) return;
    chart.focus();
    chart.dispatchEvent(new frame.contentWindow.KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
    const tip = frame.contentDocument.getElementById('tip');
    if (tip.hidden || !tip.textContent) faults.push('a chart has no read-out for the keyboard');
  }

  // A mark, and the first stream of a timeline, have a read-out under the pointer.
  function point(frame, target, x, y) {
    const tip = frame.contentDocument.getElementById('tip');
    tip.hidden = true;
    target.dispatchEvent(new frame.contentWindow.PointerEvent('pointermove', {clientX: x, clientY: y, bubbles: true}));
    return !tip.hidden;
  }

  function pointAt(frame) {
    const mark = frame.contentDocument.querySelector('[data-chart] rect[data-tip], [data-chart] .point, td[data-tip]');
    if (mark) {
      mark.scrollIntoView({block: 'center'});
      const box = mark.getBoundingClientRect();
      if (!point(frame, mark, box.left + box.width / 2, box.top + box.height / 2))
        faults.push('a mark has no read-out under the pointer');
    }
    const canvas = frame.contentDocument.getElementById('timeline-canvas');
    if (!canvas) return;
    canvas.scrollIntoView();
    const box = canvas.getBoundingClientRect();
    let told = false;
    for (let x = box.left + box.width / 3; x < box.right && !told; x += 7) told = point(frame, canvas, x, box.top + 30);
    if (!told) faults.push('the timeline has no read-out under the pointer');
  }

  // A column that was sorted is in order, and sorting it again turns it round.
  function sortTable(frame) {
    const button = frame.contentDocument.querySelector('table.sorts th button.sort');
    if (!button) return;
    button.click();
    const head = button.closest('th');
    if (head.getAttribute('aria-sort') !== 'ascending') faults.push('a table does not sort');
    button.click();
    if (head.getAttribute('aria-sort') !== 'descending') faults.push('a table does not sort the other way');
  }

  try {
    for (const frame of document.querySelectorAll('iframe')) {
      look(frame, frame.clientWidth);
      switchTheme(frame);
      readOut(frame);
      pointAt(frame);
      sortTable(frame);
    }
  } catch (error) {
    faults.push('the check itself failed: ' + error.message);
  }
  document.getElementById('found').textContent = [...faults, 'done'].join('\n');
});
