// The scenario as a document: its fields by path, its history, and its link.

export function get(document, path) {
  return path.split('.').reduce((value, key) => (value === undefined || value === null ? undefined : value[key]), document);
}

// Changes the document. An undefined value removes the key.
export function set(document, path, value) {
  const keys = path.split('.');
  const last = keys.pop();
  let place = document;
  for (const key of keys) {
    if (typeof place[key] !== 'object' || place[key] === null) place[key] = {};
    place = place[key];
  }
  if (value === undefined) delete place[last];
  else place[last] = value;
}

// {"parallelism.tensor": 8, ...}
export function flattened(value, path = '', result = new Map()) {
  if (value !== null && typeof value === 'object') {
    for (const [key, part] of Object.entries(value)) flattened(part, path ? path + '.' + key : key, result);
  } else {
    result.set(path, value);
  }
  return result;
}

// [[path, value in a, value in b]] of the fields that differ; words for people are no settings.
export function differences(a, b) {
  const left = flattened(a), right = flattened(b);
  const skipped = /^(\$schema|description|source|assumptions|published)(\.|$)/;
  return [...new Set([...left.keys(), ...right.keys()])]
    .filter((path) => !skipped.test(path) && left.get(path) !== right.get(path))
    .map((path) => [path, left.get(path), right.get(path)]);
}

// States that one can go back to and forth again.
export class History {
  #states = [];
  #at = -1;

  get canUndo() { return this.#at > 0; }
  get canRedo() { return this.#at < this.#states.length - 1; }
  add(state) {
    const text = JSON.stringify(state);
    if (text === this.#states[this.#at]) return;
    this.#states.length = this.#at + 1;
    this.#states.push(text);
    if (this.#states.length > 200) this.#states.shift();
    this.#at = this.#states.length - 1;
  }
  undo() { return JSON.parse(this.#states[--this.#at]); }
  redo() { return JSON.parse(this.#states[++this.#at]); }
}

async function through(stream, bytes) {
  const writer = stream.writable.getWriter();
  writer.write(bytes).catch(() => {});
  writer.close().catch(() => {});
  return new Uint8Array(await new Response(stream.readable).arrayBuffer());
}

// The state as text for the part of an address behind "#": compressed, in base64 for addresses.
export async function toLink(state) {
  const packed = await through(new CompressionStream('deflate-raw'), new TextEncoder().encode(JSON.stringify(state)));
  let text = '';
  for (const byte of packed) text += String.fromCharCode(byte);
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

// Throws for a text that is no link.
export async function fromLink(text) {
  const packed = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(await through(new DecompressionStream('deflate-raw'), bytes)));
}
