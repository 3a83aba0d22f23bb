// Versions side by side: scores, what was asked differently, which is in use; promote, roll back, delete, download.

import { get, save, send } from "./api.js";
import { announce, h, newId, select, show, table } from "./dom.js";
import { failure } from "./failure.js";
import { bytes, count, number, percent, score, when } from "./format.js";

const CHAMPION = "champion";

export async function view({ model, detail, signal }) {
  const place = `models/${encodeURIComponent(model.name)}`;
  const list = h("div");
  const message = h("div", { "aria-live": "polite" });
  const compared = h("div");
  let versions = model.versions;
  let aliases = model.aliases;

  async function refresh() {
    ({ versions, aliases } = await get(`${place}?limit=100`, { signal }));
    draw();
  }

  async function act(done, method, path, body) {
    show(message);
    try {
      await send(method, path, body);
      await refresh();
      show(message, h("p", { class: "note" }, done));
      announce(done);
    } catch (error) {
      show(message, failure(error));
    }
  }

  function draw() {
    const inUse = aliases[CHAMPION] ?? aliases.latest;
    show(
      list,
      h(
        "p",
        {},
        aliases[CHAMPION]
          ? `“${model.name}” means version ${inUse}, the champion. A new version is not used until it is promoted. `
          : `“${model.name}” means the latest version, ${inUse}: every training that succeeds is used at once. Promote one to hold it. `,
        aliases[CHAMPION] ? h("button", { type: "button", onclick: () => act("The latest version is in use.", "DELETE", `${place}/aliases/${CHAMPION}`) }, "Always use the latest") : null,
      ),
      table(`Versions of ${model.name}, the newest first`, ["Version", "Trained", "Rows", "RMSE", "NLPD", "In 95%", "Size", "What to do"], versions.map((version) => row(version, inUse)), { numeric: [2, 3, 4, 5, 6], hideCaption: true }),
    );
  }

  function row(version, inUse) {
    const scores = version.summary.holdout ?? version.summary.leave_one_out;
    const of = version.summary.scores_of ? ` (version ${version.summary.scores_of})` : "";
    const number_ = version.version;
    const current = number_ === inUse;
    const promote = number_ < inUse ? "Roll back to it" : "Promote";
    return [
      h("span", {}, h("a", { href: `#/models/${encodeURIComponent(model.name)}@${number_}` }, String(number_)), version.aliases.map((alias) => [" ", h("span", { class: "mark" }, alias)])),
      h("span", { class: "time" }, when(version.created_at)),
      count(version.summary.rows ?? 0),
      scores ? score(scores.rmse) + of : "–",
      scores ? score(scores.nlpd) + of : "–",
      scores ? percent(scores.coverage["0.95"]) + of : "–",
      bytes(version.size_bytes),
      h(
        "div",
        { class: "actions" },
        version.aliases.includes(CHAMPION) ? null : h("button", { type: "button", "aria-label": `${current ? "Hold" : promote}: version ${number_}`, onclick: () => act(`Version ${number_} is in use.`, "PUT", `${place}/aliases/${CHAMPION}`, { version: number_ }) }, current ? "Hold" : promote),
        h("button", { type: "button", "aria-label": `Download version ${number_}`, onclick: () => download(number_) }, "Download"),
        current ? null : h("button", { type: "button", "aria-label": `Delete version ${number_}`, onclick: () => remove(number_) }, "Delete"),
      ),
    ];
  }

  async function download(version) {
    try {
      await save(`${place}/versions/${version}/artefact`, `${model.name}-${version}.safetensors`);
    } catch (error) {
      show(message, failure(error));
    }
  }

  function remove(version) {
    const title = newId("confirm");
    const dialog = h(
      "dialog",
      { "aria-labelledby": title },
      h("h2", { id: title }, `Delete version ${version} of ${model.name}?`),
      h("p", {}, "Whoever asks for it by its number gets no answer any more. This cannot be undone."),
      h(
        "p",
        { class: "actions" },
        h("button", { type: "button", class: "primary", onclick: () => (dialog.close(), act(`Version ${version} is deleted.`, "DELETE", `${place}/versions/${version}`)) }, "Delete it"),
        h("button", { type: "button", onclick: () => dialog.close() }, "Keep it"),
      ),
    );
    dialog.addEventListener("close", () => dialog.remove());
    list.append(dialog);
    dialog.showModal();
  }

  draw();
  return { body: [list, message, comparison(model, detail, place, compared, signal)] };
}

