// Shows the jobs of this process or cluster, read every second. Everything that comes from a job is text, never markup.
"use strict";

const EVERY_MS = 1000;
const LATE_MS = 3000;
const METRICS = ["numRecordsInPerSecond", "numRecordsOutPerSecond", "busyTimeMsPerSecond", "backPressuredTimeMsPerSecond",
  "currentInputWatermark"];
const NO_WATERMARK = 2 ** 62;
const notes = {};
// Details of ended jobs, by id and end: they are read once, when they are opened.
const ended = {};

async function ask(path, method = "GET", body) {
  // A change may take long. A read has a timeout: a suspended job must not delay the others.
  const signal = method === "GET" ? AbortSignal.timeout(LATE_MS) : null;
  const answer = await fetch(path, {method, signal, body: body && JSON.stringify(body)}).catch((error) => {
    throw error.name === "TimeoutError" ? new Error("The job does not answer: its process is busy or suspended.") : error;
  });
  if (answer.status === 401) location.assign("login");
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.errors.join("; "));
  return value;
}

function element(tag, text, classes, ...children) {
  const made = document.createElement(tag);
  if (text !== "") made.textContent = text;
  if (classes) made.className = classes;
  made.append(...children);
  return made;
}

const rate = (value) => `${Math.round(value).toLocaleString("en")}/s`;

