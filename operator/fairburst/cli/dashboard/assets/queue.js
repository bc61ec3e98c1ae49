// A queue's page, live, and a Job's page with its expected start.
import { timeLine } from "./bursts.js";
import { amounts, ask, badge, bar, card, el, explained, heading, part, percent, queueName, span, usedPart, wantedPart } from "./page.js";

export function queuePage(state, key) {
  const queue = state.queues.get(key);
  if (!queue) return [card("Queue", "", el("p", {}, `There is no ${key} now.`))];
  const { capacity } = state.pool, used = usedPart(queue, capacity), kept = part(queue.guaranteed, capacity), wanted = wantedPart(queue, capacity);
  const whole = Math.max(0.001, queue.share ?? 0, used, kept, wanted);
  const label = `${percent(used)} of the pool used, ${percent(kept)} guaranteed, ${percent(wanted)} wanted, fair share ${percent(queue.share)}`;
  const measure = el("div", { className: "meter" }, bar(label, { used: used / whole, band: kept / whole, tick: queue.share === null ? null : queue.share / whole }),
    el("p", { className: "quiet" }, el("span", {}, `${percent(used)} of the pool used, ${percent(wanted)} wanted`), el("span", {}, `fair share ${percent(queue.share)}`)));
  const facts = [["Kind", `${queue.kind}, weight ${queue.weight}, ${queue.enforcement}`], ["State", queue.ready === "True" ? "Ready" : `${queue.reason}. ${queue.message}`],
    ["Running", amounts(queue.usage)], ["Wanted", amounts(queue.demand)], ["Given", `${amounts(queue.allocation)}; guaranteed of it ${amounts(queue.guaranteed)}`],
    ["Waiting", queue.explanation || "Nothing waits."]];
  const listed = el("dl", {}, ...facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
  const bursts = queue.kind === "LatencyQueue" ? card("Bursts", "from the opening to the deadline", timeLine(state.clock(), [queue], false)) : null;
  return [heading(queueName(queue), badge(queue)), card("Now", "", measure, listed), bursts].filter(Boolean);
}

export function advice(queue) {
  const shown = el("div", { ariaLive: "polite" });
  const asked = el("button", { type: "button", className: "main" }, "Explain, and what would give it more");
  asked.addEventListener("click", async () => {
    const found = await ask(`/ask/queue/${encodeURIComponent(queue[1])}/${encodeURIComponent(queue[2])}`, shown);
    if (found) shown.replaceChildren(...explained(found));
  });
  return card("Why", "decided again with each change", asked, shown);
}

export function jobPage(state) {
  const [within, name] = ["Namespace", "Job"].map((label) => el("input", { required: true, ariaLabel: label }));
  within.setAttribute("list", "namespaces");
  const namespaces = [...new Set([...state.queues.values()].map((one) => one.namespace))].sort().map((value) => el("option", { value }));
  const shown = el("div", { ariaLive: "polite" });
  const form = el("form", {}, el("label", {}, "Namespace", within), el("label", {}, "Job", name), el("button", { className: "main" }, "When does it start?"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const found = await ask(`/ask/job/${encodeURIComponent(within.value)}/${encodeURIComponent(name.value)}`, shown);
    if (found) shown.replaceChildren(start(found.eta), ...explained(found));
  });
  const hint = el("p", { className: "quiet" }, "The start is foretold by running the cluster forward from now, many times, with the durations of ended pods.");
  return [heading("A Job"), card("Why it waits, and when it starts", "", form, el("datalist", { id: "namespaces" }, ...namespaces), hint, shown)];
}

function start(eta) {
  if (eta.state === "Unknown") return el("p", {}, "To foretell its start takes the right to read the whole cluster. The operator's own forecast is below, if it has made one.");
  if (eta.state !== "Waiting") return el("p", {}, `It has ${eta.state.toLowerCase()}.`);
  const words = (seconds) => (seconds === null ? "more than a week" : span(seconds));
  const ranges = Object.entries(eta.intervalsSeconds).map(([level, [low, high]]) => `${level} %: ${words(low)} to ${words(high)}`).join("; ");
  return el("p", {}, el("strong", {}, `It starts in about ${words(eta.medianSeconds)}. `), `${ranges}. From ${eta.runs} forward runs with the durations of ${eta.endedPods} ended pods.`);
}
