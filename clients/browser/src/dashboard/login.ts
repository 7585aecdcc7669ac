// A link to the login page may carry the token behind "#": that part of an address is never sent.

export function filled(field: HTMLInputElement): void {
  const token = decodeURIComponent(location.hash.slice(1));
  if (token === "") {
    field.focus();
    return;
  }
  history.replaceState(null, "", location.pathname + location.search);
  field.value = token;
  field.form?.querySelector<HTMLButtonElement>("button")?.focus();
}
