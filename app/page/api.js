// The public API as the page uses it: nothing here that another client could not ask for.

import { askForKey, currentKey } from "./key.js";

/** A refusal: RFC 9457, or what went wrong before there was an answer. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `The server answered with status ${status}.`);
    this.status = status;
    this.errors = body.errors || [];
    this.count = body.error_count ?? this.errors.length;
  }
}

/** Ask, and once more with a key where one is needed. Raises Problem. */
export async function ask(path, { method = "GET", headers = {}, body, signal } = {}) {
  for (let refused = false; ; refused = true) {
    const key = currentKey();
    const sent = key ? { ...headers, Authorization: `Bearer ${key}` } : headers;
    let answer;
    try {
      answer = await fetch(path, { method, headers: sent, body, signal, cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Problem(0, { detail: "The server does not answer. Is it running, and is the network there?" });
    }
    if (answer.status === 401) {
      if (await askForKey(key || refused ? "The server does not accept this key." : null)) continue;
    }
    if (!answer.ok) throw await problemOf(answer);
    return answer;
  }
}

async function problemOf(answer) {
  try {
    return new Problem(answer.status, await answer.json());
  } catch {
    return new Problem(answer.status, {});
  }
}

/** GET as JSON. */
export async function get(path, options) {
  return (await ask(path, options)).json();
}

/** A JSON body; the answer as JSON, null where it is empty. */
/** What is asked of one of several targets: the query, and its part of an answer. */
export const targetQuery = ({ target, targets }) => (targets.length > 1 ? `?target=${encodeURIComponent(target)}` : "");
export const ofTarget = (answer, { target, targets }) =>
  targets.length > 1 || !Array.isArray(answer.mean) ? Object.fromEntries(Object.entries(answer).map(([name, value]) => [name, value !== null && typeof value === "object" && !Array.isArray(value) && target in value ? value[target] : value])) : answer;

export async function send(method, path, content, options = {}) {
  const headers = { "Content-Type": "application/json" };
  const body = content === undefined ? undefined : JSON.stringify(content);
  const answer = await ask(path, { ...options, method, headers: body === undefined ? {} : headers, body });
  return answer.status === 204 ? null : answer.json();
}

/** POST a file as a form. */
export async function upload(path, file) {
  const form = new FormData();
  form.append("file", file, file.name);
  return (await ask(path, { method: "POST", body: form })).json();
}

/** Save an answer under a name: a link cannot send a key. */
export async function save(path, name, options) {
  saveBlob(await (await ask(path, options)).blob(), name);
}

/** Offer a blob as a download. */
export function saveBlob(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

const PAUSES = [500, 1000, 2000, 5000];

/**
 * The events of a job, each as JSON, until it has ended. Read by fetch, since EventSource sends no key.
 * A stream that breaks is asked for again; `lost` is told while there is none.
 */
export async function* follow(path, signal, lost = () => {}) {
  for (let failures = 0; !signal.aborted; failures += 1) {
    try {
      const answer = await ask(path, { signal, headers: { Accept: "text/event-stream" } });
      for await (const data of eventsOf(answer.body)) {
        failures = 0;
        lost(false);
        yield data;
        if (hasEnded(data)) return;
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error instanceof Problem && error.status !== 0 && error.status < 500) throw error;
    }
    lost(true);
    await new Promise((done) => setTimeout(done, PAUSES[Math.min(failures, PAUSES.length - 1)]));
  }
}

/** Whether a job goes on no more. */
export function hasEnded(job) {
  return job.state !== "queued" && job.state !== "running";
}

async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const lines = block.split("\n").filter((line) => line.startsWith("data:"));
        if (lines.length) yield JSON.parse(lines.map((line) => line.slice(5)).join("\n"));
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
