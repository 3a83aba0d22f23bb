// A refusal in words, with the cells it is about.

import { h, table } from "./dom.js";
import { count } from "./format.js";

const MEANS = {
  403: "This key may not do that. Ask whoever runs the server for one that may, and give it under “API key” above.",
  413: "That is more than this server takes.",
  503: "The server has too much to do, or does not reach its database. Try again in a moment.",
};

/** The problem as an alert: the sentence, what it means, the cells. */
export function failure(error) {
  const cells = (error.errors || []).filter((each) => each.row !== undefined && each.row !== null);
  const others = (error.errors || []).filter((each) => each.row === undefined || each.row === null);
  const extra = others.map((each) => each.message).filter((text) => !error.message.includes(text));
  return h(
    "div",
    { class: "failure", role: "alert" },
    h("p", {}, h("strong", {}, "Problem: "), error.message || String(error)),
    MEANS[error.status] ? h("p", {}, MEANS[error.status]) : null,
    extra.length ? h("ul", {}, extra.map((text) => h("li", {}, text))) : null,
    cells.length ? cellTable(cells, error.count) : null,
  );
}

function cellTable(cells, total) {
  const lines = cells.some((cell) => cell.line !== undefined && cell.line !== null);
  const caption = total > cells.length ? `The first ${cells.length} of ${count(total)} cells` : "The cells";
  const value = (cell) => (cell.value === "" ? h("span", { class: "quiet" }, "empty") : h("code", {}, cell.value));
  const columns = [
    [lines ? "Line" : "Row", (cell) => String(lines ? cell.line : cell.row + 1), () => true],
    ["Column", (cell) => cell.column ?? "", (cell) => cell.column],
    ["Cell", (cell) => (cell.value === undefined || cell.value === null ? "" : value(cell)), (cell) => cell.value !== undefined && cell.value !== null],
    ["What is wrong", (cell) => cell.message, () => true],
  ].filter(([, , has]) => cells.some(has));
  return table(
    caption,
    columns.map(([head]) => head),
    cells.map((cell) => columns.map(([, show]) => show(cell))),
  );
}
