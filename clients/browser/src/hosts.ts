/** Addresses of services: which are sound, and which are on the open network. */

/**
 * The machine of an address, or empty if the address is not one to send to: https, or http on this
 * machine; no user, query or fragment, no slash at its end; written as a browser writes it.
 */
export function hostOf(url: unknown): string {
  try {
    const { origin, pathname, hostname, protocol } = new URL(url as string);
    const sound = protocol === "https:" || /^(localhost|127\.0\.0\.1|\[::1\])$/.test(hostname);
    return sound && url === origin + pathname.replace(/\/$/, "") ? hostname : "";
  } catch {
    return "";
  }
}

/** Whether it names a machine of the open network, as far as the name tells; a bare number does not. */
export const isPublic = (host: string): boolean =>
  /\.[a-z][a-z0-9-]*$/.test(host) && !/\.(localhost|local|internal|home\.arpa)$/.test(host);
