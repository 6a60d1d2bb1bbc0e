// The list of streams, and the page of one.

import { get, post, remove, stream } from "./api.js";
import { confirmed, form, h, field, number, outcome, replace, say, table, time } from "./dom.js";
import * as live from "./live.js";
import { lines, sparkline } from "./pictures.js";

const DRAWN = 6;

export function list(page, session) {
  const place = h("div");
  const create = session.may.includes("administer")
    ? h("p", {}, h("a", { class: "button", href: "#/new" }, "Create a stream")) : null;
  replace(page, h("h1", {}, "Streams"), create, place);
  const draw = () => {
    const found = [...live.streams.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    if (!found.length) {
      replace(place, h("p", {}, "There are no streams for this token yet."));
      return;
    }
    replace(place, table(["Stream", "Kind", "Records", "Decisions", "Records per second", "Latest decision"], found.map((one) => [
      h("a", { href: `#/streams/${encodeURIComponent(one.name)}` }, one.name),
      one.kind + (one.closed ? " (closed)" : ""), number(one.steps), number(one.decision_number),
      h("span", { class: "nowrap" }, number(live.rate(one.samples)), " ", sparkline(live.rates(one.samples, 30, 4))),
      time(one.decided_at),
    ])));
  };
  draw();
  const timer = setInterval(draw, 2000);
  const stop = live.listen(draw);
  return () => { clearInterval(timer); stop(); };
}

// A decision as named numbers, with a standard deviation where there is one.
function values(found, about) {
  const decision = found.decision;
  if (about.kind === "total") {
    return Object.entries(decision.sums).map(([name, value]) => [name, value, decision.standard_deviation * about.scales[name]]);
  }
  if (about.kind === "bandit") return (decision.point || []).map((value, k) => [`coordinate ${k + 1}`, value]);
  const several = decision.coefficients.length > 1;
  return decision.coefficients.flatMap((row, c) => {
    const suffix = several ? ` (${about.classes[c]})` : "";
    return [...row.map((value, k) => [about.features[k] + suffix, value]), [`intercept${suffix}`, decision.intercepts[c]]];
  });
}

function toSeries(history, about) {
  const byName = new Map();
  for (const found of history) {
    for (const [name, value, deviation] of values(found, about)) {
      if (!byName.has(name)) byName.set(name, []);
      byName.get(name).push([found.steps, value, deviation]);
    }
  }
  const all = [...byName].map(([name, points]) => ({ name, points }));
  const size = (one) => Math.abs(one.points[one.points.length - 1][1]);
  const drawn = all.length > DRAWN ? [...all].sort((a, b) => size(b) - size(a)).slice(0, DRAWN) : all;
  return [drawn, all];
}

const WHAT = {
  total: ["Totals", "Bands hold 95 % of the noise that was added; sums and counts are those of the columns."],
  bandit: ["Points that were played", "One point per question; what it cost is not shown, because it is private."],
  logistic: ["Coefficients", "Of features scaled to [-1, 1]. No band: the noise of a learner reaches its coefficients through its path, and no formula for it is claimed here."],
};
WHAT.linear = WHAT.logistic;

export async function one(page, session, name) {
  const [about, past, byAge] = await Promise.all([
    get(stream(name)), get(`${stream(name)}/decisions?points=200`), get(`${stream(name)}/guarantee`),
  ]);
  const history = past.decisions;
  const [title, note] = WHAT[about.kind];
  // totals have units of their own, so each has a picture of its own
  const apart = about.kind === "total";
  const drawings = h("section", { class: apart ? "several" : "", "aria-label": title });
  const pictures = new Map();
  const picture = (key, words, more) => {
    if (!pictures.has(key)) {
      pictures.set(key, lines({ title: words, x: "records", note, legend: !apart, ...more }));
      drawings.append(pictures.get(key).node);
    }
    return pictures.get(key);
  };
  const ages = lines({ title: "Guarantee by age", x: "outputs since the record", log: true, zero: true, mark: byAge.window });
  const speed = lines({ title: "Records per second", x: "seconds from now", zero: true, note: "The last two minutes." });
  const facts = h("dl", { class: "facts" });
  const closed = h("div");
  replace(page, h("p", {}, h("a", { href: "#/streams" }, "Streams")), h("h1", {}, name), closed, facts,
    h("p", { class: "guarantee" }, h("strong", {}, "Guarantee. "), about.guarantee.text, ". ", byAge.odds),
    about.guarantee.caveats.length ? h("ul", {}, about.guarantee.caveats.map((line) => h("li", {}, line))) : null,
    drawings, ages.node, speed.node,
    session.may.includes("send") && about.kind !== "bandit" ? sending(name, about) : null,
    session.may.includes("inspect") ? diagnostics(name) : null,
    described(about), session.may.includes("administer") ? deletion(name) : null);

  ages.update([{ name: "epsilon", points: byAge.ages.map((age, k) => [age, byAge.epsilons[k]]) }],
    `Epsilon at delta = ${number(byAge.delta)}, about one ${byAge.unit}, for whoever sees the outputs up to that age.`
    + (byAge.window ? ` The dashed line is the window of ${number(byAge.window)}.` : ""));

  const fact = (words, value) => h("div", {}, h("dt", {}, words), h("dd", {}, value));
  const draw = () => {
    const latest = history[history.length - 1];
    const known = live.streams.get(name);
    replace(facts, fact("kind", about.kind), fact("records", number(latest.steps)), fact("decisions", number(latest.number)),
      fact("records a second", number(known ? live.rate(known.samples) : 0)),
      fact("ledger", session.may.includes("ledgers") ? h("a", { href: "#/ledgers" }, about.ledger) : about.ledger));
    const [drawn, all] = toSeries(history, about);
    const shown = note + (drawn.length < all.length ? ` The ${drawn.length} largest of ${all.length} are shown.` : "");
    if (apart) for (const single of all.slice(0, 12)) picture(single.name, single.name).update([single], "");
    else picture("", title).update(drawn, shown);
    if (apart && !drawings.querySelector(".wide")) drawings.append(h("p", { class: "muted wide" }, note));
    if (about.closed) replace(closed, h("p", { class: "outcome bad" }, "Closed: ", about.closed));
  };
  const tick = () => {
    const known = live.streams.get(name);
    if (known) speed.update([{ name: "records a second", points: live.rates(known.samples) }]);
  };
  live.seed(name, history.map((found) => [found.at, found.steps]));
  draw();
  tick();
  let reading = false;
  let told = 0;
  const follow = async (names) => {
    if (!names.includes(name) || reading) return;
    reading = true;
    try {
      let seen = -1;
      while (live.streams.has(name) && live.streams.get(name).decision_number > Math.max(seen, history[history.length - 1].number)) {
        const found = await get(`${stream(name)}/decisions/latest`);
        seen = found.decision_number;
        history.push({ number: found.decision_number, steps: found.steps, at: found.decided_at, decision: found.decision });
        if (history.length > 600) for (let k = history.length - 3; k > 0; k -= 2) history.splice(k, 1);
      }
      draw();
      if (Date.now() - told > 10000) {
        told = Date.now();
        say(`${name}: ${number(history[history.length - 1].steps)} records, ${number(history[history.length - 1].number)} decisions`);
      }
    } catch { /* said at the next visit; a live picture has nobody to interrupt */ } finally { reading = false; }
  };
  const stop = live.listen(follow);
  const timer = setInterval(tick, 2000);
  return () => { clearInterval(timer); stop(); };
}

function sending(name, about) {
  const labelled = about.kind !== "total";
  const columns = Object.entries(about.specification.schema.columns).filter(([column, one]) => one.type !== "ignore" && column !== about.specification.schema.target);
  const cell = (one) => (one.type === "number" ? one.bounds[0] : one.type === "boolean" ? true : one.values[0]);
  const x = Object.fromEntries(columns.map(([column, one]) => [column, cell(one)]));
  const target = labelled ? about.specification.schema.columns[about.specification.schema.target] : null;
  const text = h("textarea", { rows: 4, spellcheck: "false", autocomplete: "off" });
  const done = outcome();
  return h("section", {}, h("h2", {}, "Send records"), form({}, async () => {
    done.clear();
    try {
      const sent = await post(`${stream(name)}/records`, text.value);
      done.good(`${number(sent.accepted)} accepted, ${number(sent.repeated)} repeated, ${number(sent.refused)} refused; decision ${number(sent.decision_number)}.`);
    } catch (problem) { done.bad(problem); }
  }, field("Records, one JSON object per line", text,
    `For example ${JSON.stringify({ id: "visit-1", x, ...(labelled ? { y: cell(target) } : {}) })}. A record that is sent twice under one id is counted once.`),
  h("div", { class: "buttons" }, h("button", {}, "Send")), done.node));
}

function diagnostics(name) {
  const place = h("div");
  const done = outcome();
  return h("section", { class: "private", "aria-labelledby": "diagnostics" },
    h("h2", { id: "diagnostics" }, "Diagnostics ", h("span", { class: "tag look" }, "reads private data")),
    h("p", {}, "For the data holder alone. No guarantee covers these numbers: do not publish them, and choose nothing by them that is published."),
    form({}, async () => {
      done.clear();
      try {
        const { warning, ...found } = await get(`${stream(name)}/diagnostics`);
        replace(place, table(["What", "Count"], Object.entries(found).map(([what, value]) =>
          [what.replaceAll("_", " "), typeof value === "number" ? number(value) : JSON.stringify(value)]), warning));
      } catch (problem) { done.bad(problem); }
    }, h("div", { class: "buttons" }, h("button", {}, "Show"))), done.node, place);
}

function described(about) {
  return h("details", {}, h("summary", {}, "Specification"), h("pre", {}, JSON.stringify(about.specification, null, 2)));
}

function deletion(name) {
  const done = outcome();
  return h("section", {}, h("h2", {}, "Delete"), form({}, async () => {
    if (!(await confirmed(`Delete the stream ${name}? Its state and decisions are erased; what it spent stays spent, and its name is not used again.`, "Delete"))) return;
    try {
      await remove(stream(name));
      location.hash = "#/streams";
    } catch (problem) { done.bad(problem); }
  }, h("div", { class: "buttons" }, h("button", { class: "danger" }, "Delete this stream"))), done.node);
}
