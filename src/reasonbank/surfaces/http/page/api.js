// The one place that speaks to the server: the JSON API and its stream of events.

const ROOT = "/api/v1";
const WORKSPACE = "reasonbank-workspace";

/** What the server refused, in its own words. */
export class Refused extends Error {
  constructor(status, told) {
    super(told.message ?? `the server answered ${status}`);
    this.status = status;
    this.field = told.field;
  }
}

/** The server cannot be reached. */
export class Unreachable extends Error {}

let workspace = null;

export const chosen = () => workspace;
/** Whether something that is new is of the workspace that is looked at. */
export const isHere = (event) => !workspace || !event.workspace || event.workspace === workspace;
export function choose(id) {
  workspace = id;
  try { id ? localStorage.setItem(WORKSPACE, id) : localStorage.removeItem(WORKSPACE); } catch { /* No storage. */ }
}
export function remembered() {
  try { return localStorage.getItem(WORKSPACE); } catch { return null; }
}

const query = (values) => {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(values ?? {})) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of [value].flat()) pairs.append(name, one);
  }
  return pairs.size ? `?${pairs}` : "";
};

async function call(method, path, { search, body, signal } = {}) {
  // Another site cannot send this header: what it makes a browser do changes nothing here.
  const headers = { Accept: "application/json", "X-ReasonBank-Page": "1" };
  const where = workspace ? { workspace, ...search } : search;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(ROOT + path + query(where), {
      method, headers, signal, credentials: "same-origin",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable("The server does not answer. It may be starting again.");
  }
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
  return answer.json();
}

export const get = (path, search, signal) => call("GET", path, { search, signal });
export const post = (path, body = {}, signal) => call("POST", path, { body, signal });
export const patch = (path, body) => call("PATCH", path, { body });
export const remove = (path, search) => call("DELETE", path, { search });
export const part = encodeURIComponent;

export const session = () => call("GET", "/session");
export const signIn = (with_) => post("/session", with_);
export const signOut = () => remove("/session");

const PAUSES = [1, 2, 4, 8, 15];

/** What is written, as it is written, after the event of number `after`. `told` gets each change,
 * `many` hears that too many were missed, `state` whether the line is up. */
export function events({ after, told, many, state }) {
  let source, timer, tries = 0, last = String(after), closed = false;
  const again = () => {
    source?.close();
    state(false);
    clearTimeout(timer);
    if (!closed) timer = setTimeout(open, 1000 * PAUSES[Math.min(tries++, PAUSES.length - 1)]);
  };
  const read = (event) => {
    if (event.lastEventId) last = event.lastEventId;
    return JSON.parse(event.data);
  };
  function open() {
    source = new EventSource(`${ROOT}/events${query({ after: last })}`);
    source.addEventListener("hello", () => {
      tries = 0;
      state(true);
    });
    source.addEventListener("change", (event) => told(read(event)));
    source.addEventListener("work", (event) => told({ what: "work", ...read(event) }));
    source.addEventListener("many", (event) => {
      last = String(read(event).seq);
      many();
    });
    source.addEventListener("end", again);
    source.onerror = again;
  }
  open();
  return {
    close: () => {
      closed = true;
      clearTimeout(timer);
      source?.close();
    },
  };
}
