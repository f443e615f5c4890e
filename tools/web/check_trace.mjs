// Proves that a trace of ours loads in Perfetto's own engine without a dropped slice.
//
//   node check_trace.mjs --engine DIRECTORY trace.json.gz [--slices N] [--flows N]
//   node check_trace.mjs --engine DIRECTORY trace.pftrace --contents
//
// What must be found is written at the end of the trace itself ("trainyard": {...}); the options
// override it. --contents prints instead what the engine found, in lines that traces of one run in
// two formats have in common.
// Exit code 0: as it should be; 1: not; 77: the engine cannot be loaded (the caller decides).

import {createReadStream} from 'node:fs';
import {parseArgs} from 'node:util';
import {createGunzip} from 'node:zlib';

import {loadEngine} from './perfetto_engine.mjs';

const SKIPPED = 77;
const TAIL_BYTES = 4096;

async function tailOf(file) {
  const bytes = createReadStream(file);
  let tail = '';
  for await (const chunk of file.endsWith('.gz') ? bytes.pipe(createGunzip()) : bytes) {
    tail = (tail + chunk.toString('latin1')).slice(-TAIL_BYTES);
  }
  return tail;
}

async function expectation(file, options) {
  const written = /"trainyard": (\{[^{}]*\})/.exec(await tailOf(file));
  const expected = written ? JSON.parse(written[1]) : {};
  for (const key of ['slices', 'flows']) {
    if (options[key] !== undefined) expected[key] = Number(options[key]);
  }
  if (expected.slices === undefined || expected.flows === undefined) {
    throw new Error(`${file} does not say what it holds; give --slices and --flows`);
  }
  return expected;
}

// [what, SQL that yields one number, the key of the expectation or the number itself]
const CHECKS = [
  ['slices', 'select count(*) as n from slice', 'slices'],
  ['nanoseconds in slices', 'select coalesce(sum(dur), 0) as n from slice', 'slice_ns'],
  ['flows', 'select count(*) as n from flow', 'flows'],
  ['flows from a slice to itself', 'select count(*) as n from flow where slice_out = slice_in', 0],
  ['named processes', 'select count(*) as n from process where name is not null', 'processes'],
  ['named threads with slices',
   `select count(distinct utid) as n from thread_track t join slice s on s.track_id = t.id
    join thread using (utid) where thread.name is not null`, 'threads'],
  ['slices on threads without a name',
   `select count(*) as n from slice s left join thread_track t on s.track_id = t.id
    left join thread using (utid) where thread.name is null`, 0],
  ['slices in processes without a name',
   `select count(*) as n from slice s join thread_track t on s.track_id = t.id
    join thread using (utid) left join process using (upid) where process.name is null`, 0],
  ['values of counters', 'select count(*) as n from counter', 'counter_values'],
  ['slices without a name', `select count(*) as n from slice where name is null or name = ''`, 0],
];

async function check(engine, expected) {
  let faults = 0;
  for (const [what, sql, key] of CHECKS) {
    const wanted = typeof key === 'number' ? key : expected[key];
    if (wanted === undefined) continue;
    const [{n}] = await engine.rows(sql);
    const fine = BigInt(n) === BigInt(wanted);
    faults += fine ? 0 : 1;
    console.log(`${fine ? 'ok  ' : 'FAIL'} ${what}: ${n}${fine ? '' : `, expected ${wanted}`}`);
  }
  const lost = await engine.rows(
      `select name, value from stats where value > 0 and severity in ('error', 'data_loss')`);
  for (const {name, value} of lost) console.log(`FAIL the engine reports ${name}: ${value}`);
  if (lost.length === 0) console.log('ok   the engine reports no error and no lost data');
  return faults + lost.length;
}

// [what, SQL that yields rows in an order of their own]. Numbers that the track says are left out of
// a slice's arguments, as are those of launches.
const CONTENTS = [
  ['slice',
   `select pid, process.name, tid, thread.name, ts, dur, category, slice.name,
      (select group_concat(one, '; ') from (
         select substr(key, instr(key, '.') + 1) || '=' || display_value as one from args
         where args.arg_set_id = slice.arg_set_id and (key glob 'args.*' or key glob 'debug.*') and
           substr(key, instr(key, '.') + 1) not in ('device', 'context', 'stream', 'correlation')
         order by one))
    from slice join thread_track on thread_track.id = track_id
    join thread using (utid) join process using (upid) order by 1, 3, 5, 6, 7, 8, 9`],
  ['value',
   `select pid, process.name, track.name, ts, printf('%.12g', value) as value from counter
    join process_counter_track track on track.id = track_id join process using (upid)
    order by 1, 3, 4, 5`],
  ['arrow',
   `with ends as (select slice.id, pid, tid, ts from slice
      join thread_track on thread_track.id = track_id join thread using (utid)
      join process using (upid))
    select a.pid, a.tid, a.ts, b.pid, b.tid, b.ts from flow
    join ends a on a.id = slice_out join ends b on b.id = slice_in order by 1, 2, 3, 4, 5, 6`],
];

async function printContents(engine) {
  for (const [what, sql] of CONTENTS) {
    const rows = await engine.rows(sql);
    if (rows.length === 0) console.log(`no ${what}`);
    for (const row of rows) console.log(`${what}: ${Object.values(row).join(' | ')}`);
  }
}

async function main() {
  const {values: options, positionals: files} = parseArgs({
    allowPositionals: true,
    options: {engine: {type: 'string'}, slices: {type: 'string'}, flows: {type: 'string'},
              contents: {type: 'boolean'}},
  });
  if (files.length !== 1 || options.engine === undefined) {
    console.error('usage: check_trace.mjs --engine DIRECTORY TRACE [--slices N] [--flows N] [--contents]');
    return 2;
  }
  const expected = options.contents ? {} : await expectation(files[0], options);
  let engine;
  try {
    engine = await loadEngine(options.engine);
  } catch (error) {
    console.error('NOTHING WAS CHECKED, the trace engine cannot be loaded:', error.message);
    return SKIPPED;
  }
  await engine.load(files[0]);
  if (options.contents) {
    await printContents(engine);
    return 0;
  }
  return await check(engine, expected) === 0 ? 0 : 1;
}

process.exit(await main().catch((error) => {
  console.error(`FAIL ${error.stack}`);
  return 1;
}));
