// The first page: capacity, bursts on a time line, waiting work, and every queue against its fair share.
import { bursts } from "./bursts.js";
import { amount, amounts, badge, bar, card, counted, el, heading, ofWhole, part, percent, queueLink, queueName, showAll, usedPart } from "./page.js";

const ROWS = 50;
const CLASSES = ["Hard", "Soft", "Elastic", "Rejected"];
const view = { filter: "", rows: ROWS };

export function now(state, again) {
  const queues = [...state.queues.values()].filter((one) => one.pool === state.pool.name);
  if (!state.queues.size && state.viewer !== null) return [heading(`Pool ${state.pool.name}`), nothing(state.viewer)];
  return [heading(`Pool ${state.pool.name}`, summary(queues)), capacity(state, queues), bursts(state, queues, again), waiting(queues), table(state, queues, again)].filter(Boolean);
}

// Names what the person lacks: an empty page would look like an empty cluster.
function nothing(viewer) {
  return card("No queue to show", "", el("p", {}, `There is no queue that ${viewer} may get.`),
    el("p", { className: "quiet" }, "Ask for the right to get latencyqueues and throughputqueues in your namespace: the cluster role view includes it."));
}

function summary(queues) {
  const counts = CLASSES.map((name) => [queues.filter((one) => one.class === name).length, name]).filter(([count]) => count);
  const broken = queues.filter((one) => one.ready !== "True").length;
  const [met, missed] = ["met", "missed"].map((which) => queues.reduce((sum, one) => sum + one[which], 0));
  const parts = [`${counted(queues.length, "queue")}: ${counts.map((one) => one.join(" ")).join(", ") || "none decided"}`, `${counted(met, "burst")} met, ${missed} missed`];
  return el("p", { className: "quiet" }, parts.join(" · "), broken ? el("span", { className: "bad" }, ` · ${broken} not ready`) : null);
}

function capacity({ pool }, queues) {
  const shapes = pool.shapes.map((one) => `${one.nodes} × ${amounts(one.offers)}`).join("; ");
  const meters = Object.entries(pool.capacity).filter(([, all]) => all > 0).map(([name, all]) => {
    const [used, wanted, kept] = ["usage", "demand", "guaranteed"].map((kind) => queues.reduce((sum, one) => sum + (one[kind][name] ?? 0), 0));
    const label = `${name}: ${ofWhole(name, used, all)} used by queues, ${amount(name, kept)} guaranteed, ${amount(name, wanted)} wanted`;
    return el("div", { className: "meter" },
      el("p", {}, el("strong", {}, name), el("span", {}, ofWhole(name, used, all))),
      bar(label, { used: used / all, band: kept / all, tick: wanted > 0 && wanted <= all ? wanted / all : null }),
      el("p", { className: "quiet" }, el("span", {}, `${percent(used / all)} used`), el("span", {}, `${amount(name, wanted)} wanted`)));
  });
  if (!meters.length) return card("Capacity", "", el("p", { className: "quiet" }, pool.problem ?? "No node counts."));
  return card("Capacity", `${counted(pool.nodes, "node")}: ${shapes}`, el("div", { className: "meters" }, ...meters));
}

function waiting(queues) {
  const found = queues.filter((one) => Object.keys(one.waiting).length).slice(0, ROWS);
  const rows = found.map((one) => el("tr", {}, el("th", { scope: "row" }, queueLink(one)), el("td", { className: "wide amounts" }, amounts(one.waiting)), el("td", {}, one.explanation)));
  if (!rows.length) return card("Waiting work", "", el("p", { className: "quiet" }, "Nothing waits."));
  return card("Waiting work", `of ${counted(rows.length, "queue")}`, scrolled(["Queue", "Waits", "Why"], rows, "What waits in each queue, and why", "waiting"));
}

function table(state, queues, again) {
  const input = el("input", { type: "search", id: "filter", value: view.filter, placeholder: "name, class or reason" });
  input.addEventListener("input", () => { view.filter = input.value; again(); });
  const wanted = view.filter.toLowerCase();
  const found = queues.filter((one) => `${queueName(one)} ${one.class} ${one.reason}`.toLowerCase().includes(wanted));
  found.sort((one, other) => usedPart(other, state.pool.capacity) - usedPart(one, state.pool.capacity) || queueName(one).localeCompare(queueName(other)));
  const shown = found.slice(0, view.rows);
  const whole = Math.max(0.001, ...shown.flatMap((one) => [one.share ?? 0, usedPart(one, state.pool.capacity), part(one.guaranteed, state.pool.capacity)]));
  const rows = shown.map((one) => row(one, state.pool.capacity, whole));
  const more = found.length > shown.length ? showAll(found.length, () => { view.rows = Infinity; again(); }) : null;
  const key = ["used", "band", "tick"].map((name, at) => el("span", {}, el("i", { className: name }), ["used", "guaranteed now", "fair share"][at]));
  const tools = el("div", { className: "tools" }, el("label", {}, "Filter", input), el("p", { className: "key quiet" }, ...key, el("span", {}, `a full bar is ${percent(whole)} of the pool`)));
  return card("Queues", `${found.length} of ${queues.length}`, tools, scrolled(["Queue", "Class", "Use against fair share", "Used", "Fair share", "State"], rows, "Queues against their fair share", "queues"), more);
}

function row(queue, capacity, whole) {
  const used = usedPart(queue, capacity), kept = part(queue.guaranteed, capacity);
  const label = `${percent(used)} used, ${percent(kept)} guaranteed, fair share ${percent(queue.share)}`;
  const state = () => queue.ready === "True" ? el("span", { className: "quiet" }, "Ready") : el("span", { className: "bad", title: queue.message }, queue.reason);
  const narrow = el("span", { className: "narrow" }, badge(queue), queue.ready === "True" ? null : state());
  return el("tr", {}, el("th", { scope: "row" }, queueLink(queue), narrow), el("td", { className: "wide" }, badge(queue)), el("td", { className: "bar-cell" }, bar(label, { used: used / whole, band: kept / whole, tick: queue.share === null ? null : queue.share / whole })),
    el("td", { className: "number" }, percent(used)), el("td", { className: "number wide" }, percent(queue.share)), el("td", { className: "wide" }, state()));
}

const NUMBERS = new Set(["Used", "Fair share"]), WIDE = new Set(["Waits", "Class", "Fair share", "State"]);

function scrolled(head, rows, caption, name) {
  const styles = (one) => [NUMBERS.has(one) ? "number" : "", WIDE.has(one) ? "wide" : ""].join(" ");
  const titles = el("tr", {}, ...head.map((one) => el("th", { scope: "col", className: styles(one) }, one)));
  const table = el("table", { className: name }, el("caption", { className: "hidden" }, caption), el("thead", {}, titles), el("tbody", {}, ...rows));
  return el("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": caption }, table);
}
