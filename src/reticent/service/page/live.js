// Where every stream stands, kept up to date by one connection for the whole page.

const KEPT = 120; // seconds of samples, for records a second

export const streams = new Map();
const listeners = new Set();
let source = null;
let ahead = 0; // the service's clock less this one's, in seconds

export const now = () => Date.now() / 1000 + ahead;

export function listen(call) {
  listeners.add(call);
  return () => listeners.delete(call);
}

function take(event) {
  const found = JSON.parse(event.data);
  ahead = found.now - Date.now() / 1000;
  if (found.all) {
    const names = new Set(found.streams.map((one) => one.name));
    for (const name of streams.keys()) if (!names.has(name)) streams.delete(name);
  }
  for (const one of found.streams) {
    const before = streams.get(one.name);
    const samples = before ? before.samples : [];
    samples.push([one.decided_at, one.steps]);
    while (samples.length > 1 && samples[1][0] < now() - KEPT) samples.shift();
    streams.set(one.name, { ...one, samples });
  }
  for (const call of listeners) call(found.streams.map((one) => one.name));
}

export function open() {
  close();
  source = new EventSource("/v1/events");
  source.addEventListener("streams", take);
}

export function close() {
  if (source) source.close();
  source = null;
  streams.clear();
}

// Samples of [time, records so far] as records a second in equal bins up to now.
export function rates(samples, bins = 60, width = 2) {
  const end = now();
  const at = (time) => {
    let last = samples.length ? samples[0][1] : 0;
    for (const [when, steps] of samples) { if (when > time) break; last = steps; }
    return last;
  };
  const out = [];
  for (let k = bins; k > 0; k--) {
    const from = end - k * width;
    out.push([-(k - 1) * width, (at(from + width) - at(from)) / width]);
  }
  return out;
}

// Records a second over the last ten seconds, or since the first sample if that is later.
export function rate(samples) {
  if (samples.length < 2) return 0;
  const end = now();
  const first = samples.find(([when]) => when >= end - 10);
  if (!first) return 0;
  const steps = samples[samples.length - 1][1] - first[1];
  return Number((steps / Math.max(1, end - first[0])).toPrecision(3));
}

// What was published before this page was opened.
export function seed(name, samples) {
  const known = streams.get(name);
  if (!known) return;
  const first = known.samples.length ? known.samples[0][0] : Infinity;
  known.samples.unshift(...samples.filter(([when]) => when < first && when >= now() - KEPT));
}
