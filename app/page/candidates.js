// The models that a training compared.

import { h, table } from "./dom.js";
import { score } from "./format.js";

/** Models that were compared. */
export function candidates(report) {
  if (!report.candidates?.length) return null;
  const rows = report.candidates.map((each) => [
    h("span", {}, each.mean === "basis" ? "sparse" : "full", each.taken ? [" ", h("span", { class: "mark" }, "taken")] : null),
    each.kernel,
    String(each.mean_rows),
    each.nmse === null ? "–" : score(each.nmse),
    score(each.nlpd),
    each.seconds.toFixed(1),
    each.reason ?? "",
  ]);
  return h(
    "section",
    {},
    h("h2", {}, "Models that were compared"),
    h("p", { class: "quiet" }, "On rows that were left out. NMSE: the share of the target's variance that is not explained. NLPD: how surprising the truth was, given the error bars. Less is better for both."),
    table("Models that were compared", ["Model", "Kernel", "Rows it rests on", "NMSE", "NLPD", "Seconds", "Why"], rows, { numeric: [2, 3, 4, 5], hideCaption: true }),
  );
}
