// What pages of the app begin with: an answer that came with the page, a heading, and the heading of a part. Of view it
// uses name and kind. The modules of pages call it.
import { h, t } from './dom.js';
import { api, base, loadModule, showProblem, takeAnswer, view } from './session.js';

// load returns an answer that came with the page, or asks for it. It returns null if the user may not read it.
export async function load(name, path, signal) {
  const answer = takeAnswer(name);
  if (answer) return answer;
  try {
    return await api('GET', path, undefined, { signal });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    if (e.status !== 404 && e.status !== 403) showProblem(e);
    return null;
  }
}

// topics are the handbook pages that explain pages of the app.
const topics = {
  search: 'search', bookmark: 'bookmarks', 'upload-requests': 'collecting', keys: 'programs', webhooks: 'webhooks',
  import: 'moving', 'remote-upload': 'remote-upload', account: 'signing-in', security: 'second-steps',
  admin: 'configuration', trash: 'deleted',
};

// heading begins a page: its title, a count, a link to the handbook, and what can be done on the page.
export function heading(title, count, ...tools) {
  const topic = topics[view.kind?.name ?? view.name];
  return h('div.head', {}, h('h1', {}, title), count,
    topic && h('a.button.quiet', { href: `${base}/help/${topic}` }, t('common.help')),
    h('div.row', {}, tools));
}

// subheading begins a part of a page.
export const subheading = (title, count, ...tools) =>
  h('div.head', {}, h('h2', {}, title), count, h('div.row', {}, tools));

// downloadLink is a link to a file that needs a recent sign-in.
export function downloadLink(path, text) {
  const link = h('a.button', { href: `${base}/api/v1/${path}`, download: '' }, text);
  link.onclick = async (e) => {
    e.preventDefault();
    try {
      const { recent } = (await api('GET', 'me/security')).data;
      if (recent || await (await loadModule('security')).confirm()) location.href = link.href;
    } catch (problem) { showProblem(problem); }
  };
  return link;
}
