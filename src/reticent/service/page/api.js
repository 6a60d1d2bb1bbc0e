// Requests to the service. The cookie goes along by itself; no script can read it.

export class Problem extends Error {
  constructor(status, found) {
    super(found.detail || "the service gave no reason");
    this.status = status;
    this.detail = this.message;
    this.name = String(found.type || "").replace("urn:reticent:", "");
  }
}

let signedOut = () => {};
export function whenSignedOut(call) { signedOut = call; }

export async function send(method, path, body, headers) {
  const sent = { method, credentials: "same-origin", headers: { Accept: "application/json", ...headers } };
  if (body !== undefined) {
    const text = typeof body === "string";
    sent.body = text ? body : JSON.stringify(body);
    sent.headers["Content-Type"] = text ? "application/x-ndjson" : "application/json";
  }
  let response;
  try {
    response = await fetch(path, sent);
  } catch {
    throw new Problem(0, { detail: "The service does not answer; what was sent may have been counted, and sending it again is safe." });
  }
  let found = {};
  try { found = await response.json(); } catch { /* an answer without a body */ }
  if (!response.ok) {
    const problem = new Problem(response.status, found);
    if (response.status === 401) signedOut(problem);
    throw problem;
  }
  return { status: response.status, found };
}

export const call = async (...request) => (await send(...request)).found;
export const get = (path) => call("GET", path);
export const post = (path, body, headers) => call("POST", path, body, headers);
export const remove = (path) => call("DELETE", path);
export const stream = (name) => `/v1/streams/${encodeURIComponent(name)}`;

// A key for a form: the same form sent again is known again.
export function freshKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
