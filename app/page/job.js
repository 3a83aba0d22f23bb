// A training: what it does, how far it is, what came out of it.

import { follow, get, hasEnded, save, send } from "./api.js";
import { announce, h, show } from "./dom.js";
import { candidates } from "./candidates.js";
import { failure } from "./failure.js";
import { bytes, duration, plural } from "./format.js";
import { lineFigure } from "./figures.js";
import { jobLine, nounOf, sentence } from "./progress.js";

export async function view([id], signal) {
  const path = `jobs/${encodeURIComponent(id)}`;
  const first = await get(path, { signal });
  const card = h("div");
  const curve = h("div");
  const end = h("div");
  const title = first.kind === "predict" ? `Predictions by ${first.model}` : `Training ${first.model}`;
  const objectives = [];
  let told = "";

  function update(job) {
    const running = !hasEnded(job);
    const focused = card.contains(document.activeElement);
    show(card, jobLine(job, running ? { cancel } : {}));
    if (focused) card.querySelector("button")?.focus();
    if (sentence(job) !== told) announce(`${job.model}: ${(told = sentence(job))}`);
    const { objective, elapsed_s: elapsed } = job.progress;
    if (running && objective !== null && objectives.at(-1)?.[1] !== objective) {
      objectives.push([elapsed, objective]);
      if (objectives.length > 1) show(curve, objectiveFigure(objectives));
    }
    if (!running) show(end, outcome(job));
    if (job.result?.report) show(curve, candidates(job.result.report));
  }

  async function cancel() {
    try {
      update(await send("DELETE", path));
    } catch (error) {
      show(end, failure(error));
    }
  }

  async function listen() {
    try {
      for await (const job of follow(`${path}/events`, signal, (lost) => card.classList.toggle("lost", lost))) {
        if (signal.aborted) return;
        update(job);
        if (job.state === "succeeded" && job.result.report) {
          const { model, version } = job.result;
          location.replace(`#/models/${encodeURIComponent(model)}@${version}`);
        }
      }
    } catch (error) {
      if (!signal.aborted) show(end, failure(error));
    }
  }

  update(first);
  return {
    title,
    body: [h("h1", {}, title), card, end, curve, hasEnded(first) ? null : h("p", { class: "quiet" }, "It goes on if you leave this page, and is listed at ", h("a", { href: "#/" }, "home"), ".")],
    shown: () => void (hasEnded(first) || listen()),
  };
}

function objectiveFigure(points) {
  return lineFigure({
    title: "What the training minimises",
    good: "It falls and then levels off.",
    x: { label: "seconds", values: points.map(([x]) => x) },
    y: { label: "objective, nats", values: points.map(([, y]) => y) },
  });
}

function outcome(job) {
  switch (job.state) {
    case "succeeded": {
      if (!job.result.report) return predictions(job);
      const { model, version, report } = job.result;
      return h(
        "div",
        {},
        h("p", { class: "actions" }, h("a", { class: "button primary", href: `#/models/${encodeURIComponent(model)}@${version}` }, `Look at ${model}, version ${version}`)),
        report.warnings.length ? [h("h2", {}, "What to know"), h("ul", { class: "warnings" }, report.warnings.map((text) => h("li", {}, text)))] : null,
        h("h2", {}, "Time"),
        h("p", {}, `It took ${duration(job.progress.elapsed_s)}.`),
      );
    }
    case "cancelled":
      return [h("p", {}, `This ${nounOf(job)} was cancelled. Nothing was published.`), h("p", {}, h("a", { href: "#/" }, "Home"))];
    default:
      return [
        failure({ message: job.error?.message ?? `The ${nounOf(job)} failed.`, errors: job.error?.errors ?? [], count: job.error?.total }),
        h("p", {}, "Nothing was published. Correct the table or the options, and begin again from ", h("a", { href: "#/" }, "home"), "."),
      ];
  }
}

// A file of predictions waits to be fetched.
function predictions(job) {
  const { rows, failed_rows: failed, size_bytes: size, version, warnings } = job.result;
  const message = h("div");
  const name = `${job.model}-${version}-predictions.parquet`;
  async function fetchFile() {
    try {
      await save(`jobs/${job.id}/predictions`, name);
    } catch (error) {
      show(message, failure(error));
    }
  }
  return [
    h("p", {}, `${plural(rows, "row")} predicted by version ${version}${failed ? `; ${plural(failed, "row")} could not be read and ${failed === 1 ? "has" : "have"} nulls` : ""}.`),
    (warnings ?? []).length ? h("ul", { class: "warnings" }, warnings.map((each) => h("li", {}, each.message ?? String(each)))) : null,
    h("p", { class: "actions" }, h("button", { type: "button", class: "primary", onclick: fetchFile }, `Download ${name}`), h("span", { class: "quiet" }, bytes(size))),
    message,
  ];
}