function duration(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 60) return `${s.toFixed(1)} s`;
  return s < 3600 ? `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s` : `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
}

function size(bytes) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (bytes < 1000 || unit === "GB") return `${bytes.toFixed(unit === "B" ? 0 : 1)} ${unit}`;
    bytes /= 1000;
  }
}

function meter(name, share, classes) {
  const bar = element("span", "", "");
  bar.style.width = `${Math.min(100, 100 * share)}%`;
  return element("div", "", `meter ${classes}`, element("span", name), element("i", "", "", bar), element("span", `${Math.round(100 * share)} %`));
}

// `job`: the job whose parallelism can be changed; null: not now.
function subtasks(vertex, job) {
  const line = element("div", `${vertex.status.toLowerCase()}, parallelism ${vertex.parallelism}`, "subtasks");
  if (job) for (const [sign, count, title] of [["−", vertex.parallelism - 1, "fewer"], ["+", vertex.parallelism + 1, "more"]]) {
    const button = element("button", sign);
    button.title = `${title} subtasks`;
    button.disabled = count < 1 || count > vertex.maxParallelism;
    button.addEventListener("click", () => rescale(job, vertex, count));
    line.append(button);
  }
  return line;
}

function vertexBox(vertex, metrics, now, job) {
  const value = (name, kind) => { const found = metrics.find((metric) => metric.id === name); return found ? found[kind] : 0; };
  const watermark = metrics.length ? value("currentInputWatermark", "min") : NO_WATERMARK;
  const box = element("div", "", "vertex", element("b", vertex.name),
    subtasks(vertex, job),
    element("div", `in ${rate(value("numRecordsInPerSecond", "sum"))} · out ${rate(value("numRecordsOutPerSecond", "sum"))}`),
    meter("busy", value("busyTimeMsPerSecond", "max") / 1000, ""),
    meter("back pressure", value("backPressuredTimeMsPerSecond", "max") / 1000, "back"));
  if (Math.abs(watermark) < NO_WATERMARK) box.append(element("div", `event time ${duration(now - watermark)} behind`));
  return box;
}

function graph(job, metrics, rescaled) {
  const level = {};
  for (const node of job.plan.nodes) level[node.id] = Math.max(-1, ...(node.inputs || []).map((input) => level[input.id] ?? -1)) + 1;
  const columns = [];
  job.vertices.forEach((vertex, index) => (columns[level[vertex.id]] ??= []).push(vertexBox(vertex, metrics[index], job.now, rescaled)));
  return element("div", "", "graph", ...columns.flatMap((boxes, index) =>
    [...(index ? [element("span", "→")] : []), element("div", "", "level", ...boxes)]));
}

function checkpoints(all) {
  if (!all.history.length) return element("p", "No checkpoint yet.");
  const rows = all.history.slice(0, 8).map((one) => {
    const cells = [`${one.id}${one.is_savepoint ? " savepoint" : ""}`, new Date(one.trigger_timestamp).toLocaleTimeString(), one.status.toLowerCase(),
      duration(one.end_to_end_duration), size(one.checkpointed_size), size(one.state_size)];
    const row = element("tr", "", one.status === "FAILED" ? "failed" : "", ...cells.map((cell) => element("td", cell)));
    row.title = one.failure_message || one.external_path || "";
    return row;
  });
  const heads = ["", "triggered", "status", "duration", "written", "total"].map((head) => element("th", head));
  return element("table", "", "", element("tr", "", "", ...heads), ...rows);
}

function failures(history) {
  if (!history.entries.length) return [];
  return [element("h2", "Exceptions"), ...history.entries.slice(0, 3).flatMap((one) =>
    [element("div", `${new Date(one.timestamp).toLocaleString()} ${one.exceptionName} ${one.taskName || ""}`), element("pre", one.stacktrace)])];
}

async function shown(job) {
  const path = `jobs/${job.jid}`, runs = job["end-time"] < 0;
  // First alone: a browser has six connections, and a job that does not answer must not take more than one.
  const details = await ask(path);
  const [all, exceptions] = await Promise.all([ask(`${path}/checkpoints`), ask(`${path}/exceptions`)]);
  const metrics = await Promise.all(details.vertices.map((vertex) => runs ? ask(`${path}/vertices/${vertex.id}/subtasks/metrics?get=${METRICS}`) : []));
  const rescaled = details["job-type"] === "STREAMING" && job.state === "RUNNING" ? job : null;
  return [graph(details, metrics, rescaled), element("h2", "Checkpoints"), checkpoints(all), ...failures(exceptions.exceptionHistory)];
}

function bar(job, kinds) {
  const made = element("div", "", "bar", element("h1", job.name), element("span", `${job.state.toLowerCase()} for ${duration(job.duration)}`));
  for (const kind of kinds) {
    const button = element("button", CONFIRMATIONS[kind].button);
    button.addEventListener("click", () => act(kind, job));
    made.append(button);
  }
  return made;
}

// A job that can't be read, because it is about to end, shows why; the others are shown as usual.
async function running(job) {
  const waits = job.state === "INITIALIZING" && !job.tasks.total;
  const parts = waits ? [element("p", job.waiting || "The job's process is starting.")] : await shown(job).catch((error) => [element("p", error.message)]);
  return element("section", "", "", bar(job, waits ? ["cancel"] : Object.keys(CONFIRMATIONS)), element("p", notes[job.jid] || ""), ...parts);
}

function over(job, isOnly) {
  return ended[`${job.jid} ${job["end-time"]}`] ??= (() => {
    const at = new Date(job["end-time"]).toLocaleString();
    const box = element("details", "", "", element("summary", `${job.name} ${job.state.toLowerCase()} at ${at}, after ${duration(job.duration)}`));
    box.addEventListener("toggle", async () => box.append(...await shown(job).catch((error) => [element("pre", error.message)])), {once: true});
    box.open = isOnly;
    return box;
  })();
}

const CONFIRMATIONS = {
  savepoint: {button: "Savepoint", question: (name) => `Take a savepoint of ${name}? The job keeps running.`, directory: true},
  stop: {button: "Stop", question: (name) => `Stop ${name} with a savepoint? Its output up to the savepoint is committed.`, directory: true},
  cancel: {button: "Cancel", question: (name) => `Cancel ${name}? Uncommitted output is lost.`, directory: false},
};

function confirmed(question, yes, directory) {
  const dialog = document.getElementById("ask");
  document.getElementById("question").textContent = question;
  document.getElementById("yes").textContent = yes;
  document.getElementById("directory-line").hidden = !directory;
  dialog.showModal();
  // Not `close`, which comes late: the event of one question would answer the next.
  return new Promise((resolve) => {
    dialog.querySelector("form").addEventListener("submit", (event) => resolve(event.submitter.value === "yes"), {once: true});
    dialog.addEventListener("cancel", () => resolve(false), {once: true});
  });
}

async function act(kind, job) {
  const {button, question, directory: asksWhere} = CONFIRMATIONS[kind];
  if (!await confirmed(question(job.name), button, asksWhere)) return;
  const path = `jobs/${job.jid}`, directory = document.getElementById("directory").value || undefined;
  try {
    notes[job.jid] = `${button} …`;
    if (kind === "cancel") {
      await ask(`${path}?mode=cancel`, "PATCH");
      notes[job.jid] = "The job is being canceled.";
      return;
    }
    const trigger = kind === "stop" ? await ask(`${path}/stop`, "POST", {targetDirectory: directory})
      : await ask(`${path}/savepoints`, "POST", {"target-directory": directory});
    let outcome;
    do {
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS / 4));
      outcome = await ask(`${path}/savepoints/${trigger["request-id"]}`);
    } while (outcome.status.id !== "COMPLETED");
    const failure = outcome.operation["failure-cause"];
    notes[job.jid] = failure ? failure["stack-trace"] : `Savepoint: ${outcome.operation.location}`;
  } catch (error) {
    notes[job.jid] = error.message;
  }
}

async function rescale(job, vertex, count) {
  const question = `Run ${vertex.name} with ${count} subtasks? ${job.name} takes a checkpoint, and pauses for a moment.`;
  if (!await confirmed(question, "Rescale", false)) return;
  try {
    await ask(`jobs/${job.jid}/resource-requirements`, "PUT", {[vertex.id]: {parallelism: {lowerBound: 1, upperBound: count}}});
    notes[job.jid] = "The job is being rescaled. If that fails, its log says why.";
  } catch (error) {
    notes[job.jid] = error.message;
  }
}

async function refresh() {
  const lost = document.getElementById("lost");
  try {
    const {jobs} = await ask("jobs/overview");
    const live = await Promise.all(jobs.filter((job) => job["end-time"] < 0).map(running));
    const past = jobs.filter((job) => job["end-time"] >= 0).reverse().map((job) => over(job, jobs.length === 1));
    if (jobs.length) document.getElementById("jobs").replaceChildren(...live, ...past);
    lost.hidden = true;
  } catch {
    lost.hidden = false;
  }
  setTimeout(refresh, EVERY_MS);
}

refresh();
