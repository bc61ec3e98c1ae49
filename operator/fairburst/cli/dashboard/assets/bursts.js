// Bursts as windows on a time line, from the opening to the deadline. A periodic queue has a window in each period.
import { badge, card, el, queueLink, showAll, span } from "./page.js";

const LANES = 12, WIDEST_TICKS = 8;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
const URGENCY = { Overdue: 0, Open: 1, Armed: 2, Closed: 3 };
const view = { lanes: LANES };

export function bursts(state, queues, again) {
  const found = queues.filter((one) => one.kind === "LatencyQueue");
  if (!found.length) return null;
  found.sort((one, other) => (URGENCY[one.window?.state] ?? 4) - (URGENCY[other.window?.state] ?? 4) || start(one) - start(other));
  const shown = found.slice(0, view.lanes);
  const more = found.length > shown.length ? showAll(found.length, () => { view.lanes = Infinity; again(); }) : null;
  return card("Bursts", "from the opening to the deadline, filled while one runs; fading: from when on one may come", timeLine(state.clock(), shown), more);
}

const start = (one) => one.window?.opened ?? one.window?.opensBy ?? one.window?.armsAt ?? Infinity;

// `named` is false where the page is about one queue.
export function timeLine(at, shown, named = true) {
  const ends = shown.map((one) => (one.window?.deadline ?? start(one)) - at).filter((one) => Number.isFinite(one) && one > 0);
  const ahead = Math.min(86400, Math.max(120, ...ends) * 1.1), behind = ahead / 6;
  const ticks = scaleTicks(behind, ahead);
  const place = (time) => Math.min(100, Math.max(0, ((time - at + behind) / (ahead + behind)) * 100));
  const spot = (time) => ({ left: `${place(at + time)}%` });
  const marks = ticks.map(({ time, text, odd }) => el("span", { className: !time ? "present" : odd ? "odd" : "", style: spot(time) }, text));
  const scale = el("div", { className: "lane scale-lane", ariaHidden: "true" }, named ? el("span", { className: "label" }) : null, el("div", { className: "scale" }, ...marks), el("span"));
  const lanes = shown.map((one) => lane(one, at, place, ahead, ticks.map(({ time }) => spot(time)), named));
  return el("div", { className: named ? "lanes" : "lanes bare" }, ...lanes, scale);
}

// Round times from `behind` seconds ago to `ahead` seconds from now.
export function scaleTicks(behind, ahead) {
  const step = STEPS.find((one) => (ahead + behind) / one <= WIDEST_TICKS) ?? STEPS.at(-1);
  const ticks = [];
  for (let time = Math.ceil(-behind / step) * step || 0; time <= ahead; time += step) ticks.push({ time, text: time ? mark(time, step) : "now", odd: (time / step) % 2 !== 0 });
  return ticks;
}

function mark(time, step) {
  const [size, unit] = step < 60 ? [1, "s"] : step < 3600 ? [60, "min"] : [3600, "h"];
  return `${time < 0 ? "−" : "+"}${Math.abs(time) / size} ${unit}`;
}

function lane(queue, at, place, ahead, ticks, named) {
  const told = situation(queue.window, at);
  const windows = [];
  if (queue.window && queue.window.deadline) {
    const from = queue.window.opened ?? queue.window.opensBy ?? queue.window.armsAt ?? at;
    const every = queue.periodSeconds ?? Infinity;
    for (let turn = 0; turn < 40 && from + (turn ? turn * every : 0) < at + ahead; turn += 1) {
      const shift = turn ? turn * every : 0;
      const until = !turn && queue.window.state === "Overdue" ? Math.max(at, queue.window.deadline) : queue.window.deadline + shift;
      const left = place(from + shift), right = place(until);
      windows.push(el("i", { className: turn ? "Closed" : queue.window.state, style: { left: `${left}%`, width: `${Math.max(0.5, right - left)}%` } }));
    }
  }
  if (queue.window && !queue.window.deadline && queue.window.armsAt) {
    const left = place(Math.max(at, queue.window.armsAt));
    windows.push(el("i", { className: "May", style: { left: `${left}%`, width: `${100 - left}%` } }));
  }
  const lines = ticks.map((style) => el("s", { style }));
  const track = el("div", { className: "track", role: "img", "aria-label": told, title: told }, ...lines, ...windows, el("b", { style: { left: `${place(at)}%` } }));
  const kept = el("span", { className: "quiet" }, `${queue.met} met, `, el("span", { className: queue.missed ? "bad" : "" }, `${queue.missed} missed`));
  const name = named ? el("span", {}, badge(queue), queueLink(queue)) : null;
  return el("div", { className: "lane" }, name, track, el("span", {}, el("span", { className: queue.window?.state === "Overdue" ? "bad" : "" }, told), el("br"), kept));
}

export function situation(window, at) {
  if (!window) return "no window yet";
  if (window.state === "Open") return window.deadline ? `open, ${span(window.deadline - at)} left` : "open";
  if (window.state === "Overdue") return window.deadline && window.deadline < at ? `${span(at - window.deadline)} overdue` : "overdue";
  if (window.state === "Armed") return window.opensBy > at ? `expected within ${span(window.opensBy - at)}` : "may come at any time";
  return window.armsAt > at ? `next in ${span(window.armsAt - at)}` : "closed";
}
