// Names of browsers, keys and devices. It owns nothing that stays, and uses nothing of view. Lists of who did something
// call it.
import { t } from './dom.js';

// deviceName is the name of a browser, key or device as people know it.
export const deviceName = (by) => /^Mozilla\//.test(by) ? browserName(by) : by;

// The first that fits counts: Edge calls itself Chrome too, and Chrome calls itself Safari.
const browsers = { Edge: /Edg\//, Firefox: /Firefox\//, Chrome: /Chrome\//, Safari: /Safari\// };
const systems = { Android: /Android/, iOS: /iPhone|iPad/, Windows: /Windows/, macOS: /Mac OS/, Linux: /Linux/ };
const firstThatFits = (patterns, text) => Object.keys(patterns).find((name) => patterns[name].test(text));

function browserName(agent) {
  const name = firstThatFits(browsers, agent) ?? (agent.slice(0, 40) || t('sessions.browser'));
  const system = firstThatFits(systems, agent);
  return system ? t('sessions.on', { name, system }) : name;
}
