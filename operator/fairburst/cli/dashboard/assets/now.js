// The first page: capacity, bursts on a time line, what waits, and every queue against its fair share.
import { amount, amounts, badge, bar, card, el, part, percent, queueLink, queueName, span } from "./page.js";

const LANES = 12, ROWS = 50;
const view = { filter: "", lanes: LANES, rows: ROWS };

export function now(state, again) {
  const queues = [...state.queues.values()].filter((one) => one.pool === state.pool.name);
  return [capacity(state, queues), bursts(state, queues, again), waiting(queues), table(state, queues, again)].filter(Boolean);
}

function capacity({ pool }, queues) {
  const shapes = pool.shapes.map((one) => `${one.nodes} × ${amounts(one.offers)}`).join("; ");
  const meters = Object.entries(pool.capacity).filter(([, all]) => all > 0).map(([name, all]) => {
    const [used, wanted, kept] = ["usage", "demand", "guaranteed"].map((kind) => queues.reduce((sum, one) => sum + (one[kind][name] ?? 0), 0));
    const label = `${name}: ${amount(name, used)} of ${amount(name, all)} used by queues, ${amount(name, kept)} guaranteed, ${amount(name, wanted)} wanted`;
    return el("div", { className: "meter" },
      el("p", {}, el("strong", {}, name), el("span", {}, `${amount(name, used)} of ${amount(name, all)}`)),
      bar(label, { used: used / all, band: kept / all, tick: wanted / all }),
      el("p", { className: "quiet" }, el("span", {}, `${percent(used / all)} used`), el("span", {}, `wanted ${amount(name, wanted)}`)));
  });
  return card("Capacity", pool.problem ?? `${pool.nodes} nodes: ${shapes || "none counts"}`, el("div", { className: "meters" }, ...meters));
}

const URGENCY = { Overdue: 0, Open: 1, Armed: 2, Closed: 3 };

function bursts(state, queues, again) {
  const found = queues.filter((one) => one.kind === "LatencyQueue");
  if (!found.length) return null;
  const at = state.clock();
  const start = (one) => one.window?.opened ?? one.window?.opensBy ?? one.window?.armsAt ?? Infinity;
  found.sort((one, other) => (URGENCY[one.window?.state] ?? 4) - (URGENCY[other.window?.state] ?? 4) || start(one) - start(other));
  const shown = found.slice(0, view.lanes);
  const ends = shown.map((one) => (one.window?.deadline ?? start(one)) - at).filter((one) => Number.isFinite(one) && one > 0);
  const ahead = Math.min(86400, Math.max(120, ...ends) * 1.1), behind = ahead / 6;
  const place = (time) => Math.min(100, Math.max(0, ((time - at + behind) / (ahead + behind)) * 100));
  const lanes = shown.map((one) => lane(one, at, place, ahead));
  const marks = [0, 0.5, 1].map((each) => el("span", { style: { left: `${place(at + each * ahead)}%` } }, each ? `in ${span(each * ahead)}` : "now"));
  const scale = el("div", { className: "lane scale-lane", ariaHidden: "true" }, el("span"), el("div", { className: "scale" }, ...marks), el("span"));
  const more = found.length > shown.length ? button(`Show all ${found.length}`, () => { view.lanes = Infinity; again(); }) : null;
  return card("Bursts", "from the opening to the deadline; filled while the burst runs", el("div", { className: "lanes" }, ...lanes, scale), more);
}

function lane(queue, at, place, ahead) {
  const told = situation(queue.window, at);
  const windows = [];
  if (queue.window && queue.window.deadline) {
    const from = queue.window.opened ?? queue.window.opensBy ?? queue.window.armsAt ?? at;
    const every = queue.periodSeconds ?? Infinity;
    for (let turn = 0; turn < 40 && from + (turn ? turn * every : 0) < at + ahead; turn += 1) {
      const shift = turn ? turn * every : 0;
      const left = place(from + shift), right = place(queue.window.deadline + shift);
      windows.push(el("i", { className: turn ? "Closed" : queue.window.state, style: { left: `${left}%`, width: `${Math.max(0.5, right - left)}%` } }));
    }
  }
  const track = el("div", { className: "track", role: "img", "aria-label": told, title: told }, ...windows, el("b", { style: { left: `${place(at)}%` } }));
  const kept = el("span", {}, el("span", { className: "good" }, `${queue.met} met`), ", ", el("span", { className: queue.missed ? "bad" : "quiet" }, `${queue.missed} missed`));
  return el("div", { className: "lane" }, el("span", {}, badge(queue), " ", queueLink(queue)), track, el("span", {}, kept, el("br"), el("span", { className: "quiet" }, told)));
}

