// A dataset: how each column was read, what to predict, and the training.

import { get, send } from "./api.js";
import { field, h, newId, select, show, table } from "./dom.js";
import { failure } from "./failure.js";
import { bytes, count, plain, plural } from "./format.js";
import { sparkBars, sparkLevels } from "./spark.js";
import { trainOptions } from "./options.js";

const KINDS = [
  ["number", "number"],
  ["category", "category"],
  ["date", "date"],
  ["day-first", "date, day first"],
  ["month-first", "date, month first"],
  ["boolean", "yes or no"],
  ["ignore", "leave it out"],
];
const WORDS = { integer: "whole number", number: "number", category: "category", date: "date", boolean: "yes or no", empty: "empty" };

export async function view([id], signal) {
  const dataset = await get(`datasets/${encodeURIComponent(id)}`, { signal });
  const corrections = new Map();
  const guess = guessTarget(dataset);
  const target = select(
    [["", "Choose a column …"], ...dataset.columns.filter((column) => column.type !== "empty").map((column) => [column.name, column.name])],
    guess,
    { required: true, id: "target" },
  );
  const numbers = dataset.columns.filter((column) => ["number", "integer"].includes(column.type));
  const more = h("select", { multiple: true, size: Math.min(4, numbers.length) }, numbers.map((column) => h("option", { value: column.name }, column.name)));
  const targets = () => [target.value, ...[...more.selectedOptions].map((option) => option.value).filter((name) => name !== target.value)];
  const options = trainOptions(dataset);
  const problem = h("div");
  const notes = h("div", { "aria-live": "polite" });
  const submit = h("button", { type: "submit", class: "primary" }, "Train");
  const list = columnList(dataset, corrections, targets);
  const mark = () => {
    list.mark(targets());
    const told = dataset.warnings.filter((text) => target.value === dataset.target || !text.includes("cannot be the target"));
    show(notes, told.length ? h("ul", { class: "warnings" }, told.map((text) => h("li", {}, text))) : null);
    options.missing(dataset.columns.filter((column) => column.missing > 0 && !targets().includes(column.name) && corrections.get(column.name) !== "ignore"), targets().length > 1);
  };
  target.addEventListener("change", mark);
  more.addEventListener("change", mark);
  list.changed = mark;
  mark();

  async function train(event) {
    event.preventDefault();
    submit.disabled = true;
    show(problem);
    const columns = Object.fromEntries([...corrections].filter(([name]) => !targets().includes(name)));
    const spec = { target: targets().length > 1 ? targets() : target.value, ...options.spec() };
    if (Object.keys(columns).length) spec.columns = columns;
    try {
      const job = await send("POST", "train", { dataset: dataset.id, spec });
      location.hash = `#/jobs/${job.id}`;
    } catch (error) {
      show(problem, failure(error));
      problem.scrollIntoView({ block: "nearest" });
    } finally {
      submit.disabled = false;
    }
  }

  return {
    title: dataset.name || "Dataset",
    body: [
      h("h1", {}, dataset.name || "Dataset"),
      h("p", { class: "lead" }, `${plural(dataset.rows, "row")}, ${plural(dataset.columns.length, "column")}, ${bytes(dataset.size_bytes)} kept.`),
      h(
        "form",
        { onsubmit: train, class: "panel", "aria-label": "Train a model" },
        h("h2", {}, "What is to be predicted?"),
        field("Target", target, guess ? "The last column, unless you choose another. It has to be a number." : "A column of numbers. Its name and unit are used everywhere from here on."),
        numbers.length > 2 ? h("details", {}, h("summary", {}, "Predict more than one column"), field("Also predict", more, "Other columns of numbers, for which the same model has a prediction and an error bar each.")) : null,
        notes,
        options.body,
        problem,
        h("p", { class: "actions" }, submit, h("span", { class: "quiet" }, "A model is published at the end. You can watch, cancel, and leave this page.")),
      ),
      h("section", { "aria-labelledby": "columns-title" }, h("h2", { id: "columns-title" }, "How each column was read"), list.body),
      preview(dataset),
    ],
  };
}

// The server's guess where it can be learnt; a wrong guess is worse than a question.
function guessTarget(dataset) {
  const column = dataset.columns.find((each) => each.name === dataset.target);
  const doubtful = dataset.warnings.some((text) => text.includes("cannot be the target"));
  return column && !doubtful && ["number", "integer"].includes(column.type) ? column.name : "";
}

function columnList(dataset, corrections, target) {
  const result = { changed: () => {} };
  const marks = new Map();
  const rows = dataset.columns.map((column) => {
    const own = { integer: "number" }[column.type] ?? column.type;
    const name = newId("column");
    const control = select(
      [["", `as read: ${WORDS[column.type] ?? column.type}`], ...KINDS.filter(([value]) => value !== own)],
      "",
      { "aria-labelledby": name, disabled: column.type === "empty" },
    );
    control.addEventListener("change", () => {
      if (control.value) corrections.set(column.name, control.value);
      else corrections.delete(column.name);
      result.changed();
    });
    const mark = h("span", { class: "mark" });
    marks.set(column.name, { mark, control });
    return h(
      "li",
      {},
      h("div", {}, h("span", { id: name, class: "name" }, column.name), " ", mark),
      h("div", {}, control),
      spread(column),
      h("div", { class: column.missing ? null : "quiet" }, column.missing ? `${count(column.missing)} missing` : "none missing"),
      h("div", {}, column.warnings.length ? h("ul", { class: "warnings" }, column.warnings.map((text) => h("li", {}, text))) : null),
    );
  });
  result.body = h("ul", { class: "columns" }, rows);
  result.mark = (chosen) => {
    for (const [name, { mark, control }] of marks) {
      mark.textContent = chosen.includes(name) ? "target" : "";
      control.disabled = chosen.includes(name) || control.options[0].text.endsWith("empty");
    }
  };
  result.mark(target());
  return result;
}

function spread(column) {
  if (column.histogram?.counts?.length) {
    const ends = [column.min, column.max];
    const [low, high] = column.type === "date" ? ends : ends.map((end) => plain(end));
    return h("div", { class: "spread" }, sparkBars(column.histogram.counts, `${column.name}: from ${low} to ${high}`), h("span", { class: "quiet" }, low === high ? low : `${low} to ${high}`));
  }
  if (column.top?.length) return sparkLevels(column.top.slice(0, 4), column.distinct);
  return h("span", { class: "quiet" }, "nothing");
}

function preview(dataset) {
  const shown = dataset.columns.filter((column) => column.first);
  if (!shown.length) return null;
  const rows = shown[0].first.map((_, row) => [String(row + 1), ...shown.map((column) => column.first[row] ?? "")]);
  return h("section", {}, h("h2", {}, "The first rows"), table("The first rows, as read", ["Row", ...shown.map((column) => column.name)], rows, { hideCaption: true }));
}
