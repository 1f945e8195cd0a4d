// What the browser offers to extensions, and what differs between browsers.

/** ext is the browser's interface; all that is used of it returns promises in Chromium and Firefox alike. */
export const ext = globalThis.browser ?? globalThis.chrome;

/** firefox says that the browser is Firefox, or of its kin. */
export const firefox = ext.runtime.getURL('').startsWith('moz-extension:');

/**
 * originsOf is the permission that the extension asks for: the origin of the server and nothing else. Firefox knows
 * no ports in it, and refuses a pattern that has one.
 */
export function originsOf(server) {
  const { protocol, host, hostname } = new URL(server);
  return [`${protocol}//${firefox ? hostname : host}/*`];
}

/** clientName is how the extension presents itself to the server, and stands in its list of devices. */
export function clientName() {
  const os = navigator.userAgentData?.platform ?? /Windows|Android|Linux|Mac OS X/.exec(navigator.userAgent)?.[0] ?? '';
  return `kist extension (${[firefox ? 'Firefox' : 'Chromium', os].filter(Boolean).join(', ')})`;
}
