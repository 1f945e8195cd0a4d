// The connected server and the requests to it.
import { ext, originsOf } from './browser.js';
import { Problem, unreachable } from './connect.js';
import { problemText, t } from './text.js';

const defaults = { isPublic: false, copy: true, notify: true };

/** settings are the user's choices for saving by menu and shortcut: isPublic, copy, notify. */
export async function settings() {
  return { ...defaults, ...(await ext.storage.local.get('settings')).settings };
}

export async function setSettings(changed) {
  await ext.storage.local.set({ settings: { ...await settings(), ...changed } });
}

/** connection is {server, key, user}, or null if the extension is not connected. */
export async function connection() {
  return (await ext.storage.local.get('connection')).connection ?? null;
}

/** pending is what begin returned, until the user has decided. */
export async function pending() {
  const { pending: p } = await ext.storage.local.get('pending');
  return p && p.ends > Date.now() ? p : null;
}

export const setPending = (p) => p ? ext.storage.local.set({ pending: p }) : ext.storage.local.remove('pending');

/** ended is a sentence that says why the connection was lost, or '' if none was lost. */
export async function ended() {
  return (await ext.storage.local.get('ended')).ended ?? '';
}

/** connected stores the key, which a server gives only once, and then asks whose key it is. */
export async function connected(server, key) {
  await ext.storage.local.set({ connection: { server, key, user: '' } });
  await ext.storage.local.remove(['pending', 'ended']);
  await freshForms();
  const { data } = await request({ server, key }, 'GET', 'me');
  await ext.storage.local.set({ connection: { server, key, user: data.displayName || data.username } });
}

/** lost forgets a key that the server no longer accepts, unless another one has replaced it. */
async function lost(key, why) {
  if ((await connection())?.key !== key) return;
  await ext.storage.local.remove('connection');
  await ext.storage.local.set({ ended: why });
}

/** allowed says whether the browser lets the extension reach a server. The user can withdraw that at any time. */
export const allowed = (server) => ext.permissions.contains({ origins: originsOf(server) });

/** giveBack gives up the permission to reach a server. */
export const giveBack = (server) => ext.permissions.remove({ origins: originsOf(server) }).catch(() => false);

/**
 * disconnect revokes the key, forgets it, and gives up the permission for the server. It returns whether the server
 * confirmed. A server that could not be reached lists the key until the user revokes it there.
 */
export async function disconnect() {
  const at = await connection();
  if (!at) return true;
  let told = true;
  try { await request(at, 'POST', 'auth/device/revoke'); } catch (e) { told = e.status === 401 && !!e.connect; }
  await ext.storage.local.remove(['connection', 'pending', 'ended']);
  await giveBack(at.server);
  return told;
}

/**
 * api sends a request to the connected server and returns the answer. A record in it gets its entity tag as etag. With
 * etag, the record is changed only if it still has that tag. api throws a Problem.
 */
export async function api(method, path, body, etag) {
  const at = await connection();
  if (!at) throw new Problem(await ended() || t('extension.unconnected'), { connect: true });
  return request(at, method, path, body, etag);
}

// The kinds that every server has.
const common = ['file', 'bookmark', 'note', 'shortlink'];

/**
 * forms are the kinds of records with their forms, as the connected server described them last. An older server
 * describes none: then they are as the extension came with them, as far as every server has them.
 */
export async function forms() {
  const [at, { forms: kept }] = await Promise.all([connection(), ext.storage.local.get('forms')]);
  if (at && kept?.server === at.server) return kept.kinds;
  const all = await (await fetch(ext.runtime.getURL('kinds.json'))).json();
  return all.filter((k) => common.includes(k.name));
}

/** formOf is the kind of a name. */
export const formOf = async (name) => (await forms()).find((k) => k.name === name);

/** freshForms asks the connected server for its forms. Without an answer the last ones stay. */
export async function freshForms() {
  const { server } = await connection() ?? {};
  if (!server) return;
  const answer = await fetch(`${server}/kinds.json`, {
    credentials: 'omit', cache: 'no-cache', redirect: 'manual', signal: AbortSignal.timeout(patience.json),
  }).catch(() => null);
  if (answer?.status === 404) await ext.storage.local.remove('forms');
  const kinds = answer?.ok && await answer.json().catch(() => null);
  const isWhole = Array.isArray(kinds) && common.every((name) => kinds.some((k) => k.name === name));
  if (isWhole) await ext.storage.local.set({ forms: { server, kinds } });
}

const patience = { json: 10_000, form: 10 * 60_000 };

/** request sends a request to a server. It does not follow redirects, so that no other server gets the key. */
async function request({ server, key }, method, path, body, etag) {
  const { host } = new URL(server);
  const form = body instanceof FormData;
  let answer;
  try {
    answer = await fetch(`${server}/api/v1/${path}`, {
      method, credentials: 'omit', cache: 'no-store', redirect: 'manual',
      signal: AbortSignal.timeout(form ? patience.form : patience.json),
      headers: {
        'x-api-key': key,
        ...(body && !form && { 'content-type': 'application/json' }),
        ...(etag && { 'if-match': etag }),
      },
      body: form || !body ? body : JSON.stringify(body),
    });
  } catch {
    if (await allowed(server)) throw unreachable(server);
    throw new Problem(t('extension.notAllowed', { host }), { connect: true });
  }
  if (answer.type === 'opaqueredirect') {
    throw new Problem(t('extension.redirects', { host }), { connect: true });
  }
  const { status } = answer;
  const json = await answer.json().catch(() => null);
  // A proxy that compresses answers marks their tags.
  if (json?.data) json.data.etag = answer.headers.get('etag')?.replace(/^W\/|-\w+(?="$)/g, '');
  if (answer.ok && json) return json;
  if (status === 401 && json?.code === 'api_tokens_disabled') {
    throw new Problem(t('extension.keysBlocked', { host }), { status: 401, code: json.code });
  }
  if (status === 401 && json?.requestId) { // kist's answers have a request id; those of a proxy do not
    const why = t('extension.lost', { host });
    await lost(key, why);
    throw new Problem(why, { status: 401, connect: true });
  }
  const named = ([name, what]) => `${labels[name] ?? name} ${problemText(what)}.`;
  const wrong = Object.entries(json?.fields ?? {}).map(named).join(' ');
  const text = wrong || json?.error || t('extension.unexpected', { host, status: String(status) });
  const record = status === 412 ? json?.data : null;
  throw new Problem(text, { status, code: json?.code, fields: json?.fields, record });
}

const labels = {
  url: t('extension.theURL'),
  originalUrl: t('extension.theURL'),
  title: t('extension.theTitle'),
  content: t('extension.theText'),
  description: t('extension.theDescription'),
  tags: t('extension.aTag'),
  newTags: t('extension.aTag'),
  password: t('extension.thePassword'),
  maxViews: t('extension.theLimit'),
  maxClicks: t('extension.theLimit'),
};
