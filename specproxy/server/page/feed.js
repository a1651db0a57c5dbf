// The stream of events: opened with the key (which EventSource cannot send), read, opened again.

const FIRST_REST_MS = 500;
const LONGEST_REST_MS = 8000;

export class Refused extends Error {}

/** Read server-sent events from `url` and hand each to `hear(name, content)`. */
async function read(url, key, signal, hear) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const response = await fetch(url, { headers, signal, cache: "no-store" });
  if ([401, 403].includes(response.status)) throw new Refused(); // 403: the key of a route alone
  if (!response.ok) throw new Error(`status ${response.status}`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const events = held.split("\n\n");
    held = events.pop();
    for (const event of events) {
      let name = "message";
      let data = "";
      for (const line of event.split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data) hear(name, JSON.parse(data));
    }
  }
}

/**
 * Keep the stream open while the page is seen.
 *
 * `askKey(wasWrong)` resolves to the key when the proxy wants one.
 */
export async function follow(url, { hear, tell, askKey }) {
  let key = sessionStorage.getItem("specproxy.key");
  let restMs = FIRST_REST_MS;
  for (;;) {
    if (document.hidden) await seen();
    const leaving = new AbortController();
    const leave = () => document.hidden && leaving.abort();
    document.addEventListener("visibilitychange", leave);
    try {
      await read(url, key, leaving.signal, (name, content) => {
        restMs = FIRST_REST_MS;
        tell(true);
        hear(name, content);
      });
    } catch (error) {
      if (error instanceof Refused) {
        sessionStorage.removeItem("specproxy.key");
        key = await askKey(Boolean(key));
        sessionStorage.setItem("specproxy.key", key);
        continue;
      }
    } finally {
      document.removeEventListener("visibilitychange", leave);
    }
    tell(false);
    await new Promise((resolve) => setTimeout(resolve, restMs));
    restMs = Math.min(2 * restMs, LONGEST_REST_MS);
  }
}

function seen() {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
  });
}
