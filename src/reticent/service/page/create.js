// Create a stream from a schema, by a form.

import { get, post, send } from "./api.js";
import { choice, field, form, h, number, outcome, replace } from "./dom.js";

const TYPES = [["number", "number"], ["boolean", "true or false"], ["category", "one of several values"], ["ignore", "not used"]];
const KINDS = [
  ["logistic", "classifier: predicts one of several classes"], ["linear", "regression: predicts a number"],
  ["total", "running totals of every column"], ["bandit", "bandit: plays points, learns from their losses"],
];

function columnRow(rows, given = {}) {
  const name = h("input", { autocomplete: "off", value: given.name || "", placeholder: "name", "aria-label": "Name of the column" });
  const type = choice(TYPES, given.type || "number");
  type.setAttribute("aria-label", "Type of the column");
  const low = h("input", { inputmode: "decimal", value: given.bounds ? given.bounds[0] : "", placeholder: "least", "aria-label": "Least value" });
  const high = h("input", { inputmode: "decimal", value: given.bounds ? given.bounds[1] : "", placeholder: "largest", "aria-label": "Largest value" });
  const several = h("input", { value: given.values ? given.values.join(", ") : "", placeholder: "north, south, west", "aria-label": "Values, with commas between them" });
  const target = h("input", { type: "radio", name: "target", checked: Boolean(given.target), "aria-label": "This column is predicted" });
  const bounds = h("span", { class: "bounds" }, low, " to ", high);
  const node = h("div", { class: "column", role: "group", "aria-label": "Column" }, name, type, bounds, several,
    h("label", { class: "target" }, target, " predict"),
    h("button", { type: "button", class: "plain", "aria-label": "Remove this column", click: () => { rows.delete(row); node.remove(); } }, "Remove"));
  const shown = () => { bounds.hidden = type.value !== "number"; several.hidden = type.value !== "category"; };
  type.addEventListener("change", shown);
  shown();
  const row = {
    node,
    target,
    read() {
      const out = { type: type.value };
      if (out.type === "number") out.bounds = [Number(low.value), Number(high.value)];
      if (out.type === "number" && (!low.value.trim() || !high.value.trim() || out.bounds.some(Number.isNaN))) {
        throw new Error(`column ${name.value || "without a name"}: a number needs a least and a largest value that are public`);
      }
      if (out.type === "category") out.values = several.value.split(",").map((one) => one.trim()).filter(Boolean);
      if (!name.value) throw new Error("a column has no name");
      return [name.value, out];
    },
  };
  rows.add(row);
  return node;
}

export async function create(page) {
  const { ledgers } = await get("/v1/ledgers");
  const rows = new Set();
  const name = h("input", { autocomplete: "off", spellcheck: "false" });
  const kind = choice(KINDS, "logistic");
  const columns = h("div", { class: "columns" });
  const file = h("input", { type: "file", accept: ".json,application/json" });
  const epsilon = h("input", { inputmode: "decimal", value: "1" });
  const delta = h("input", { inputmode: "decimal", value: "1e-6" });
  const span = h("input", { inputmode: "numeric", value: "1024" });
  const ledger = choice([["", "one of its own"], ...ledgers.map((one) => [one.name, one.name])], "");
  const publish = choice([["request", "after every request"], ["every", "after every record"]], "request");
  const options = h("textarea", { rows: 3, spellcheck: "false" });
  const done = outcome();
  const schema = h("fieldset", {}, h("legend", {}, "Schema"),
    h("p", { class: "hint" }, "The columns of a record. Bounds are public: they must not be read off private records."),
    columns, h("div", { class: "buttons" },
      h("button", { type: "button", class: "plain", click: () => { columns.append(columnRow(rows)); columns.lastChild.querySelector("input").focus(); } }, "Add a column")),
    field("Or read a schema file", file, "As reticent schema writes it: JSON with columns and a target."));
  const shown = () => {
    schema.hidden = kind.value === "bandit";
    columns.classList.toggle("no-target", kind.value === "total");
  };
  kind.addEventListener("change", shown);
  shown();
  columns.append(columnRow(rows), columnRow(rows, { type: "boolean", target: true }));

  file.addEventListener("change", async () => {
    done.clear();
    try {
      const found = JSON.parse(await file.files[0].text());
      if (!found || typeof found.columns !== "object") throw new Error("it has no columns");
      rows.clear();
      replace(columns, Object.entries(found.columns).map(([column, one]) =>
        columnRow(rows, { name: column, ...one, target: column === found.target })));
    } catch (error) { done.bad(new Error(`The schema file cannot be read: ${error.message}`)); }
  });

  const specification = () => {
    const out = { name: name.value.trim(), kind: kind.value, publish: publish.value,
      budget: { epsilon: Number(epsilon.value), delta: Number(delta.value) } };
    if (span.value.trim()) out.budget.window = Number(span.value);
    if (ledger.value) out.ledger = ledger.value;
    if (kind.value !== "bandit") {
      const all = [...rows].map((row) => [row.read(), row.target.checked]);
      out.schema = { columns: Object.fromEntries(all.map(([pair]) => pair)) };
      if (Object.keys(out.schema.columns).length < all.length) throw new Error("two columns have the same name");
      const chosen = all.find(([, target]) => target);
      if (kind.value !== "total" && chosen) out.schema.target = chosen[0][0];
    }
    return options.value.trim() ? { ...out, ...JSON.parse(options.value) } : out;
  };

  const submit = async (submitter) => {
    done.clear();
    let asked;
    try { asked = specification(); } catch (error) { done.bad(new Error(`This form is not complete: ${error.message}.`)); return; }
    try {
      if (submitter && submitter.value === "estimate") {
        const found = await post("/v1/estimate", asked);
        done.good(`It would guarantee ${found.guarantee.text}. ${found.fits ? "Its ledger can pay." : "Its ledger cannot pay."} Left: ${found.remaining}.`);
        return;
      }
      const { status, found } = await send("POST", "/v1/streams", asked);
      done.good(status === 200 ? "This stream is there already, as asked for, and nothing was charged again. " : "Created, and charged to its ledger. ",
        h("a", { href: `#/streams/${encodeURIComponent(found.name)}` }, `Open ${found.name}`));
    } catch (problem) { done.bad(problem); }
  };

  replace(page, h("p", {}, h("a", { href: "#/streams" }, "Streams")), h("h1", {}, "Create a stream"), form({}, submit,
    field("Name", name, "Letters, digits, _, . and -; at most 64."), field("Kind", kind), schema,
    h("fieldset", {}, h("legend", {}, "Budget"),
      h("div", { class: "row" }, field("Epsilon", epsilon), field("Delta", delta),
        field("Window", span, "Outputs for which a record is protected; empty: for ever, and then the options need a horizon.")),
      field("Ledger that pays", ledger, ledgers.length ? `There are ${number(ledgers.length)}; what is left is on the page of ledgers.` : undefined)),
    field("A decision is published", publish),
    field("Further options, as JSON", options, 'Such as {"horizon": 100000}; a bandit needs {"set": {"kind": "Simplex", "dim": 3}, "values": [0, 1]}.'),
    h("div", { class: "buttons" },
      h("button", { value: "create" }, "Create"),
      h("button", { value: "estimate", class: "plain" }, "What would it cost?")), done.node));
}
