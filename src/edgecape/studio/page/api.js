// The service, as functions. Every failure is a Problem with a sentence for a person.

export class Problem extends Error {
  constructor(message, status = 0, answer = {}) {
    super(message);
    this.status = status; // 0: the service did not answer
    this.answer = answer;
  }
}

const GONE = "The studio does not answer. Is it still running? Nothing is lost; it is tried again.";
const CLIENT = crypto.getRandomValues(new Uint32Array(2)).join("-"); // one page: its newer prompt replaces the waiting one
const pause = (seconds) => new Promise((resume) => setTimeout(resume, 1000 * seconds));

/** Ask the service; a full queue (429) is waited for. `busy` is told when that happens. */
async function ask(method, path, { json, form, signal, keepalive, busy } = {}) {
  for (;;) {
    const body = json === undefined ? form : JSON.stringify(json);
    const headers = { "X-EdgeCape-Client": CLIENT };
    if (json !== undefined) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(`api/v1/${path}`, { method, body, headers, signal, keepalive });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Problem(GONE);
    }
    if (response.ok) return response;
    if (response.status === 429) {
      const seconds = Number(response.headers.get("Retry-After")) || 2;
      busy?.(seconds);
      await pause(seconds);
      signal?.throwIfAborted();
      continue;
    }
    const answer = await response.json().catch(() => ({}));
    if (response.status === 409 && path === "prompts") throw new DOMException(answer.error, "AbortError"); // replaced
    throw new Problem(
      answer.error ?? `The studio answered ${response.status} ${response.statusText}.`,
      response.status,
      answer,
    );
  }
}

const answer = async (response) => (await response).json();

function files(field, list, more = {}) {
  const form = new FormData();
  for (const file of list) form.append(field, file, file.name);
  for (const [name, others] of Object.entries(more)) for (const file of others) form.append(name, file, file.name);
  return form;
}

export const status = () => answer(ask("GET", "status"));
export const project = () => answer(ask("GET", "project"));
export const save = (document, keepalive = false) => answer(ask("PUT", "project", { json: document, keepalive }));
export const reset = () => answer(ask("POST", "project/reset"));
export const openArchive = (file) => answer(ask("POST", "project/archive", { form: files("file", [file]) }));
export const importLabels = (file, photos) =>
  answer(ask("POST", "import", { form: files("file", [file], { photos }) }));
export const examples = () => answer(ask("GET", "examples"));
export const example = (name) => answer(ask("POST", `examples/${encodeURIComponent(name)}`));
export const templates = () => answer(ask("GET", "templates"));
export const suggestions = (body) => answer(ask("POST", "suggestions", { json: body }));
export const formats = () => answer(ask("GET", "formats"));
export const openPrompt = (file) => answer(ask("POST", "prompts/file", { form: files("file", [file]) }));
export const prompt = (body, options) => answer(ask("POST", "prompts", { json: body, ...options }));
export const knownPrompt = (id, options) => answer(ask("GET", `prompts/${id}`, options));
export const photoUrl = (id, thumb = false) => `api/v1/photos/${id}${thumb ? "?thumb=1" : ""}`;

/** Frames of a video as photos: evenly spread, at most so many. */
export function uploadVideo(file, frames) {
  const form = files("file", [file]);
  form.append("frames", frames);
  return answer(ask("POST", "videos", { form }));
}

/** Photos in, `{ photos, failed: [{ name, error }] }` out, also when every one failed. */
export async function upload(list) {
  try {
    return await answer(ask("POST", "photos", { form: files("files", list) }));
  } catch (error) {
    if (Array.isArray(error.answer?.failed)) return { photos: [], failed: error.answer.failed };
    throw error;
  }
}

/** Poses as they come: { photo, index, pose } or { photo, index, error }. */
export const predictions = (body, options) => lines(ask("POST", "predictions", { json: body, ...options }));

/** How far the other shots put the points of each shot from where they are: { photo, distance, worst }. */
export const checkShots = (id, options) => lines(ask("POST", `prompts/${id}/check`, options));

/** The lines of an answer, as they come. */
async function* lines(asked) {
  const response = await asked;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      throw error.name === "AbortError" ? error : new Problem(GONE);
    }
    const lines = (rest + (part.value ?? "")).split("\n");
    rest = part.done ? "" : lines.pop();
    for (const line of lines) if (line.trim()) yield JSON.parse(line);
    if (part.done) return;
  }
}

/** Save what the service answers as a file of the name it gives. */
async function download(asked) {
  const response = await asked;
  const name = /filename\*?=(?:UTF-8'')?"?([^";]+)/i.exec(response.headers.get("Content-Disposition") ?? "")?.[1];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name ? decodeURIComponent(name) : "edgecape";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  return link.download;
}

export const exportLabels = (format, photos) => download(ask("POST", "export", { json: { format, photos } }));
export const saveArchive = () => download(ask("GET", "project/archive"));
export const savePrompt = (id) => download(ask("GET", `prompts/${id}/file`));
