// Signing in, and which page is shown.

import { call, get, Problem, whenSignedOut } from "./api.js";
import { ledgers, jobs, log, tokens } from "./admin.js";
import { create } from "./create.js";
import { field, form, h, outcome, replace } from "./dom.js";
import * as live from "./live.js";
import { list, one } from "./streams.js";

const PAGES = [
  ["streams", "Streams", "list", list], ["ledgers", "Ledgers", "ledgers", ledgers], ["jobs", "Jobs", "fit", jobs],
  ["tokens", "Tokens", "administer", tokens], ["log", "Who did what", "administer", log],
];
const page = document.getElementById("main");
const nav = document.getElementById("nav");
const who = document.getElementById("who");
let session = null;
let leave = () => {};
let turn = 0;

async function show() {
  if (!session) return;
  const mine = ++turn;
  leave();
  leave = () => {};
  const [name = "streams", ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  const wanted = name || "streams";
  for (const link of nav.querySelectorAll("a")) {
    if (link.getAttribute("href") === `#/${wanted}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const found = PAGES.find(([key, , action]) => key === wanted && session.may.includes(action));
  const inner = h("div");
  replace(page, h("p", { class: "muted" }, "Loading"));
  let end;
  try {
    if (wanted === "new" && session.may.includes("administer")) end = await create(inner, session);
    else if (wanted === "streams" && rest.length) end = await one(inner, session, decodeURIComponent(rest[0]));
    else if (found) end = await found[3](inner, session);
    else throw new Problem(404, { detail: "There is no such page for this token." });
  } catch (problem) {
    if (!session) return;
    replace(inner, h("h1", {}, "Refused"), h("p", { class: "outcome bad", role: "alert" }, problem.detail || String(problem)));
  }
  if (mine !== turn || !session) {
    if (end) end();
    return;
  }
  if (end) leave = end;
  replace(page, inner);
  const heading = inner.querySelector("h1");
  document.title = heading ? `${heading.textContent} · Reticent` : "Reticent";
  if (heading) { heading.tabIndex = -1; heading.focus({ preventScroll: true }); }
  window.scrollTo(0, 0);
}

function signIn(problem) {
  turn++;
  leave();
  leave = () => {};
  live.close();
  session = null;
  nav.hidden = true;
  replace(who);
  const token = h("input", { type: "password", autocomplete: "off", spellcheck: "false" });
  const done = outcome();
  if (problem) done.bad(problem);
  replace(page, h("h1", {}, "Sign in"), form({ class: "narrow" }, async () => {
    done.clear();
    try {
      begin(await call("POST", "/v1/session", { token: token.value }));
    } catch (refusal) { done.bad(refusal); token.focus(); }
  }, field("Token", token, "It begins with ret_. It is exchanged for a cookie that no script can read and that holds for 12 hours."),
  h("div", { class: "buttons" }, h("button", {}, "Sign in")), done.node));
  document.title = "Sign in · Reticent";
  token.focus();
}

function begin(found) {
  session = found;
  nav.hidden = false;
  replace(nav, PAGES.filter(([, , action]) => session.may.includes(action)).map(([key, words]) => h("a", { href: `#/${key}` }, words)));
  replace(who, h("span", {}, session.label ? `${session.label} (${session.role})` : session.role),
    h("button", { type: "button", class: "plain", click: async () => { await call("DELETE", "/v1/session").catch(() => {}); signIn(); } }, "Sign out"));
  live.open();
  show();
}

whenSignedOut((problem) => { if (session) signIn(problem); });
window.addEventListener("hashchange", show);
get("/v1/session").then(begin, (problem) => signIn(problem.name === "session-over" ? problem : undefined));
