// Pictures as SVG, each with the table that it was drawn from.

import { h, number, replace, s, table } from "./dom.js";

const COLOURS = 6;
const BAND = 1.96; // standard deviations that a 95 % band reaches to each side

function ticks(low, high, count) {
  const span = high - low || 1;
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((one) => one >= rough);
  const out = [];
  for (let at = Math.ceil(low / step) * step; at <= high + 1e-9 * span; at += step) out.push(Math.abs(at) < 1e-9 * step ? 0 : at);
  return out;
}

function decades(low, high) {
  const out = [];
  for (let k = Math.ceil(Math.log10(low)); k <= Math.floor(Math.log10(high) + 1e-9); k++) out.push(10 ** k);
  return out;
}

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const label = (value) => (Math.abs(value) >= 1e4 ? compact.format(value) : number(Number(value.toPrecision(6))));

/* Lines over time, with bands where points have a third number, the standard deviation.
   options: title, x, y (names of the axes), log (of x), zero (whether y begins at 0), note. */
export function lines(options) {
  const svg = s("svg", { role: "img", class: "picture" });
  const legend = h("ul", { class: "legend" });
  const behind = h("div");
  const details = h("details", {}, h("summary", {}, "As a table"), behind);
  const caption = h("figcaption", {}, options.note || "");
  const node = h("figure", {}, h("h3", {}, options.title), svg, legend, caption, details);
  let series = [];
  const draw = () => { if (node.isConnected) paint(svg, series, options); };
  const fillTable = () => { if (details.open) replace(behind, asTable(series, options)); };
  details.addEventListener("toggle", fillTable);
  new ResizeObserver(draw).observe(node);
  return {
    node,
    update(found, note) {
      series = found;
      if (note !== undefined) replace(caption, note);
      replace(legend, series.length > 1 || options.legend ? series.map((one, k) =>
        h("li", { class: `c${k % COLOURS}` }, s("svg", { class: "swatch", viewBox: "0 0 24 8", "aria-hidden": "true" },
          s("line", { x1: 0, x2: 24, y1: 4, y2: 4, class: `line d${k % COLOURS}` })), one.name)) : []);
      draw();
      fillTable();
    },
  };
}

