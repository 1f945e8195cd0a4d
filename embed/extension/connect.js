// Connecting to a server by the device flow (RFC 8628). Nothing here uses the browser's extension API.
import { t } from './text.js';

/** A Problem is an error to show to the user. Its message is a sentence. */
export class Problem extends Error {
  /**
   * more can have status (of the answer), code, fields (what is wrong with each, by name), offline (true if there was
   * no answer), connect (true if connecting again would help) and record (what was changed elsewhere, as it is now).
   */
  constructor(text, more = {}) {
    super(text);
    Object.assign(this, more);
  }
}

/** passes says whether the same request may succeed in a moment. */
export const passes = (e) => !!e.offline || e.status === 429 || e.status >= 500;

const localNetwork = /^(10|127|192\.168|169\.254|172\.(1[6-9]|2\d|3[01])|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\./;

/** isLocal says whether a host is this machine or in the local network, where servers often have no certificate. */
function isLocal(host) {
  const name = host.toLowerCase().replace(/^\[|\]$/g, '').replace(/\.$/, '');
  if (/^\d+(\.\d+){3}$/.test(name)) return localNetwork.test(name);
  if (name.includes(':')) return name === '::1' || /^(f[cd]|fe[89ab])/.test(name);
  return !name.includes('.') || /\.(localhost|local|lan|home|internal|home\.arpa|localdomain)$/.test(name);
}

/**
 * serverOf completes the address of a server that a person typed, without a slash at the end: kist.example.org becomes
 * https://kist.example.org, and nas:7080 becomes http://nas:7080. It throws a Problem.
 */
export function serverOf(typed) {
  let text = typed.trim();
  if (!text) throw new Problem(t('extension.needServer'));
  if (/\s/.test(text)) throw new Problem(t('extension.noSpaces'));
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1].toLowerCase();
  if (scheme && scheme !== 'http' && scheme !== 'https') throw new Problem(t('extension.badScheme', { scheme }));
  if (!scheme) text = `https://${text.replace(/^\/+/, '')}`;
  let url;
  try { url = new URL(text); } catch { throw new Problem(t('extension.notURL')); }
  if (url.username || url.password) throw new Problem(t('extension.noPassword'));
  if (!scheme && isLocal(url.hostname)) {
    url = new URL(text.replace(/^https/, 'http'));
  }
  return url.origin + url.pathname.replace(/\/+$/, '');
}

/** unsafe says whether others can read what is sent to a server. */
export function unsafe(server) {
  const { protocol, hostname } = new URL(server);
  return protocol === 'http:' && !isLocal(hostname);
}

/** unreachable describes a server that did not answer. */
export function unreachable(server) {
  const { protocol, host } = new URL(server);
  const text = t(protocol === 'https:' ? 'extension.noAnswerHTTPS' : 'extension.noAnswerHTTP', { host });
  return new Problem(text, { offline: true });
}

/**
 * post sends JSON without cookies and returns the status and the body of the answer; body is null if it is not JSON.
 * With redirect 'manual', a redirect has the status 0.
 */
async function post(server, path, json, redirect) {
  let answer;
  try {
    answer = await fetch(`${server}/api/v1/auth/device/${path}`, {
      method: 'POST', credentials: 'omit', cache: 'no-store', redirect, signal: AbortSignal.timeout(10_000),
      headers: { 'content-type': 'application/json' }, body: JSON.stringify(json),
    });
  } catch {
    throw unreachable(server);
  }
  const { status, url, redirected } = answer;
  return { status, url, redirected, body: await answer.json().catch(() => null) };
}

/**
 * begin starts a connection. It returns what to remember until the user has decided: server, code (to compare), page
 * (where the user decides), secret, interval in seconds, and ends in milliseconds of the clock.
 */
export async function begin(server, client, now = Date.now()) {
  // It follows redirects, to report where they lead.
  const { status, url, redirected, body } = await post(server, 'authorize', { extension_id: client }, 'follow');
  if (status === 200 && body?.device_code && body.user_code) {
    return {
      server,
      code: body.user_code,
      page: `${server}/device?user_code=${encodeURIComponent(body.user_code)}`,
      secret: body.device_code,
      interval: Math.max(1, Number(body.interval) || 5),
      ends: now + (Number(body.expires_in) || 600) * 1000,
    };
  }
  if (redirected && new URL(url).origin !== new URL(server).origin) {
    throw new Problem(t('extension.redirectsTo', { url: new URL(url).origin }));
  }
  if (status === 403) throw new Problem(t('extension.keysOff'));
  if (status === 429) throw new Problem(t('extension.tooMany'));
  if (status >= 500) throw new Problem(t('extension.failed', { status: String(status) }));
  throw new Problem(t('extension.notKist', { server }));
}

/** after interprets the answer to a poll: {key}, or {wait: seconds until the next poll}. It may throw a Problem. */
export function after({ status, body }, interval) {
  if (status === 200 && body?.api_key) return { key: body.api_key };
  switch (body?.error) {
    case 'authorization_pending':
      return { wait: interval };
    case 'slow_down': // RFC 8628, section 3.5
      return { wait: Math.max(interval + 5, Number(body.interval) || 0) };
    case 'access_denied':
      throw new Problem(status === 403 ? t('extension.keysOffForYou') : t('extension.denied'));
    case 'expired_token':
      throw new Problem(t('extension.codeExpired'));
    case 'invalid_grant':
      throw new Problem(t('extension.codeUnknown'));
  }
  if (status === 0) throw new Problem(t('extension.redirectsAway'));
  if (status === 429 || status >= 500) return { wait: Math.min(60, interval * 2) };
  throw new Problem(body?.error_description ?? t('extension.unexpectedConnect', { status: String(status) }));
}

/** pause waits for a number of seconds, or throws the reason of the signal. */
export const pause = (seconds, signal) => new Promise((resolve, reject) => {
  const end = () => {
    clearTimeout(timer);
    reject(signal.reason);
  };
  const timer = setTimeout(() => {
    signal?.removeEventListener('abort', end);
    resolve();
  }, seconds * 1000);
  signal?.addEventListener('abort', end, { once: true });
});

const askForKey = (p) => post(p.server, 'token', { device_code: p.secret }, 'manual');

/**
 * poll asks until the user has decided and returns the key. If the server cannot be reached, it asks again until the
 * code expires. It throws a Problem, or the reason of the signal.
 */
export async function poll(pending, { signal, ask = askForKey, sleep = pause, now = Date.now } = {}) {
  for (let wait = pending.interval; ;) {
    await sleep(wait, signal);
    signal?.throwIfAborted();
    if (now() >= pending.ends) throw new Problem(t('extension.codeExpired'));
    try {
      const next = after(await ask(pending), wait);
      signal?.throwIfAborted();
      if (next.key) return next.key;
      wait = next.wait;
    } catch (e) {
      if (!e.offline) throw e;
      wait = Math.min(60, wait * 2);
    }
  }
}
