// A page that follows what is published, without being asked and without a flicker: it asks now and
// then whether there is anything new, and replaces the parts that are.

const EVERY = 15_000; // milliseconds

type Prepare = (part: ParentNode) => void;

const PARTS = "section[id], #heading";

export function followed(main: HTMLElement, prepare: Prepare): void {
  // As they came, before anything was done with them: to tell which are new.
  const seen = new Map([...main.querySelectorAll(PARTS)].map((part) => [part.id, part.outerHTML]));
  prepare(main);
  let version = main.dataset["version"];
  if (version === undefined) return;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const address = `${location.pathname.replace(/\/$/, "")}/version`;

  async function look(): Promise<void> {
    const answer = await fetch(address, {
      headers: { "If-None-Match": `"${version}"` },
      cache: "no-store",
      redirect: "error", // to the login: nothing is followed without one
    });
    if (answer.status === 304) return;
    if (!answer.ok) throw new Error(answer.statusText);
    const found = ((await answer.json()) as { version: string }).version;
    if (found !== version) version = (await replaced(main, seen, prepare)) ?? found;
  }

  function wait(): void {
    clearTimeout(timer);
    if (document.visibilityState === "hidden") return;
    timer = setTimeout(() => {
      look().catch(() => undefined).finally(wait); // whatever it was: asked again
    }, EVERY);
  }

  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden") clearTimeout(timer);
    else look().catch(() => undefined).finally(wait);
  });
  wait();
}

// The new page's version, once its parts are here.
async function replaced(
  main: HTMLElement,
  seen: Map<string, string>,
  prepare: Prepare,
): Promise<string | undefined> {
  const answer = await fetch(location.href, { cache: "no-store", redirect: "error" });
  if (!answer.ok) throw new Error(answer.statusText);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.querySelector<HTMLElement>("main");
  if (fresh === null) return undefined;
  const focused = document.activeElement?.closest("[id]")?.id;
  for (const part of fresh.querySelectorAll<HTMLElement>(PARTS)) {
    if (seen.get(part.id) === part.outerHTML) continue;
    const old = document.getElementById(part.id);
    if (old === null) {
      location.reload(); // another page altogether: somebody logged in or out
      return undefined;
    }
    const made = document.importNode(part, true);
    prepare(made);
    for (const each of made.querySelectorAll("details")) {
      const before = each.id === "" ? null : old.querySelector<HTMLDetailsElement>(`#${each.id}`);
      if (before !== null) each.open = before.open; // as somebody has left it
    }
    old.replaceWith(made);
    seen.set(part.id, part.outerHTML);
  }
  if (focused !== undefined && document.activeElement === document.body) {
    document.getElementById(focused)?.focus();
  }
  main.dataset["version"] = fresh.dataset["version"] ?? "";
  return fresh.dataset["version"];
}
