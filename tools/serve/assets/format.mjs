// Numbers as people read them, and elements of the page.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === 'class') made.className = value;
    else if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children.filter((child) => child !== undefined && child !== null));
  return made;
}

// Replaces the children only where something changes, so that a reader's place is kept.
export function fill(place, ...children) {
  place.replaceChildren(...children.filter((child) => child !== undefined && child !== null));
}

function scaled(value, units) {
  if (value === 0) return '0 ' + units.find(([size]) => size === 1)[1];
  for (const [size, unit] of units) {
    if (Math.abs(value) >= size) return significant(value / size) + ' ' + unit;
  }
  const [size, unit] = units[units.length - 1];
  return significant(value / size) + ' ' + unit;
}

// Four digits, without an exponent: 0.01234, 1.234, 1234.
export function significant(value, digits = 4) {
  if (value === 0) return '0';
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(places, 12));
}

export const seconds = (value) =>
  scaled(value, [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']]);
export const bytes = (value) =>
  scaled(value, [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B']]);
export const rate = (value) => scaled(value, [[1e12, 'TB/s'], [1e9, 'GB/s'], [1e6, 'MB/s'], [1, 'B/s']]);
export const percent = (share) => (100 * share).toFixed(1) + ' %';

// "+2.5 %", and "0.0 %" without a sign.
export function signedPercent(share) {
  const text = Math.abs(100 * share).toFixed(1);
  return (text === '0.0' ? '' : share < 0 ? '−' : '+') + text + ' %';
}

// Digits in threes: "9 931".
export function grouped(value) {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ' ');
}

// "1.5 T", "70.6 B"
export const counted = (value) => scaled(value, [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'k'], [1, '']]).trim();

// "15T" -> 1.5e13; NaN for what is no number.
export function parseCount(text) {
  const match = /^\s*([\d.]+(?:e\d+)?)\s*([kMBTG]?)\s*$/i.exec(text);
  if (!match) return NaN;
  const factors = {'': 1, k: 1e3, m: 1e6, b: 1e9, g: 1e9, t: 1e12};
  return Number(match[1]) * factors[match[2].toLowerCase()];
}

// "exposed_tensor" -> "exposed tensor"
export const words = (name) => name.replaceAll('_', ' ');

// With a capital letter and a full stop.
export const sentence = (text) => text.trim().replace(/^./, (letter) => letter.toUpperCase()) + '.';
