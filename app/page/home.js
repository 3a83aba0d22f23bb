// Home: a place to drop a table, the jobs that run, the models there are.

import { ask, get, hasEnded, send, upload } from "./api.js";
import { announce, h, newId, show, table } from "./dom.js";
import { failure } from "./failure.js";
import { count, percent, score, when } from "./format.js";
import { jobLine, nounOf } from "./progress.js";

const POLL_MS = 3000;
const MODELS = 20;

export async function view(_, signal) {
  const models = await get(`models?limit=${MODELS}`, { signal }); // alone: where a key is wanted, it is asked for once
  const jobs = await openJobs();
  const modelsPlace = h("section", { "aria-labelledby": "models-title" }, ...modelList(models));
  const jobsPlace = h("section", { "aria-labelledby": "jobs-title" });
  showJobs(jobsPlace, jobs);
  watch(jobsPlace, modelsPlace, jobs, signal);
  return {
    title: "Home",
    body: [
      h("h1", {}, "What will it be, and how sure are we?"),
      h("p", { class: "lead" }, "Drop a table here. Choose what to predict. Every prediction comes with an error bar that was measured on rows the model had not seen."),
      dropZone(),
      jobsPlace,
      modelsPlace,
    ],
    shown: () => keyboard(signal),
  };
}

function keyboard(signal) {
  const listen = (event) => {
    if (event.key === "/" && !event.target.closest?.("input, select, textarea, dialog")) {
      event.preventDefault();
      document.getElementById("table-file").focus();
    }
  };
  document.addEventListener("keydown", listen, { signal });
}

function dropZone() {
  const place = h("div", { "aria-live": "polite" });
  const input = h("input", {
    type: "file",
    id: "table-file",
    "aria-describedby": "table-hint",
    onchange: () => input.files.length && read(input.files[0]),
  });
  const example = h("button", { type: "button", onclick: tryFlights }, "Try it on 6,000 flights");
  const zone = h(
    "div",
    { class: "drop" },
    h("label", { for: "table-file" }, h("strong", {}, "Drop a table here"), " or choose a file"),
    input,
    h("p", { class: "hint", id: "table-hint" }, "CSV in any dialect, Excel, Parquet, Arrow or JSON Lines; plain, gzip or zstd. One row for each thing, one column for what is to be predicted."),
    h("p", {}, example),
    place,
  );
  for (const name of ["dragenter", "dragover"]) {
    zone.addEventListener(name, (event) => {
      event.preventDefault();
      zone.classList.add("over");
    });
  }
  zone.addEventListener("dragleave", (event) => zone.contains(event.relatedTarget) || zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    const [file] = event.dataTransfer.files;
    if (file) read(file);
  });

  async function tryFlights() {
    try {
      const answer = await ask("page/flights.csv");
      await read(new File([await answer.blob()], "flights.csv", { type: "text/csv" }));
    } catch (error) {
      show(place, failure(error));
    }
  }

  async function read(file) {
    example.disabled = input.disabled = true;
    show(place, h("p", { class: "busy" }, `Reading ${file.name} …`));
    try {
      const dataset = await upload("datasets", file);
      announce(`${file.name} is read: ${count(dataset.rows)} rows`);
      location.hash = `#/datasets/${encodeURIComponent(dataset.id)}`;
    } catch (error) {
      show(place, failure(error));
    } finally {
      example.disabled = input.disabled = false;
      input.value = "";
    }
  }

  return zone;
}

async function openJobs() {
  try {
    const pages = await Promise.all(
      [["running", 10], ["queued", 10], ["failed", 3]].map(([state, limit]) => get(`jobs?state=${state}&limit=${limit}`)),
    );
    return pages.flatMap((page) => page.jobs);
  } catch (error) {
    if (error.status === 403) return []; // a key that may predict, but not train
    throw error;
  }
}

function showJobs(place, jobs) {
  const open = jobs.filter((job) => !hasEnded(job));
  const failed = jobs.filter(hasEnded);
  show(
    place,
    open.length ? h("h2", { id: "jobs-title" }, "Running") : null,
    open.map((job) => jobLine(job, { link: true, cancel: () => stop(job) })),
    failed.length
      ? h(
          "details",
          {},
          h("summary", {}, `Jobs that failed (the last ${failed.length})`),
          h("ul", {}, failed.map((job) => h("li", {}, h("a", { href: `#/jobs/${job.id}` }, job.model), ` ${when(job.finished_at)}: ${job.error?.message ?? ""}`))),
        )
      : null,
  );

  async function stop(job) {
    try {
      await send("DELETE", `jobs/${job.id}`);
      announce(`The ${nounOf(job)} of ${job.model} is being cancelled`);
    } catch (error) {
      place.append(failure(error));
    }
  }
}

// Asked again while something is in training and the page is looked at.
async function watch(jobsPlace, modelsPlace, jobs, signal) {
  let open = new Set(jobs.filter((job) => !hasEnded(job)).map((job) => job.id));
  while (!signal.aborted) {
    await new Promise((done) => setTimeout(done, open.size ? POLL_MS : 5 * POLL_MS));
    if (signal.aborted || document.hidden) continue;
    try {
      const found = await openJobs();
      if (signal.aborted) return;
      const now = new Set(found.filter((job) => !hasEnded(job)).map((job) => job.id));
      const ended = [...open].some((id) => !now.has(id));
      if (!jobsPlace.contains(document.activeElement) || ended) showJobs(jobsPlace, found);
      if (ended) {
        show(modelsPlace, ...modelList(await get(`models?limit=${MODELS}`)));
        announce("A job has ended");
      }
      open = now;
    } catch {
      // The next round asks again; what is on show is not wrong, only older.
    }
  }
}

function modelList(page) {
  const title = h("h2", { id: "models-title" }, "Models");
  if (!page.models.length) {
    return [title, h("p", { class: "quiet" }, "None yet. The first table you train on makes one.")];
  }
  const rows = page.models.map((model) => {
    const { target, rows: learnt, holdout, leave_one_out: leftOut } = model.summary;
    const scores = holdout ?? leftOut;
    return [
      h("a", { href: `#/models/${encodeURIComponent(model.name)}` }, model.name),
      target,
      learnt === undefined ? "–" : count(learnt),
      scores ? `± ${score(scores.rmse)} ${target}` : "–",
      scores ? `${percent(scores.coverage["0.95"])} of ${count(scores.rows)}` : "–",
      count(model.versions),
      h("span", { class: "time" }, when(model.trained_at)),
    ];
  });
  const head = ["Name", "Predicts", "Rows", "Error (RMSE)", "95% intervals held", "Versions", "Trained"];
  const more = h("p");
  if (page.next_cursor) {
    more.append(h("button", { type: "button", onclick: next, id: newId("more") }, "More models"));
  }
  async function next() {
    const following = await get(`models?limit=${MODELS}&cursor=${encodeURIComponent(page.next_cursor)}`);
    more.replaceWith(...modelList(following).slice(1));
  }
  return [title, table("Models, by name", head, rows, { numeric: [2, 3, 4, 5], hideCaption: true }), more];
}
