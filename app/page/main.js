// Views by the address's fragment, so that the page works under any prefix: #/, #/datasets/ds_.., #/jobs/job_..,
// #/models/name[@version][/look|ask|file|versions|use].

import { announce, h, show } from "./dom.js";
import { failure } from "./failure.js";
import { setUpKey } from "./key.js";

const VIEWS = [
  [/^\/?$/, () => import("./home.js"), "Home"],
  [/^\/datasets\/([^/]+)$/, () => import("./dataset.js"), "Dataset"],
  [/^\/jobs\/([^/]+)$/, () => import("./job.js"), "Training"],
  [/^\/models\/([^/@]+)(?:@([^/]+))?(?:\/([a-z]+))?$/, () => import("./model.js"), "Model"],
];

const main = document.getElementById("main");
let leaving = new AbortController();
let first = true;

// The place in the address: "/" for what is none.
function placeOf(hash) {
  try {
    return decodeURI(hash.slice(1)) || "/";
  } catch {
    return "/nowhere";
  }
}

async function route() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const place = placeOf(location.hash);
  const found = VIEWS.map(([pattern, load, title]) => ({ match: pattern.exec(place), load, title })).find(
    ({ match }) => match,
  );
  if (!found) {
    main.removeAttribute("aria-busy");
    document.title = "Not found · Pursuit";
    show(main, h("h1", {}, "There is no such page"), h("p", {}, h("a", { href: "#/" }, "Home")));
    return;
  }
  main.setAttribute("aria-busy", "true");
  const slow = setTimeout(() => !signal.aborted && show(main, h("p", { class: "quiet" }, "Loading …")), 300);
  try {
    const { view } = await found.load();
    const content = await view(found.match.slice(1).map((part) => part && decodeURIComponent(part)), signal);
    if (signal.aborted) return;
    show(main, content.body);
    document.title = `${content.title || found.title} · Pursuit`;
    content.shown?.();
    if (!first) {
      const heading = main.querySelector("h1");
      heading?.setAttribute("tabindex", "-1");
      heading?.focus({ preventScroll: content.keepScroll });
      announce(document.title);
    }
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    show(main, h("h1", {}, error.status === 404 ? "Not found" : "This did not work"), failure(error), again());
  } finally {
    clearTimeout(slow);
    if (!signal.aborted) main.removeAttribute("aria-busy");
    first = false;
  }
}

function again() {
  return h(
    "p",
    { class: "actions" },
    h("button", { type: "button", onclick: route }, "Try again"),
    h("a", { href: "#/" }, "Home"),
  );
}

// By script, for the fragment of the address names the view.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
  main.scrollIntoView();
});
setUpKey(route);
window.addEventListener("hashchange", route);
route();
