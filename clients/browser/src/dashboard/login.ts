// A link to the login page may carry the token behind "#": that part of an address is never sent.

export function filled(field: HTMLInputElement): void {
  const token = /^#(shoal_\w+)$/.exec(location.hash)?.[1];
  if (token === undefined) {
    field.focus();
    return;
  }
  history.replaceState(null, "", location.pathname + location.search);
  field.value = token;
  field.form?.querySelector<HTMLButtonElement>("button")?.focus();
}
