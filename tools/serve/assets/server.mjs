// The server: its token, and the jobs that it does for this page.

const client = crypto.randomUUID?.() ?? String(Math.random());
let token = '';

// The token comes in the address, which is then shown without it, and stays until the tab is closed.
export function takeToken() {
  const given = new URLSearchParams(location.search).get('token');
  if (given) {
    sessionStorage.setItem('trainyard-token', given);
    history.replaceState(null, '', location.pathname + location.hash);
  }
  token = sessionStorage.getItem('trainyard-token') ?? '';
}

export function useToken(text) {
  sessionStorage.setItem('trainyard-token', text.trim());
  token = text.trim();
}

// A refusal, with problems that name fields of the scenario: [{pointer, problem, hint}].
export class Refusal extends Error {
  constructor(kind, problems) {
    super(problems.map((one) => one.problem).join('; '));
    this.kind = kind;
    this.problems = problems;
  }
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, {...options, headers: {...options.headers, Authorization: 'Bearer ' + token}});
  } catch {
    throw new Refusal('connection', [{
      pointer: '', problem: 'the server does not answer', hint: 'is `trainyard serve` still running?'}]);
  }
  if (response.ok) return response;
  const {error} = await response.json();
  throw new Refusal(response.status === 401 ? 'token' : error.kind, error.problems);
}

export const start = async () => (await ask('/api/start')).json();

// Does a job to its end and returns its answer. `row` receives parts of the answer, `progress` the
// fraction that is done. A signal that is aborted cancels the job. Throws Refusal.
export async function job(kind, body, {row, progress, signal} = {}) {
  const response = await ask('/api/jobs?wait_ms=1000', {
    method: 'POST',
    headers: {'Content-Type': 'application/json'},
    body: JSON.stringify({kind, client, ...body})
  });
  let state = await response.json();
  let rows = 0;
  const cancel = () => ask('/api/jobs/' + state.id, {method: 'DELETE'}).catch(() => {});
  signal?.addEventListener('abort', cancel, {once: true});
  if (signal?.aborted) cancel();
  try {
    while (true) {
      for (; row && rows < state.rows.length; ++rows) row(state.rows[rows]);
      if (progress) progress(state.progress);
      if (state.status === 'done') return {...state.answer, job: state.id};
      if (state.status === 'cancelled') throw new Refusal('cancelled', []);
      if (state.status === 'failed') throw new Refusal(state.error.kind, state.error.problems);
      state = await (await ask(`/api/jobs/${state.id}?after=${state.revision}&wait_ms=5000`)).json();
    }
  } finally {
    signal?.removeEventListener('abort', cancel);
  }
}

// The file that a job has written.
export const file = async (id) => (await ask(`/api/jobs/${id}/file`)).blob();
