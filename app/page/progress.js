// The progress of a job: phase in words, bar, time left.

import { h, newId } from "./dom.js";
import { duration } from "./format.js";

const PHASES = {
  reading: "Reading the table",
  starting: "Getting started",
  selecting: "Choosing rows to rest on",
  adapting: "Learning how far each column matters",
  fitting: "Fitting and comparing models",
  predicting: "Predicting the rows",
  evaluating: "Measuring the error bars on rows that were left out",
  publishing: "Putting the result in its place",
};

/** What a job is, as a noun. */
export function nounOf(job) {
  return job.kind === "predict" ? "prediction" : "training";
}

/** What a job is doing, as one sentence. */
export function sentence(job) {
  const { progress } = job;
  switch (job.state) {
    case "queued":
      if (job.requeue_reason) return `Waiting to go on: ${job.requeue_reason}`;
      return job.position > 0 ? `Waiting: ${job.position} in front of it` : "Waiting for a worker";
    case "running": {
      if (progress.waiting) return `Waiting to go on: ${progress.waiting}`;
      const round = progress.rounds && progress.phase === "adapting" ? `, round ${Math.min(progress.round + 1, progress.rounds)} of ${progress.rounds}` : "";
      return `${PHASES[progress.phase] ?? "Starting"}${round}`;
    }
    case "succeeded":
      return "Done";
    case "cancelled":
      return "Cancelled";
    default:
      return "Failed";
  }
}

/** Time that is left, in words; empty where nobody knows. */
export function timeLeft(job) {
  if (job.state !== "running" || job.progress.eta_s === null) return "";
  return `about ${duration(Math.max(1, job.progress.eta_s))} left`;
}

/** One job as a card: name, bar, phase, a button to cancel. */
export function jobLine(job, { link = false, cancel } = {}) {
  const name = newId("job");
  const told = sentence(job);
  const percent = Math.round(100 * job.progress.fraction);
  return h(
    "div",
    { class: "job" },
    h("div", { class: "job-head" }, h("span", { id: name }, link ? h("a", { href: `#/jobs/${job.id}` }, job.model) : job.model, job.kind === "predict" ? ": predictions of a dataset" : null), cancel ? h("button", { type: "button", onclick: (event) => { event.target.disabled = true; cancel(); }, "aria-label": `Cancel the ${nounOf(job)} of ${job.model}` }, "Cancel") : null),
    h("progress", { max: 100, value: percent, "aria-labelledby": name }, `${percent}%`),
    h("div", { class: "job-foot" }, h("span", {}, told), h("span", { class: "quiet" }, timeLeft(job))),
  );
}
