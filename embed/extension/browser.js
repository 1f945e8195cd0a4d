// What the browser offers to extensions, and what differs between browsers.

/** ext is the browser's extension API. Every function used here returns promises in both Chromium and Firefox. */
export const ext = globalThis.browser ?? globalThis.chrome;

/** firefox is true in Firefox and browsers based on it. */
export const firefox = ext.runtime.getURL('').startsWith('moz-extension:');

/**
 * originsOf is the permission that the extension asks for: the origin of the server and nothing else. Firefox refuses
 * patterns with a port, so there the permission covers the host.
 */
export function originsOf(server) {
  const { protocol, host, hostname } = new URL(server);
  return [`${protocol}//${firefox ? hostname : host}/*`];
}

/** clientName is the name that the server shows in its list of devices. */
export function clientName() {
  const os = navigator.userAgentData?.platform ?? /Windows|Android|Linux|Mac OS X/.exec(navigator.userAgent)?.[0] ?? '';
  return `kist extension (${[firefox ? 'Firefox' : 'Chromium', os].filter(Boolean).join(', ')})`;
}
