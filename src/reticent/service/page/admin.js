// Ledgers, jobs, tokens and the log.

import { freshKey, get, post, remove } from "./api.js";
import { choice, confirmed, field, form, h, number, outcome, replace, table, time } from "./dom.js";
import { meter } from "./pictures.js";

export async function ledgers(page, session) {
  const place = h("div");
  const draw = async () => {
    const found = (await get("/v1/ledgers")).ledgers;
    replace(place, found.length ? found.map((one) => h("section", { class: "card" },
      h("h2", {}, one.name, one.closed ? h("span", { class: "tag look" }, "closed") : null),
      meter(one.closed ? 1 : one.share, `${Math.round(100 * Math.min(1, one.share || 0))} per cent of the budget of ${one.name} is spent`),
      h("dl", { class: "facts" },
        h("div", {}, h("dt", {}, "budget"), h("dd", {}, budget(one.budget))),
        h("div", {}, h("dt", {}, "spent of epsilon"), h("dd", {}, `${number(Math.round(1000 * (one.share || 0)) / 10)} %`)),
        h("div", {}, h("dt", {}, "left"), h("dd", {}, one.remaining))),
      one.closed ? h("p", { class: "outcome bad" }, one.closed) : null,
      h("details", {}, h("summary", {}, one.entries.length === 1 ? "1 charge" : `${number(one.entries.length)} charges`),
        table(["When", "For what", "Cost"], one.entries.map((entry) => [entry.at, entry.what, entry.cost])))))
      : h("p", {}, "There are no ledgers for this token yet."));
  };
  replace(page, h("h1", {}, "Ledgers"), h("p", {}, "What may be spent on the records behind a stream or a table, and what was."),
    place, session.may.includes("administer") ? newLedger(draw) : null);
  await draw();
}

function budget(terms) {
  const rest = terms.window ? `, for ${number(terms.window)} outputs` : terms.fade ? ", fading" : "";
  return `epsilon ${number(terms.epsilon)} at delta ${number(terms.delta)}${rest}`;
}

function newLedger(draw) {
  const name = h("input", { autocomplete: "off" });
  const epsilon = h("input", { inputmode: "decimal", value: "1" });
  const delta = h("input", { inputmode: "decimal", value: "1e-6" });
  const span = h("input", { inputmode: "numeric" });
  const done = outcome();
  return h("section", {}, h("h2", {}, "Add a ledger"), form({}, async () => {
    done.clear();
    const terms = { epsilon: Number(epsilon.value), delta: Number(delta.value) };
    if (span.value.trim()) terms.window = Number(span.value);
    try {
      const found = await post("/v1/ledgers", { name: name.value.trim(), budget: terms });
      done.good(`Added ${found.name}.`);
      await draw();
    } catch (problem) { done.bad(problem); }
  }, field("Name", name), h("div", { class: "row" }, field("Epsilon", epsilon), field("Delta", delta), field("Window", span, "Empty: for ever.")),
  h("div", { class: "buttons" }, h("button", {}, "Add")), done.node));
}

const FITS = [["logistic", "classifier: predicts one of several classes"], ["linear", "regression: predicts a number"],
  ["lasso", "sparse regression: predicts a number"]];

// Fit a model to a table, charged to the ledger of the table's name.
function newFit(tables, ledgers, draw) {
  const chosen = choice(tables.map((one) => one.name), tables[0].name);
  const kind = choice(FITS, "logistic");
  const target = h("select");
  const epsilon = h("input", { inputmode: "decimal", value: "1" });
  const options = h("textarea", { rows: 2, spellcheck: "false" });
  const left = h("p", { class: "hint" });
  const done = outcome();
  const shown = () => {
    const one = tables.find((table) => table.name === chosen.value);
    const ledger = ledgers.find((row) => row.name === one.ledger);
    replace(target, Object.keys(one.schema.columns).map((name) => h("option", { value: name, selected: name === one.schema.target }, name)));
    replace(left, ledger ? `Left in its ledger: ${ledger.remaining}.` : "");
  };
  chosen.addEventListener("change", shown);
  shown();
  let key = freshKey();
  return h("section", {}, h("h2", {}, "Fit a model"), form({}, async () => {
    done.clear();
    const asked = { kind: kind.value, epsilon: Number(epsilon.value), target: target.value };
    try {
      if (options.value.trim()) asked.options = JSON.parse(options.value);
    } catch (error) { done.bad(new Error(`The options are not JSON: ${error.message}.`)); return; }
    try {
      await post(`/v1/tables/${encodeURIComponent(chosen.value)}/fits`, asked, { "Idempotency-Key": key });
      key = freshKey();
      done.good(`A fit of ${chosen.value} waits its turn. Its ledger is charged when it begins to draw noise.`);
      await draw();
    } catch (problem) { done.bad(problem); }
  }, field("Table", chosen), left, h("div", { class: "row" }, field("Kind", kind), field("Column to predict", target), field("Epsilon", epsilon)),
  field("Further options, as JSON", options, 'Arguments of the estimator, such as {"fit_intercept": false}.'),
  h("div", { class: "buttons" }, h("button", {}, "Fit")), done.node));
}

