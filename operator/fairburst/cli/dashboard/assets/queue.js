// A queue's page, live, and a Job's page with its expected start.
import { amounts, ask, badge, card, el, explained, percent, queueName, span } from "./page.js";
import { situation } from "./now.js";

export function queuePage(state, key) {
  const queue = state.queues.get(key);
  if (!queue) return [card("Queue", "", el("p", {}, `There is no ${key} now.`))];
  const facts = [["Kind", `${queue.kind}, weight ${queue.weight}, ${queue.enforcement}`], ["State", queue.ready === "True" ? "Ready" : queue.message], ["Fair share", percent(queue.share)],
    ["Running", amounts(queue.usage)], ["Wanted", amounts(queue.demand)], ["Given", `${amounts(queue.allocation)}; guaranteed of it ${amounts(queue.guaranteed)}`],
    ["Waiting", queue.explanation || "Nothing waits."]];
  if (queue.kind === "LatencyQueue") facts.push(["Burst", situation(queue.window, state.clock())], ["Bursts so far", `${queue.met} met, ${queue.missed} missed`]);
  return [el("section", {}, el("h1", {}, queueName(queue), " ", badge(queue)), el("dl", {}, ...facts.flatMap(([label, text]) => [el("dt", {}, label), el("dd", {}, text)])))];
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

export function jobPage() {
  const [within, name] = ["Namespace", "Job"].map((label) => el("input", { required: true, ariaLabel: label }));
  const shown = el("div", { ariaLive: "polite" });
  const form = el("form", {}, el("label", {}, "Namespace", within), el("label", {}, "Job", name), el("button", { className: "main" }, "When does it start?"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const found = await ask(`/ask/job/${encodeURIComponent(within.value)}/${encodeURIComponent(name.value)}`, shown);
    if (found) shown.replaceChildren(start(found.eta), ...explained(found));
  });
  return [el("h1", {}, "A Job"), card("Why it waits, and when it starts", "", form, shown)];
}

function start(eta) {
  if (eta.state !== "Waiting") return el("p", {}, `It has ${eta.state.toLowerCase()}.`);
  const words = (seconds) => (seconds === null ? "more than a week" : span(seconds));
  const ranges = Object.entries(eta.intervalsSeconds).map(([level, [low, high]]) => `${level} %: ${words(low)} to ${words(high)}`).join("; ");
  return el("p", {}, el("strong", {}, `It starts in about ${words(eta.medianSeconds)}. `), `${ranges}. From ${eta.runs} forward runs with the durations of ${eta.endedPods} ended pods.`);
}
