// What a change of capacity, weights or queues would do, by deciding again. Nothing is written.
import { ask, card, el, percent } from "./page.js";

export function whatIfPage() {
  const fields = { capacity: "+20%, or cpu=-10%", remove: "namespace/queue", weight: "namespace/queue=3" };
  const inputs = Object.entries(fields).map(([name, hint]) => el("input", { name, placeholder: hint }));
  const labels = ["Capacity", "Without the queue", "Weight"].map((label, at) => el("label", {}, label, inputs[at]));
  const shown = el("div", { ariaLive: "polite" });
  const form = el("form", {}, ...labels, el("button", { className: "main" }, "Try"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const query = new URLSearchParams(inputs.filter((one) => one.value.trim()).map((one) => [one.name, one.value.trim()]));
    const found = await ask(`/ask/what-if?${query}`, shown);
    if (found) shown.replaceChildren(result(found));
  });
  return [el("h1", {}, "What if"), card("Decide again with a change", "nothing is written", form, shown)];
}

function result(found) {
  const changed = found.filter((one) => one.change !== "same");
  if (!changed.length) return el("p", {}, `No queue of ${found.length} would notice.`);
  const parts = ({ before, after }) => (percent(before) === percent(after) ? percent(after) : `${percent(before)} → ${percent(after)}`);
  const words = ({ before, after }) => (before === after ? after : `${before ?? "new"} → ${after ?? "gone"}`);
  const rows = changed.map((one) => el("tr", {}, el("th", { scope: "row" }, one.queue), el("td", { className: one.weaker ? "bad" : "" }, words(one.class)),
    ...["share", "level", "given"].map((each) => el("td", { className: "number" }, parts(one[each])))));
  const head = el("tr", {}, ...["Queue", "Class", "Share", "Level", "Given now"].map((one, at) => el("th", { scope: "col", className: at > 1 ? "number" : "" }, one)));
  return el("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "Changes" },
    el("table", {}, el("caption", {}, `${changed.length} of ${found.length} queues change. Parts are of the pool; the level is what a quota admits.`), el("thead", {}, head), el("tbody", {}, ...rows)));
}