export async function jobs(page) {
  const place = h("div");
  const done = outcome();
  const cancel = (id) => async () => {
    try { await remove(`/v1/jobs/${encodeURIComponent(id)}`); await draw(); } catch (problem) { done.bad(problem); }
  };
  const draw = async () => {
    const found = (await get("/v1/jobs")).jobs;
    replace(place, found.length ? table(["Table", "Fit", "Status", "Since", ""], found.reverse().map((job) => [
      job.table, `${job.request.kind}, epsilon ${number(job.request.epsilon)}`,
      [job.status, job.progress && job.progress.phase ? ` (${job.progress.phase}${"records" in job.progress ? `, ${number(job.progress.records)} records` : ""})` : "", job.detail ? `: ${job.detail}` : ""].join(""),
      time(job.created),
      ["waiting", "running"].includes(job.status) ? h("button", { type: "button", class: "plain", click: cancel(job.id), "aria-label": `Cancel the fit of ${job.table}` }, "Cancel") : "",
    ])) : h("p", {}, "No model was fitted to a table yet."));
  };
  const { tables } = await get("/v1/tables");
  const { ledgers } = await get("/v1/ledgers");
  replace(page, h("h1", {}, "Jobs"), done.node, place, tables.length ? newFit(tables, ledgers, draw)
    : h("p", {}, "There are no tables for this token. An administrator adds one by POST /v1/tables, below a folder that the service was started with (--tables)."));
  await draw();
  const timer = setInterval(() => draw().catch(() => {}), 3000);
  return () => clearInterval(timer);
}

const ROLES = [["writer", "writer: sends records"], ["reader", "reader: reads decisions and ledgers"],
  ["data holder", "data holder: also sees diagnostics"], ["administrator", "administrator: runs the service"]];

export async function tokens(page, session) {
  const place = h("div");
  const done = outcome();
  const revoke = (one) => async () => {
    const words = one.id === session.id ? "This is the token that you are signed in with. Revoke it?" : `Revoke the token ${one.label || one.id}?`;
    if (!(await confirmed(words, "Revoke"))) return;
    try { await remove(`/v1/tokens/${encodeURIComponent(one.id)}`); await draw(); } catch (problem) { done.bad(problem); }
  };
  const draw = async () => {
    const found = (await get("/v1/tokens")).tokens;
    replace(place, table(["Label", "Role", "Streams", "Made", "Expires", ""], found.map((one) => [
      one.label || one.id, one.role + (one.id === session.id ? " (you)" : ""), one.streams ? one.streams.join(", ") || "none" : "all",
      time(one.created), one.expires ? time(one.expires) : "never",
      h("button", { type: "button", class: "plain", click: revoke(one), "aria-label": `Revoke the token ${one.label || one.id}` }, "Revoke"),
    ])));
  };
  const names = (await get("/v1/streams")).streams.map((one) => one.name);
  const role = choice(ROLES, "writer");
  const label = h("input", { autocomplete: "off", maxlength: 200 });
  const granted = h("select", { multiple: true, size: Math.min(6, Math.max(2, names.length)) }, names.map((name) => h("option", { value: name }, name)));
  const days = h("input", { inputmode: "numeric", value: "90" });
  let key = freshKey();
  const make = form({}, async () => {
    done.clear();
    const asked = { role: role.value, label: label.value };
    const chosen = [...granted.selectedOptions].map((option) => option.value);
    if (chosen.length) asked.streams = chosen;
    if (days.value.trim()) asked.expires_in = 86400 * Number(days.value);
    try {
      const found = await post("/v1/tokens", asked, { "Idempotency-Key": key });
      key = freshKey();
      done.good("Made. It is shown once: ", h("code", { class: "token" }, found.token));
      await draw();
    } catch (problem) { done.bad(problem); }
  }, field("Role", role), field("Label", label, "For whom it is."), field("Streams", granted, "None chosen: all, also those to come."),
  field("Expires after days", days, "Empty: never."), h("div", { class: "buttons" }, h("button", {}, "Make a token")), done.node);
  replace(page, h("h1", {}, "Tokens"), place, h("h2", {}, "Make a token"), make);
  await draw();
}

export async function log(page) {
  const place = h("div");
  const more = h("div", { class: "buttons" });
  const shown = [];
  const draw = async (before) => {
    const found = await get(`/v1/log${before === undefined ? "" : `?before=${before}`}`);
    shown.push(...found.acts);
    replace(place, table(["When", "Who", "What", "About", "Number", "Hash"], shown.map((one) => [
      time(one.at), one.by ? `${one.by.label || one.by.id} (${one.by.role})` : "the service", one.act,
      Object.entries(one.about).map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", "),
      number(one.number), h("code", {}, one.hash.slice(0, 12)),
    ])));
    const last = shown.length ? shown[shown.length - 1].number : 0;
    replace(more, last > 0 ? h("button", { type: "button", class: "plain", click: () => draw(last) }, "Earlier") : []);
    replace(heads, table(["Chain", "Rows", "Head"], found.heads.map((one) => [one.chain, number(one.rows), h("code", {}, one.hash)])));
  };
  const heads = h("div");
  replace(page, h("h1", {}, "Who did what"),
    h("p", {}, "Every administrative act and every release is a row of a chain of hashes: changing or removing one changes all that follow. reticent serve verify checks the chains; keep the heads below elsewhere, to notice when rows at the end are missing."),
    place, more, h("details", {}, h("summary", {}, "Heads of the chains"), heads));
  await draw();
}
