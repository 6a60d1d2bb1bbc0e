// Elements without markup: everything that comes from the service is text, never HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else node.setAttribute(name, String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function replace(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

let counter = 0;

// A labelled control, with a hint that screen readers hear.
export function field(label, control, hint) {
  const id = `f${++counter}`;
  control.id = id;
  const note = hint ? h("small", { id: `${id}-hint` }, hint) : null;
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: id }, label), control, note);
}

export function choice(names, chosen) {
  return h("select", {}, names.map((name) => {
    const [value, words] = Array.isArray(name) ? name : [name, name];
    return h("option", { value, selected: value === chosen }, words);
  }));
}

// Rows of cells under headings. On a narrow screen each row becomes a card, and cells carry their heading.
export function table(headings, rows, caption) {
  return h("div", { class: "scroll" }, h("table", { role: "table" },
    caption ? h("caption", {}, caption) : null,
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" },
      headings.map((one) => h("th", { scope: "col", role: "columnheader" }, one)))),
    h("tbody", { role: "rowgroup" }, rows.map((cells) => h("tr", { role: "row" }, cells.map((cell, k) =>
      h("td", { role: "cell", "data-label": headings[k] }, cell === null || cell === undefined ? "" : cell)))))));
}

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const tiny = (value) => value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");

export function number(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  if (Number.isInteger(value)) return whole.format(value);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e7) ? tiny(value) : short.format(value);
}

export function time(seconds) {
  if (typeof seconds !== "number") return "–";
  const at = new Date(1000 * seconds);
  const words = at.toISOString().replace("T", " ").slice(0, 19) + " UTC";
  return h("time", { datetime: at.toISOString() }, words);
}

// For screen readers: said once, politely.
export function say(words) {
  const place = document.getElementById("said");
  if (place.textContent !== words) place.textContent = words;
}

// One line below a form: what became of it.
export function outcome() {
  const node = h("p", { class: "outcome", role: "alert" });
  return {
    node,
    clear() { replace(node); node.className = "outcome"; },
    good(...words) { replace(node, ...words); node.className = "outcome good"; },
    bad(problem) { replace(node, problem.detail || String(problem)); node.className = "outcome bad"; },
  };
}

// A form whose button is off while its request is on the way, so that a double click sends it once.
export function form(attributes, send, ...children) {
  const node = h("form", { novalidate: true, ...attributes }, ...children);
  let busy = false;
  node.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (busy) return;
    busy = true;
    node.setAttribute("aria-busy", "true");
    try { await send(event.submitter); } finally { busy = false; node.removeAttribute("aria-busy"); }
  });
  return node;
}

export function confirmed(question, verb) {
  return new Promise((answer) => {
    const end = (value) => () => { dialog.close(); dialog.remove(); answer(value); };
    const dialog = h("dialog", { "aria-label": question, cancel: () => { dialog.remove(); answer(false); } },
      h("p", {}, question),
      h("div", { class: "buttons" },
        h("button", { type: "button", class: "danger", click: end(true) }, verb),
        h("button", { type: "button", autofocus: true, click: end(false) }, "Keep it")));
    document.body.append(dialog);
    dialog.showModal();
  });
}