export function situation(window, at) {
  if (!window) return "no window yet";
  if (window.state === "Open") return window.deadline ? `open, ${span(window.deadline - at)} left` : "open";
  if (window.state === "Overdue") return "overdue";
  if (window.state === "Armed") return window.opensBy > at ? `expected within ${span(window.opensBy - at)}` : "may come at any time";
  return window.armsAt > at ? `next in ${span(window.armsAt - at)}` : "closed";
}

function waiting(queues) {
  const found = queues.filter((one) => Object.keys(one.waiting).length).slice(0, ROWS);
  const rows = found.map((one) => el("tr", {}, el("th", { scope: "row" }, queueLink(one)), el("td", { className: "wide" }, amounts(one.waiting)), el("td", {}, one.explanation)));
  if (!rows.length) return card("Waiting work", "", el("p", { className: "quiet" }, "Nothing waits."));
  return card("Waiting work", `of ${rows.length} queues`, scrolled(["Queue", "Waits", "Why"], rows, "What waits in each queue, and why"));
}

function table(state, queues, again) {
  const input = el("input", { type: "search", id: "filter", value: view.filter, placeholder: "name, class or reason" });
  input.addEventListener("input", () => { view.filter = input.value; again(); });
  const wanted = view.filter.toLowerCase();
  const found = queues.filter((one) => `${queueName(one)} ${one.class} ${one.reason}`.toLowerCase().includes(wanted));
  found.sort((one, other) => part(other.usage, state.pool.capacity) - part(one.usage, state.pool.capacity) || queueName(one).localeCompare(queueName(other)));
  const shown = found.slice(0, view.rows);
  const whole = Math.max(0.001, ...shown.flatMap((one) => [one.share ?? 0, part(one.usage, state.pool.capacity), part(one.guaranteed, state.pool.capacity)]));
  const rows = shown.map((one) => row(one, state.pool.capacity, whole));
  const more = found.length > shown.length ? button(`Show all ${found.length}`, () => { view.rows = Infinity; again(); }) : null;
  const legend = `Bar: used; shaded: guaranteed now; mark: fair share. A full bar is ${percent(whole)} of the pool.`;
  return card("Queues", `${found.length} of ${queues.length}`, el("label", {}, "Filter", input), scrolled(["Queue", "Class", "Use against fair share", "Used", "Fair share", "State"], rows, legend), more);
}

function row(queue, capacity, whole) {
  const used = part(queue.usage, capacity), kept = part(queue.guaranteed, capacity);
  const label = `${percent(used)} used, ${percent(kept)} guaranteed, fair share ${percent(queue.share)}`;
  const state = queue.ready === "True" ? el("span", { className: "quiet" }, "Ready") : el("span", { className: "bad", title: queue.message }, queue.reason);
  return el("tr", {}, el("th", { scope: "row" }, queueLink(queue)), el("td", {}, badge(queue)), el("td", { className: "bar-cell" }, bar(label, { used: used / whole, band: kept / whole, tick: queue.share === null ? null : queue.share / whole })),
    el("td", { className: "number" }, percent(used)), el("td", { className: "number" }, percent(queue.share)), el("td", {}, state));
}

function scrolled(head, rows, caption) {
  const titles = el("tr", {}, ...head.map((one) => el("th", { scope: "col", className: one === "Waits" ? "wide" : one === "Used" || one === "Fair share" ? "number" : "" }, one)));
  return el("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": caption }, el("table", {}, el("caption", {}, caption), el("thead", {}, titles), el("tbody", {}, ...rows)));
}

function button(text, work) {
  const made = el("button", { type: "button" }, text);
  made.addEventListener("click", work);
  return made;
}
