/** Addresses of services: which are sound, and which are on the open network. */

/** Labels of up to 63 letters, digits and hyphens within, 253 characters in all; or an IPv6 address. */
const NAME = /^(\[.*]|(?!\.|.{254})((^|\.)(?!-)[a-z0-9-]{1,63}(?<!-))+)$/;

/**
 * The machine of an address, or empty if the address is not one to send to: https, or http on this
 * machine; no user, query or fragment, no slash at its end; written as browsers write it, of whom some
 * write ^ otherwise.
 */
export function hostOf(url: unknown): string {
  try {
    const { origin, pathname, hostname, protocol } = new URL(url as string);
    const sound = protocol === "https:" || /^(localhost|127\.0\.0\.1|\[::1\])$/.test(hostname);
    const written = !/[@^]|.{2001}/.test(url as string) && url === origin + pathname.replace(/\/$/, "");
    return sound && written && NAME.test(hostname) ? hostname : "";
  } catch {
    return "";
  }
}

/** Whether it names a machine of the open network, as far as the name tells; a bare number does not. */
export const isPublic = (host: string): boolean =>
  /\.[a-z][a-z0-9-]*$/.test(host) && !/\.(localhost|local|internal|home\.arpa)$/.test(host);
