// Numbers and times in words and digits.

/** Digits after the point at which `scale` (an error bar, a range) has two digits that count. */
export function digitsFor(scale) {
  if (!(scale > 0) || !Number.isFinite(scale)) return 2;
  return Math.min(12, Math.max(0, 1 - Math.floor(Math.log10(scale))));
}

/** A number with as many digits as `scale` makes meaningful. */
export function number(value, scale = Math.abs(value)) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.max(Math.abs(value), scale || 0);
  if (size !== 0 && (size >= 1e9 || size < 1e-5)) return value.toExponential(2).replace("-", "−");
  const digits = digitsFor(scale);
  const shown = value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return shown.replace("-", "−");
}

/** A score, with three digits that count. */
export function score(value) {
  return number(value, Math.abs(value) / 10);
}

/** A number as short as it can be written, without grouping: for fields. */
export function plain(value, significant = 6) {
  return value === null || value === undefined ? "" : String(Number(Number(value).toPrecision(significant)));
}

/** A whole number with grouped digits. */
export function count(value) {
  return Number(value).toLocaleString("en");
}

/** "1 row", "2 rows". */
export function plural(value, word) {
  return `${count(value)} ${word}${value === 1 ? "" : "s"}`;
}

/** A share as a percentage. */
export function percent(share, digits = 1) {
  return share === null || share === undefined ? "–" : `${(100 * share).toFixed(digits)}%`;
}

/** Seconds as a person would say them. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 1) return "under a second";
  if (seconds < 90) return plural(Math.round(seconds), "second");
  if (seconds < 5400) return plural(Math.round(seconds / 60), "minute");
  return `${(seconds / 3600).toFixed(1)} hours`;
}

/** Bytes as kB or MB. */
export function bytes(size) {
  if (size < 1e5) return `${(size / 1e3).toFixed(1)} kB`;
  return size < 1e9 ? `${(size / 1e6).toFixed(1)} MB` : `${(size / 1e9).toFixed(1)} GB`;
}

/** A time of the API, in the reader's own zone. */
export function when(text) {
  if (!text) return "";
  return new Date(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}
