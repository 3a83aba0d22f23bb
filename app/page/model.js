// A model: what it predicts and how well, and its parts as tabs.

import { get } from "./api.js";
import { field, h, select } from "./dom.js";
import { count, percent, plural, score, when } from "./format.js";

const TABS = [
  ["look", "Look", () => import("./look.js")],
  ["ask", "Ask and what-if", () => import("./ask.js")],
  ["file", "Predict a file", () => import("./file.js")],
  ["versions", "Versions", () => import("./versions.js")],
  ["use", "Use it elsewhere", () => import("./use.js")],
];

const chosen = new Map(); // target by model
const FEW = 100; // held-out rows whose shares say little by themselves

export async function view([name, reference, tab = "look"], signal) {
  const place = `models/${encodeURIComponent(name)}`;
  const model = await get(`${place}?limit=100`, { signal });
  const version = versionOf(model, reference);
  const detail = await detailOf(`${place}/versions/${version}?basis=false`, name, signal);
  const [, title, load] = TABS.find(([id]) => id === tab) ?? TABS[0];
  const content = await (await load()).view({ model, detail, signal, place: `${place}/versions/${version}` });
  return {
    title: `${title}: ${name}`,
    keepScroll: true,
    body: [heading(model, detail), chooser(model, detail), tabs(model, reference, tab), content.body],
    shown: content.shown,
  };
}

// What a plain name means: its champion, else its latest.
function versionOf(model, reference) {
  if (reference && /^\d+$/.test(reference)) return Number(reference);
  if (reference) return model.aliases[reference] ?? reference;
  return model.aliases.champion ?? model.latest;
}

// Of several targets the one that was chosen last is shown, else the first.
async function detailOf(place, name, signal) {
  const target = chosen.get(name);
  if (!target) return get(place, { signal });
  try {
    return await get(`${place}&target=${encodeURIComponent(target)}`, { signal });
  } catch (error) {
    if (error.status !== 404) throw error;
    return get(place, { signal }); // another version, of other targets
  }
}

function chooser(model, detail) {
  if (detail.targets.length < 2) return null;
  const control = select(detail.targets.map((target) => [target, target]), detail.target);
  control.addEventListener("change", () => {
    chosen.set(model.name, control.value);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  });
  const { with: others } = detail.report.sharing;
  return h("div", { class: "fields" }, field("Target", control, others.length ? `Learnt together with ${others.join(", ")}.` : "Learnt by itself."));
}

function heading(model, detail) {
  const { report, target } = detail;
  const used = report.columns.filter((column) => column.kind !== "unused").length;
  const scores = report.holdout ?? report.leave_one_out;
  const rows = `${plural(scores.rows, "row")} ${report.holdout ? "it had not seen" : "that were left out one by one"}${report.scores_of ? ` in the training of version ${report.scores_of}` : ""}`;
  const spread = 2 * scores.coverage_standard_error["0.95"];
  const leftOut = report.leave_one_out;
  const few = report.holdout && scores.rows < FEW && leftOut;
  const other = detail.version === (model.aliases.champion ?? model.latest);
  return [
    h("h1", {}, model.name, " ", h("span", { class: "quiet" }, `version ${detail.version}`)),
    h(
      "p",
      { class: "lead" },
      h("strong", {}, target),
      ` from ${plural(used, "column")} · `,
      h("strong", {}, `± ${score(scores.rmse)} ${target}`),
      ` (RMSE on ${rows}) · 95% intervals held `,
      h("strong", {}, `${percent(scores.coverage["0.95"])} ± ${(100 * spread).toFixed(1)}`),
    ),
    h(
      "p",
      { class: "facts" },
      few ? h("span", {}, `${count(scores.rows)} rows are few; over all ${count(leftOut.rows)}, each left out once: ± ${score(leftOut.rmse)} ${target}, ${percent(leftOut.coverage["0.95"])} held`) : null,
      h("span", {}, `learnt from ${plural(report.rows, "row")}`),
      h("span", {}, `trained ${when(detail.created_at)}`),
      detail.aliases.length ? h("span", {}, "known as ", detail.aliases.map((alias) => [h("span", { class: "mark" }, alias), " "])) : null,
      other ? null : h("span", {}, h("a", { href: `#/models/${encodeURIComponent(model.name)}` }, "The version in use is another")),
    ),
  ];
}

function tabs(model, reference, tab) {
  const base = `#/models/${encodeURIComponent(model.name)}${reference ? `@${encodeURIComponent(reference)}` : ""}`;
  return h(
    "nav",
    { class: "tabs", "aria-label": "Parts of the model" },
    TABS.map(([id, text]) => h("a", { href: `${base}/${id}`, "aria-current": id === tab ? "page" : null }, text)),
  );
}

