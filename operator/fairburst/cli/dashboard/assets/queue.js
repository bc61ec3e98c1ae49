// A queue's page, live, and a Job's page with its expected start.
import { scaleTicks, timeLine } from "./bursts.js";
import { amounts, ask, badge, bar, card, el, explained, heading, part, percent, queueName, span, usedPart, wantedPart } from "./page.js";

const LIVE = ["Wanted", "Running", "Given"];  // facts that the card above shows, live

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
    if (found) shown.replaceChildren(...explained(found, LIVE));
  });
  return card("Why", "decided again with each change", asked, shown);
}

export function jobPage(state, [namespace = "", job = ""]) {
  const fields = { Namespace: namespace, Job: job };
  const [within, name] = Object.entries(fields).map(([label, value]) => el("input", { required: true, ariaLabel: label, value }));
  within.setAttribute("list", "namespaces");
  const namespaces = [...new Set([...state.queues.values()].map((one) => one.namespace))].sort().map((value) => el("option", { value }));
  const shown = el("div", { className: "page", ariaLive: "polite" });
  const form = el("form", {}, el("label", {}, "Namespace", within), el("label", {}, "Job", name), el("button", { className: "main" }, "When does it start?"));
  const look = async () => {
    const found = await ask(`/ask/job/${encodeURIComponent(within.value)}/${encodeURIComponent(name.value)}`, shown);
    if (found) shown.replaceChildren(card("When it starts", "", ...start(found.eta)), card("Why", "", ...explained(found)));
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    history.replaceState(null, "", `#/job/${encodeURIComponent(within.value)}/${encodeURIComponent(name.value)}`);  // an address to pass on
    look();
  });
  if (job) look();
  return [heading("A Job"), card("Which Job?", "", form, el("datalist", { id: "namespaces" }, ...namespaces)), shown];
}

// Finer than a countdown: the ends of an interval should differ.
function words(seconds) {
  if (seconds === null) return "more than a week";
  const left = Math.round(seconds);
  return left >= 60 && left < 3600 ? `${Math.floor(left / 60)} min${left % 60 ? ` ${left % 60} s` : ""}` : span(left);
}

const interval = ([low, high]) => (low === null ? "more than a week" : words(low) === words(high) ? words(low) : `${words(low)} to ${words(high)}`);

// The expected start, and the intervals on a line from now on.
function start(eta) {
  if (eta.state === "Unknown") return [el("p", {}, "To foretell its start takes the right to read the whole cluster. The operator's own forecast is below, if it has made one.")];
  if (eta.state !== "Waiting") return [el("p", { className: "answer good" }, `It has ${eta.state.toLowerCase()}.`)];
  const ranges = Object.entries(eta.intervalsSeconds).sort(([one], [other]) => other - one);
  const facts = ranges.flatMap(([level, range]) => [el("dt", {}, `${level} % sure`), el("dd", {}, interval(range))]);
  const source = `From ${eta.runs} forward runs of the cluster from now on, with the durations of ${eta.endedPods} ended pods.`;
  return [el("p", { className: "answer" }, eta.medianSeconds === null ? "In more than a week" : `In about ${words(eta.medianSeconds)}`),
    rangeLine(eta.medianSeconds, ranges), el("dl", { className: "pairs" }, ...facts), el("p", { className: "quiet" }, source)];
}

function rangeLine(median, ranges) {
  const ends = [median, ...ranges.flatMap(([, range]) => range)].filter((one) => one !== null);
  if (!ends.length) return null;
  const ahead = Math.max(10, ...ends) * 1.08;
  const place = (seconds) => Math.min(100, ((seconds ?? Infinity) / ahead) * 100);
  const drawn = ranges.filter(([, [low]]) => low !== null).map(([level, [low, high]], at) =>
    el("i", { className: at ? "inner" : "outer", title: `${level} % sure`, style: { left: `${place(low)}%`, width: `${Math.max(0.4, place(high) - place(low))}%` } }));
  const ticks = scaleTicks(0, ahead).filter(({ time }) => place(time) < 94);  // a later one would leave the card
  const lines = ticks.map(({ time }) => el("s", { style: { left: `${place(time)}%` } }));
  const marks = ticks.map(({ time, text, odd }) => el("span", { className: time ? (odd ? "odd" : "") : "present", style: { left: `${place(time)}%` } }, text));
  const tick = median === null ? null : el("b", { style: { left: `${place(median)}%` } });
  const label = ranges.map(([level, range]) => `${level} % sure: ${interval(range)}`).join("; ");
  return el("div", { className: "range", role: "img", ariaLabel: label }, el("div", { className: "track" }, ...lines, ...drawn, tick), el("div", { className: "scale" }, ...marks));
}
