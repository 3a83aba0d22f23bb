// Predict a file: it comes back with the mean and the error bar of each row.

import { ask, saveBlob } from "./api.js";
import { announce, field, h, select, show, table } from "./dom.js";
import { failure } from "./failure.js";
import { number, plural } from "./format.js";

const SHOWN = 10;

export async function view({ model, detail, signal }) {
  const needed = detail.report.columns.filter((column) => column.kind !== "unused").map((column) => column.name);
  const level = select([["0.5", "50%"], ["0.8", "80%"], ["0.9", "90%"], ["0.95", "95%"], ["0.99", "99%"]], "0.95");
  const place = h("div", { "aria-live": "polite" });
  const input = h("input", { type: "file", onchange: () => input.files.length && predict(input.files[0]) });
  const bars = detail.artefact?.kind !== "mean";

  async function predict(file) {
    show(place, h("p", { class: "busy" }, `Predicting ${file.name} …`));
    const query = new URLSearchParams({ model: `${model.name}@${detail.version}`, keep: "all", interval: bars ? level.value : "false" });
    try {
      const answer = await ask(`predict?${query}`, {
        method: "POST",
        headers: { "Content-Type": "application/octet-stream", Accept: "text/csv" }, // the bytes say what they are
        body: file,
        signal,
      });
      const text = await answer.text();
      const name = `${file.name.replace(/(\.[A-Za-z0-9]{1,8})+$/, "") || "table"}-predicted.csv`;
      const [head, ...rows] = predictedFirst(records(text, SHOWN + 1), bars ? 4 : 1);
      const total = Number(answer.headers.get("X-Rows"));
      show(
        place,
        h("p", { class: "actions" }, h("button", { type: "button", class: "primary", onclick: () => saveBlob(new Blob([text], { type: "text/csv" }), name) }, `Download ${name}`), h("span", {}, `${plural(total, "row")} predicted.`)),
        answer.headers.get("X-Warnings") ? h("p", { class: "note" }, answer.headers.get("X-Warnings")) : null,
        table(total > rows.length ? `The first ${plural(rows.length, "row")}` : "All rows", head, rows, { rowHeads: false, numeric: [0, 1, 2, 3] }),
      );
      announce(`${plural(total, "row")} predicted`);
    } catch (error) {
      if (error.name !== "AbortError") show(place, failure(error));
    } finally {
      input.value = "";
    }
  }

  return {
    body: [
      h("p", {}, `A file of any format that training takes, with these columns in any order: ${needed.join(", ")}. Others are kept as they are. It comes back as CSV with `, h("code", {}, bars ? "mean, std, lower, upper" : "mean"), " beside its own columns."),
      h("div", { class: "panel" }, h("div", { class: "fields" }, bars ? field("Interval", level, "Probability that the truth is between lower and upper.") : null, field("Table to predict", input)), place),
    ],
  };
}

// The last columns are the prediction's: they come first on the screen, with digits that count.
function predictedFirst([head, ...rows], columns) {
  const start = head.length - columns;
  const turned = (row) => [...row.slice(start), ...row.slice(0, start)];
  const short = (cell, row) => (Number.isFinite(Number(cell)) && cell !== "" ? number(Number(cell), Number(row[start + 1]) || Number(cell)) : cell);
  return [turned(head), ...rows.map((row) => turned(row.map((cell, column) => (column >= start ? short(cell, row) : cell))))];
}

/** The first records of a CSV text, as lists of cells. */
export function records(text, most) {
  const found = [[]];
  const cell = /("(?:[^"]|"")*"|[^,\r\n"]*)(,|\r?\n|$)/gy;
  for (let match = cell.exec(text); match; match = cell.exec(text)) {
    const [, raw, end] = match;
    found.at(-1).push(raw.startsWith('"') ? raw.slice(1, -1).replaceAll('""', '"') : raw);
    if (end === "" || cell.lastIndex >= text.length) break;
    if (end !== ",") {
      if (found.length === most) break;
      found.push([]);
    }
  }
  return found;
}
