// On a phone a page begins with what was found: the other panels are folded, to be opened one by one.

const PHONE = "(max-width: 40rem)";

export function folded(part: ParentNode): void {
  if (!matchMedia(PHONE).matches) return;
  for (const panel of part.querySelectorAll<HTMLDetailsElement>("details.fold")) {
    if (panel.closest("section")?.id !== location.hash.slice(1)) panel.open = false;
  }
}