function comparison(model, detail, place, compared, signal) {
  const others = model.versions.map((version) => version.version).filter((number_) => number_ !== detail.version);
  if (!others.length) return h("p", { class: "quiet" }, "Train again under the same name to compare two versions.");
  const chosen = select([["", "Choose a version …"], ...others.map((number_) => [String(number_), `version ${number_}`])], "", { id: newId("other") });
  chosen.addEventListener("change", async () => {
    if (!chosen.value) return show(compared);
    try {
      const of = (number_) => `${place}/versions/${number_}`;
      const other = await get(`${of(chosen.value)}?basis=false`, { signal });
      const [mine, theirs] = await Promise.all([detail, other].map(({ version }) => heldOut(of(version), signal)));
      show(compared, paired(mine, theirs, detail, other), differences(detail, other));
      announce(`Version ${detail.version} beside version ${other.version}`);
    } catch (error) {
      show(compared, failure(error));
    }
  });
  return h("section", {}, h("h2", {}, `Version ${detail.version} beside another`), h("div", { class: "field" }, h("label", { for: chosen.id }, "Compare with"), chosen), compared);
}

// Null where an earlier release kept none.
async function heldOut(path, signal) {
  try {
    return await get(`${path}/held-out`, { signal });
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

// Squared errors row by row, on rows that both were measured on: their difference is surer than that of two scores.
function paired(mine, theirs, one, other) {
  if (!mine || !theirs) return null;
  const places = new Map(theirs.rows.map((row, place) => [row, place]));
  const both = mine.rows.map((row, place) => [place, places.get(row)]).filter(([a, b]) => b !== undefined && mine.target[a] === theirs.target[b]);
  if (both.length < 2 || both.length < mine.rows.length / 2) {
    return h("p", {}, "The two were measured on different rows: a small difference of their scores means nothing.");
  }
  const squares = both.map(([a, b]) => [(mine.mean[a] - mine.target[a]) ** 2, (theirs.mean[b] - theirs.target[b]) ** 2]);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const gaps = squares.map(([a, b]) => a - b);
  const gap = mean(gaps);
  const error = Math.sqrt(mean(gaps.map((value) => (value - gap) ** 2)) / (gaps.length - 1));
  const [first, second] = [0, 1].map((column) => Math.sqrt(mean(squares.map((pair) => pair[column]))));
  const better = gap < 0 ? one.version : other.version;
  const verdict = Math.abs(gap) > 2 * error ? `version ${better} is better, and more than chance explains` : "the difference is within chance";
  return h("p", {}, `On the same ${count(both.length)} held-out rows: RMSE ${score(first)} for version ${one.version}, ${score(second)} for version ${other.version}; `, h("strong", {}, verdict), ".");
}

function differences(one, other) {
  const marked = (a, b) => [a, a === b ? b : h("span", { class: "different" }, b)];
  const scoreOf = (detail, name) => (detail.report.holdout ?? detail.report.leave_one_out)[name];
  const rows = [
    ["Rows learnt from", ...marked(count(one.report.rows), count(other.report.rows))],
    ["Measured on, rows", ...marked(count(scoreOf(one, "rows")), count(scoreOf(other, "rows")))],
    [`RMSE, ${one.target}`, ...marked(score(scoreOf(one, "rmse")), score(scoreOf(other, "rmse")))],
    ["NLPD, nats", ...marked(score(scoreOf(one, "nlpd")), score(scoreOf(other, "nlpd")))],
    ["In 95% intervals", ...marked(percent(scoreOf(one, "coverage")["0.95"]), percent(scoreOf(other, "coverage")["0.95"]))],
    ["Mean width of 95%", ...marked(score(scoreOf(one, "mean_width")["0.95"]), score(scoreOf(other, "mean_width")["0.95"]))],
    ["Kernel", ...marked(one.report.kernel, other.report.kernel)],
    ["Rows the mean rests on", ...marked(count(one.mean_rows), count(other.mean_rows))],
  ];
  const text = (value) => (value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value));
  const fields = [...new Set([...Object.keys(one.spec), ...Object.keys(other.spec)])].sort();
  for (const name of fields) {
    const [a, b] = [text(one.spec[name]), text(other.spec[name])];
    if (a !== b && name !== "model") rows.push([h("span", {}, "asked: ", h("code", {}, name)), ...marked(a, b)]);
  }
  return [
    h("p", { class: "quiet" }, "What differs is marked. Fields of the specification are listed only where they differ."),
    table(`Version ${one.version} beside version ${other.version}`, ["", `Version ${one.version}`, `Version ${other.version}`], rows, { hideCaption: true }),
  ];
}
