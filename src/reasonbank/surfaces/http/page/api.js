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
export class Unreachable extends Error {
  constructor() {
    super("The server does not answer. It may be starting again: this page goes on by itself once it is there.");
  }
}

let workspace = null;
let signedOut = () => {};
let moved = () => {}; // What is told is told to a workspace.

/** Hears when the server no longer knows who this is: a token was revoked, a session has ended. */
export const whenSignedOut = (told) => { signedOut = told; };

export const chosen = () => workspace;
/** Whether something that is new is of the workspace that is looked at. */
export const isHere = (event) => !workspace || !event.workspace || event.workspace === workspace;
export function choose(id) {
  const other = id !== workspace;
  workspace = id;
  if (other) moved();
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

const TRIES = 5; // That often something is asked that the server has no room for just now.
const LONGEST = 5; // Seconds between two of these.

const rest = (seconds, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, 1000 * seconds);
  signal?.addEventListener("abort", () => {
    clearTimeout(timer);
    reject(signal.reason);
  });
});

async function call(method, path, { search, body, signal, tries = TRIES } = {}) {
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
    throw new Unreachable();
  }
  if (answer.ok) return answer.json();
  const wait = Number(answer.headers.get("Retry-After"));
  if (wait && tries > 1) {
    // Nothing was done: other long work is going on, or many ask at once.
    await rest(Math.min(wait, LONGEST), signal);
    return call(method, path, { search, body, signal, tries: tries - 1 });
  }
  if (answer.status === 401 && path !== "/session") signedOut();
  throw new Refused(answer.status, await answer.json().catch(() => ({})));
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

const UNSEEN = 1000; // Milliseconds out of sight after which a page hangs up.

/** What is written, as it is written, after the event of number `after`. `told` gets each change,
 * `many` hears that too many were missed, `state` whether the line is up. A browser has six lines
 * to a server for all its tabs together: who is out of sight hangs up, and catches up later. */
export function events({ after, told, many, state }) {
  let source, timer, unseen, tries = 0, last = String(after), closed = false;
  const hangUp = () => {
    source?.close();
    source = null;
    clearTimeout(timer);
  };
  const again = () => {
    const refused = source?.readyState === EventSource.CLOSED;
    hangUp();
    state(false);
    if (closed || document.hidden) return;
    timer = setTimeout(open, 1000 * PAUSES[Math.min(tries++, PAUSES.length - 1)]);
    // It does not say why it was refused.
    if (refused) session().then((now) => now.signed_in || closed || signedOut()).catch(() => {});
  };
  const seen = () => {
    clearTimeout(unseen);
    if (document.hidden) unseen = setTimeout(hangUp, UNSEEN);
    else if (!source && !closed) open();
  };
  const read = (event) => {
    if (event.lastEventId) last = event.lastEventId;
    return JSON.parse(event.data);
  };
  function open() {
    clearTimeout(timer);
    source = new EventSource(`${ROOT}/events${query({ workspace, after: last })}`);
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
  document.addEventListener("visibilitychange", seen);
  if (!document.hidden) open();
  moved = () => {
    if (!source) return;
    hangUp();
    open();
  };
  return {
    close: () => {
      closed = true;
      moved = () => {};
      document.removeEventListener("visibilitychange", seen);
      clearTimeout(unseen);
      hangUp();
    },
  };
}
