// The effect of changed capacity, weights or queues, found by deciding again. Nothing is written.
import { ask, breakable, card, el, heading, percent, queueOptions } from "./page.js";

const HINT = "For example: capacity -25% is a quarter of the nodes gone, cpu=+50% half as many cores more. Several fields together are one change.";

const COLUMNS = [["share", "Share", "number wide"], ["level", "Level", "number"], ["given", "Given now", "number wide"]];

export function whatIfPage(state) {
  const fields = { capacity: "+20%, or cpu=-10%", remove: "namespace/queue", weight: "namespace/queue=3" };
  const inputs = Object.entries(fields).map(([name, hint]) => el("input", { name, placeholder: hint }));
  inputs[1].setAttribute("list", "queues");
  inputs[2].setAttribute("list", "queues");
  const labels = ["Capacity", "Without the queue", "Weight"].map((label, at) => el("label", {}, label, inputs[at]));
  const shown = el("div", { ariaLive: "polite" });
  const form = el("form", {}, ...labels, el("button", { className: "main" }, "Try"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const query = new URLSearchParams(inputs.filter((one) => one.value.trim()).map((one) => [one.name, one.value.trim()]));
    const found = await ask(`/ask/what-if?${query}`, shown);
    if (found) shown.replaceChildren(result(found));
  });
  const hint = el("p", { className: "quiet" }, HINT);
  return [heading("What if"), card("Decide again with a change", "nothing is written", form, queueOptions(state, "queues"), hint, shown)];
}

function result(found) {
  const changed = found.filter((one) => one.change !== "same").sort((one, other) => other.weaker - one.weaker);
  if (!changed.length) return el("p", {}, `No queue of ${found.length} would notice.`);
  const parts = ({ before, after }) => (percent(before) === percent(after) ? percent(after) : `${percent(before)} → ${percent(after)}`);
  const words = ({ before, after }) => (before === after ? after : `${before ?? "new"} → ${after ?? "gone"}`);
  const rows = changed.map((one) => el("tr", {}, el("th", { scope: "row" }, ...breakable(one.queue)), el("td", { className: one.weaker ? "bad" : "" }, words(one.class)),
    ...COLUMNS.map(([each, , style]) => el("td", { className: style }, parts(one[each])))));
  const titles = [["", "Queue", ""], ["", "Class", ""], ...COLUMNS].map(([, title, style]) => el("th", { scope: "col", className: style }, title));
  const weaker = changed.filter((one) => one.weaker).length;
  const verdict = weaker ? `${weaker} of ${found.length} queues would be promised less.` : `No queue would be promised less; ${changed.length} of ${found.length} change.`;
  const table = el("table", {}, el("caption", { className: "hidden" }, "Changes"), el("thead", {}, el("tr", {}, ...titles)), el("tbody", {}, ...rows));
  return el("div", {}, el("p", { className: weaker ? "verdict bad" : "verdict good" }, verdict), el("p", { className: "quiet" }, "Parts are of the pool; the level is what a quota admits."),
    el("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "Changes" }, table));
}