function paint(svg, series, options) {
  const width = Math.max(280, Math.floor(svg.parentNode.clientWidth - 2));
  const height = Math.min(280, Math.max(180, Math.round(width * 0.45)));
  const box = { left: 58, right: width - 12, top: 10, bottom: height - 40 };
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  const points = series.flatMap((one) => one.points).filter((point) => Number.isFinite(point[1]));
  if (!points.length) {
    svg.setAttribute("aria-label", `${options.title}: nothing yet`);
    replace(svg, s("text", { x: width / 2, y: height / 2, "text-anchor": "middle", class: "muted" }, "nothing yet"));
    return;
  }
  const spread = (point) => (point[2] ? BAND * point[2] : 0);
  let [x0, x1] = [Math.min(...points.map((p) => p[0])), Math.max(...points.map((p) => p[0]))];
  let [y0, y1] = [Math.min(...points.map((p) => p[1] - spread(p))), Math.max(...points.map((p) => p[1] + spread(p)))];
  if (options.zero) [y0, y1] = [Math.min(0, y0), Math.max(y1, 0)];
  if (x0 === x1) x1 = x0 + 1;
  if (y0 === y1) [y0, y1] = options.zero ? [0, y1 || 1] : [y0 - 1, y1 + 1];
  const pad = 0.04 * (y1 - y0);
  [y0, y1] = [options.zero && y0 === 0 ? 0 : y0 - pad, y1 + pad];
  const inner = (value) => (options.log ? Math.log10(value) : value);
  const X = (value) => box.left + ((inner(value) - inner(x0)) / (inner(x1) - inner(x0))) * (box.right - box.left);
  const Y = (value) => box.bottom - ((value - y0) / (y1 - y0)) * (box.bottom - box.top);
  const parts = [];
  for (const at of ticks(y0, y1, 4)) {
    parts.push(s("line", { class: "grid", x1: box.left, x2: box.right, y1: Y(at), y2: Y(at) }));
    parts.push(s("text", { class: "muted", x: box.left - 6, y: Y(at) + 4, "text-anchor": "end" }, label(at)));
  }
  for (const at of options.log ? decades(x0, x1) : ticks(x0, x1, width < 450 ? 3 : 6)) {
    parts.push(s("line", { class: "grid", x1: X(at), x2: X(at), y1: box.top, y2: box.bottom }));
    parts.push(s("text", { class: "muted", x: X(at), y: box.bottom + 15, "text-anchor": "middle" }, label(at)));
  }
  parts.push(s("text", { class: "muted", x: (box.left + box.right) / 2, y: height - 6, "text-anchor": "middle" }, options.x));
  const coordinate = (x, y) => `${x.toFixed(1)},${y.toFixed(1)}`;
  series.forEach((one, k) => {
    const drawn = one.points.filter((p) => Number.isFinite(p[1]));
    if (drawn.some((p) => p[2])) {
      const upper = drawn.map((p) => coordinate(X(p[0]), Y(p[1] + spread(p))));
      const lower = drawn.map((p) => coordinate(X(p[0]), Y(p[1] - spread(p)))).reverse();
      parts.push(s("polygon", { class: `band c${k % COLOURS}`, points: [...upper, ...lower].join(" ") }));
    }
    const path = drawn.map((p) => coordinate(X(p[0]), Y(p[1])));
    parts.push(s("polyline", { class: `line c${k % COLOURS} d${k % COLOURS}`, points: path.join(" ") }));
    const last = drawn[drawn.length - 1];
    if (last) parts.push(s("circle", { class: `dot c${k % COLOURS}`, cx: X(last[0]), cy: Y(last[1]), r: 3 }));
  });
  if (options.mark && options.mark >= x0 && options.mark <= x1) {
    parts.push(s("line", { class: "mark", x1: X(options.mark), x2: X(options.mark), y1: box.top, y2: box.bottom }));
  }
  svg.setAttribute("aria-label", `${options.title}. ${words(series, options)}`);
  replace(svg, parts);
}

function words(series, options) {
  const latest = series.slice(0, COLOURS).map((one) => {
    const last = one.points[one.points.length - 1];
    if (!last) return null;
    const band = last[2] ? `, give or take ${number(BAND * last[2])}` : "";
    return `${one.name}: ${number(last[1])}${band} at ${number(last[0])} ${options.x}`;
  });
  return latest.filter(Boolean).join("; ");
}

function asTable(series, options) {
  const banded = series.some((one) => one.points.some((p) => p[2]));
  const headings = [options.x, ...series.flatMap((one) => (banded ? [one.name, `± (95 %)`] : [one.name]))];
  const longest = series.reduce((most, one) => (one.points.length > most.length ? one.points : most), []);
  const stride = Math.max(1, Math.ceil(longest.length / 40));
  const rows = [];
  for (let k = longest.length - 1; k >= 0; k -= stride) {
    rows.push([number(longest[k][0]), ...series.flatMap((one) => {
      const point = one.points[k] || [];
      return banded ? [number(point[1]), number(point[2] === undefined ? NaN : BAND * point[2])] : [number(point[1])];
    })]);
  }
  return table(headings, rows, stride > 1 ? `every ${stride}th point, the latest first` : "the latest first");
}

export function sparkline(points) {
  const most = Math.max(...points.map((p) => p[1]), 1e-9);
  const path = points.map((p, k) => `${(k * 80) / (points.length - 1)},${(20 - (18 * p[1]) / most).toFixed(1)}`);
  return s("svg", { class: "spark", viewBox: "0 0 80 22", "aria-hidden": "true" },
    s("polyline", { class: "line c0", points: path.join(" ") }));
}

// How much of a budget is spent, as a meter that is read out.
export function meter(share, words) {
  const part = Math.max(0, Math.min(1, share || 0));
  return h("div", { class: "meter", role: "meter", "aria-valuemin": 0, "aria-valuemax": 100,
    "aria-valuenow": Math.round(100 * part), "aria-label": words },
  s("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "empty", width: 100, height: 8, rx: 2 }),
    s("rect", { class: part > 0.999 ? "full" : "part", width: 100 * part, height: 8, rx: 2 })));
}
