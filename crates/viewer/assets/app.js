'use strict';
(async () => {
  const doc = document, root = doc.documentElement;
  const $ = (what, from) => (from || doc).querySelector(what);
  const $$ = (what, from) => [...(from || doc).querySelectorAll(what)];
  const isFile = root.dataset.form === 'file';
  const keep = (name, value) => { try { if (value === undefined) return localStorage.getItem(name); localStorage.setItem(name, value); } catch { } return null; };
  const tell = (words) => { const at = $('#said'); at.textContent = words; clearTimeout(tell.timer); tell.timer = setTimeout(() => { at.textContent = ''; }, 2500); };
  const pause = (wait) => new Promise((done) => setTimeout(done, wait));

  // This runs before anything is drawn. A page is not drawn before it stands where it opens; a file
  // opens at its beginning, and can be read while the rest of it is still being parsed.
  root.classList.add('js');
  const appear = () => root.classList.remove('opening');
  if (!isFile) { root.classList.add('opening'); addEventListener('load', () => setTimeout(appear, 2000)); }
  // Theme: that of the system, until somebody chooses.
  const chosen = keep('theme');
  if (chosen === 'dark' || chosen === 'light') root.dataset.theme = chosen;
  const theme = () => {
    const now = root.dataset.theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
    root.dataset.theme = now === 'dark' ? 'light' : 'dark';
    keep('theme', root.dataset.theme);
  };
  await new Promise((done) => doc.addEventListener('DOMContentLoaded', done));
  const body = doc.body;

  const get = async (address) => {
    const answer = await fetch(address, { headers: { 'x-quipu': 'part' }, credentials: 'same-origin' });
    if (!answer.ok) throw new Error(answer.status === 404 ? 'not found' : 'refused');
    return answer.text();
  };
  // What comes from our own server is escaped there; scripts in it would not run either.
  const nodes = (html) => { const made = doc.createElement('template'); made.innerHTML = html; return made.content; };

  // ---- Code: colours without elements.
  const words = new Set(('abstract and as assert async await break case catch class const continue crate def default del do done elif else elsif end enum except export extends extern False false fi final finally fn for from func function global if impl implements import in interface is lambda let local loop match mod module move mut namespace new nil None not null of or package pass private protected pub public raise ref return Self self static struct super switch then this throw trait True true try type typeof undefined unless unsafe until use using var void where while with yield select SELECT FROM WHERE INSERT UPDATE DELETE JOIN int bool char double float long string String number boolean echo exit').split(' '));
  const hashes = new Set('py sh bash zsh shell console yaml yml toml rb ruby python make dockerfile pl r conf ini env'.split(' '));
  const parts = {
    slash: '\\/\\/[^\\n]*|\\/\\*[^]*?\\*\\/', hash: '#[^\\n]*', dash: '--[^\\n]*',
    text: '"(?:\\\\.|[^"\\\\\\n])*"|\'(?:\\\\.|[^\'\\\\\\n])*\'|`(?:\\\\.|[^`\\\\])*`', rust: '"(?:\\\\.|[^"\\\\])*"|\'(?:\\\\.|[^\'\\\\\\n])\'',
  };
  const colours = {};
  if (globalThis.Highlight && CSS.highlights) for (const name of ['k', 's', 'c', 'n', 'find']) CSS.highlights.set(name, colours[name] = new Highlight());
  const colour = (pre) => {
    if (!colours.k || pre.dataset.done || !pre.firstChild || pre.textContent.length > 60000) return;
    pre.dataset.done = '1';
    const language = pre.dataset.lang;
    if (!language || ['txt', 'text', 'md', 'markdown', 'log', 'csv'].includes(language)) return;
    const comment = hashes.has(language) ? parts.hash : ['sql', 'lua', 'hs'].includes(language) ? parts.dash : language === 'json' ? '(?!)' : parts.slash;
    const token = new RegExp('(' + comment + ')|(' + (language === 'rs' || language === 'rust' ? parts.rust : parts.text) + ')|\\b(\\d[\\w.]*)|([A-Za-z_]\\w*)', 'g');
    const walker = doc.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      for (const found of node.data.matchAll(token)) {
        const name = found[1] ? 'c' : found[2] ? 's' : found[3] ? 'n' : words.has(found[4]) ? 'k' : '';
        if (!name) continue;
        const range = new StaticRange({ startContainer: node, startOffset: found.index, endContainer: node, endOffset: found.index + found[0].length });
        colours[name].add(range);
      }
    }
  };
  const idle = globalThis.requestIdleCallback ? (work) => requestIdleCallback(work, { timeout: 500 }) : (work) => setTimeout(work, 30);
  const dress = (from) => {
    const todo = $$('pre.code[data-lang]', from).filter((pre) => !pre.dataset.done && pre.getClientRects().length);
    const next = () => { const pre = todo.shift(); if (pre) { colour(pre); idle(next); } };
    if (todo.length) idle(next);
    if (sideBySide) $$('.diff:not(.two)', from).forEach(twoColumns);
  };
  const undress = () => idle(() => { for (const name of ['k', 's', 'c', 'n']) if (colours[name]) for (const range of colours[name]) if (!range.startContainer.isConnected) colours[name].delete(range); });

  // ---- Diffs side by side.
  let sideBySide = keep('diff') === 'two';
  const before = new WeakMap();
  const twoColumns = (diff) => {
    const rows = [...diff.children];
    before.set(diff, rows);
    const made = [];
    let [old, fresh, number] = [[], [], 0];
    const flush = () => {
      for (let at = 0; at < Math.max(old.length, fresh.length); at++) made.push(old[at] || doc.createElement('i'), fresh[at] || doc.createElement('i'));
      [old, fresh] = [[], []];
    };
    for (const row of rows) {
      if (row.tagName === 'DEL') { if (fresh.length) flush(); old.push(row); number++; }
      else if (row.tagName === 'INS') fresh.push(row);
      else if (row.classList.contains('hunk')) { flush(); made.push(row); number = parseInt(row.textContent.slice(4), 10); }
      else {
        flush();
        // A line that did not change has another number on the left.
        const old = row.cloneNode(true);
        old.classList.add('old');
        if (old.dataset.n) old.dataset.n = number++;
        made.push(old, row);
      }
    }
    flush();
    diff.replaceChildren(...made);
    diff.classList.add('two');
  };
  const diffs = () => {
    sideBySide = !sideBySide;
    keep('diff', sideBySide ? 'two' : 'one');
    for (const diff of $$('.diff')) {
      if (sideBySide && !diff.classList.contains('two')) twoColumns(diff);
      else if (!sideBySide && before.has(diff)) { diff.replaceChildren(...before.get(diff)); diff.classList.remove('two'); }
    }
    tell(sideBySide ? 'Diffs side by side' : 'Diffs unified');
  };

  // ---- What is folded is requested when it is opened.
  const fill = async (details) => {
    const lazy = $(':scope > .lazy', details);
    if (!details.dataset.src || !lazy || details.dataset.busy) return details.filled;
    return details.filled = filled(details, lazy);
  };
  const filled = async (details, lazy) => {
    details.dataset.busy = '1';
    lazy.textContent = 'Reading\u2026';
    try {
      const made = nodes(await get(details.dataset.src));
      lazy.replaceWith(made);
      dress(details);
      if (details.classList.contains('agent')) {
        details.dataset.loaded = '1';
        more(details);
        // The first part of a sub-agent may be no more than its task.
        while ($(':scope > button.more', details) && details.getBoundingClientRect().height < innerHeight) await next(details);
      }
      markFindings();
    } catch (error) { lazy.textContent = 'This cannot be read now: ' + error.message; delete details.dataset.busy; }
  };
  const more = (agent) => {
    const [done, all] = [Number(agent.dataset.loaded), Number(agent.dataset.windows)];
    $(':scope > button.more', agent)?.remove();
    if (done >= all) return;
    const button = doc.createElement('button');
    button.className = 'more'; button.type = 'button'; button.textContent = 'More of this sub-agent';
    button.addEventListener('click', async () => { await next(agent); });
    agent.append(button);
  };
  const next = async (agent) => {
    const at = Number(agent.dataset.loaded);
    if (!(at < Number(agent.dataset.windows))) return;
    const made = nodes(await get(agent.dataset.src.replace(/\d+$/, at)));
    $(':scope > button.more', agent)?.remove();
    agent.append(made); agent.dataset.loaded = at + 1; more(agent); dress(agent);
  };
  // What is open in a part of the page, and how much of it was loaded; and the same in its successor.
  // Of a sub-agent that was seen to its end, also what it has said since.
  const opened = (from) => new Map($$('details[open][id]', from).map(({ id, dataset }) => [id, Number(dataset.loaded || 0) + (Number(dataset.loaded) >= Number(dataset.windows) ? 3 : 0)]));
  const reopen = async (from, known) => {
    for (const one of $$('details[id]', from)) {
      if (!known.has(one.id) || one.open) continue;
      one.open = true;
      await fill(one);
      while (Number(one.dataset.loaded) < Math.min(known.get(one.id), Number(one.dataset.windows))) await next(one);
      await reopen(one, known);
    }
  };
  doc.addEventListener('toggle', (event) => {
    if (event.target.tagName !== 'DETAILS' || !event.target.open) return;
    fill(event.target); dress(event.target);
    if (event.target.classList.contains('page')) watchPages();
  }, true);

  // ---- The conversation: a few windows of it at a time.
  const main = $('#main[data-heights]'), list = $('#windows');
  const view = !isFile && main && list ? {
    base: main.dataset.base, flow: main.dataset.flow, heights: main.dataset.heights.split(',').filter(Boolean).map(Number),
    known: new Set(), first: Number(main.dataset.first), run: 0, busy: false, again: false, updating: null, stamp: main.dataset.stamp,
  } : null;
  // Who reads the page aloud waits until it stands still, and so do keys: each does its work when
  // the one before it has found its windows, however fast they are typed.
  let queue = Promise.resolve(), queued = 0;
  const announce = () => { const is = String(queued > 0 || view.busy); if (list.getAttribute('aria-busy') !== is) list.setAttribute('aria-busy', is); };
  const busy = (is) => { view.busy = is; announce(); };
  const inTurn = async (work) => {
    if (!view) return work();
    queued++; announce();
    const done = () => { queued--; announce(); }, made = queue.then(work);
    queue = made.then(done, done);
    return made;
  };
  const act = (work) => inTurn(work).catch(() => tell('The server does not answer.'));
  const spacer = (place) => { const made = doc.createElement('div'); made.className = 'spacer'; made.setAttribute('aria-hidden', 'true'); list[place](made); return made; };
  const [above, below] = view ? [spacer('before'), spacer('after')] : [];
  const sum = (from, to) => { let all = 0; for (let at = from; at < to; at++) all += view.heights[at]; return all; };
  const last = () => view.first + list.children.length;
  const measure = () => {
    let at = view.first;
    for (const one of list.children) { view.heights[at] = one.getBoundingClientRect().height; view.known.add(at++); }
  };
  const space = () => { above.style.height = sum(0, view.first) + 'px'; below.style.height = sum(last(), view.heights.length) + 'px'; };
  // What stays at the top hides nothing: whatever is jumped to stands below it.
  const tops = $$('.top, .find');
  const bar = () => {
    const sticky = tops.map((one) => [one, getComputedStyle(one)]).filter(([, style]) => style.position === 'sticky');
    const high = Math.max(0, ...sticky.map(([one, style]) => parseFloat(style.top) + one.offsetHeight)) + 8;
    root.style.setProperty('--bar', high + 'px');
    return high;
  };
  // Whatever changes above, what is in view stays where it is.
  const still = (change) => {
    const anchor = [...list.children].find((one) => one.getBoundingClientRect().bottom > bar());
    const top = anchor && anchor.getBoundingClientRect().top;
    change();
    measure(); space();
    if (anchor && anchor.isConnected) { const moved = anchor.getBoundingClientRect().top - top; if (Math.abs(moved) > 0.5) scrollBy(0, moved); }
  };
  const sources = new WeakMap();
  const fetchWindow = async (at) => {
    const now = kind, only = kinds[now][0], source = await get(view.base + 'window/' + view.flow + '/' + at + (only && '?only=' + only));
    // Meanwhile, something else may be wanted.
    if (now !== kind) return fetchWindow(at);
    const made = nodes(source).firstElementChild || doc.createElement('section');
    sources.set(made, source);
    return made;
  };
  const wanted = () => {
    const top = scrollY - (above.getBoundingClientRect().top + scrollY), high = innerHeight;
    let [at, y] = [0, 0];
    while (at < view.heights.length - 1 && y + view.heights[at] < top - high * 0.7) y += view.heights[at++];
    const from = at;
    while (at < view.heights.length && y < top + high * 1.8) y += view.heights[at++];
    return [from, Math.max(at, from + 1)];
  };
  const update = () => {
    if (!view || !view.heights.length) return null;
    if (view.busy) { view.again = true; return view.updating; }
    return view.updating = updated();
  };
  const updated = async () => {
    busy(true);
    view.again = false;
    const run = view.run;
    try {
      for (let turns = 0; turns < 60; turns++) {
        const [from, to] = wanted();
        if (to <= view.first || from >= last()) {
          const made = await fetchWindow(from);
          if (run !== view.run) return;
          list.replaceChildren(made); view.first = from; measure(); space(); dress(list); undress();
          continue;
        }
        const at = last() < Math.min(to, view.heights.length) ? last() : view.first > from ? view.first - 1 : -1;
        if (at < 0) break;
        const made = await fetchWindow(at);
        if (run !== view.run) return;
        still(() => { if (at < view.first) { list.prepend(made); view.first = at; } else list.append(made); });
        dress(made); markFindings();
        await pause(0);
      }
      const [from, to] = wanted();
      if (view.first < from - 1 || last() > to + 1) {
        still(() => {
          while (view.first < from && list.children.length > 1) { list.firstElementChild.remove(); view.first++; }
          while (last() > to && list.children.length > 1) list.lastElementChild.remove();
        });
        undress();
      }
    } catch { view.again = false; tell('The server does not answer.'); } finally { if (run === view.run) busy(false); }
    if (run === view.run && view.again) await updated();
  };
  const show = async (at) => {
    const run = ++view.run;
    busy(true);
    try {
      const made = await fetchWindow(at);
      if (run !== view.run) return;
      list.replaceChildren(made); view.first = at; measure(); space(); dress(list);
      scrollBy(0, list.getBoundingClientRect().top - bar());
      while (last() < view.heights.length && sum(at, last()) < innerHeight * 1.5) {
        const more = await fetchWindow(last());
        if (run !== view.run) return;
        list.append(more); measure(); space(); dress(more);
      }
    } finally { if (run === view.run) busy(false); }
  };
  const bottom = () => scrollTo(0, body.scrollHeight);
  const toEnd = async () => {
    if (view?.heights.length) {
      if (last() < view.heights.length) await show(Math.max(0, view.heights.length - 2));
      bottom();
      await update();
    } else {
      // The conversation of a file ends before its dead ends.
      const end = $$('#windows > :not(.dead)').at(-1);
      if (end?.tagName === 'DETAILS') end.open = true;
      jumped = performance.now();
      if ($('.dead')) return end.scrollIntoView({ block: 'end' });
    }
    return bottom();
  };
  const toStart = async () => { if (view && view.first > 0) await show(0); scrollTo(0, 0); await update(); };
  // The item that keys are about has the focus, too: Enter opens it, and Tab goes on from there.
  const current = (item) => {
    $('.at-item')?.classList.remove('at-item');
    if (!item) return;
    item.classList.add('at-item');
    // Who looks for words goes on from there.
    if (doc.activeElement.closest('.find') && !doc.activeElement.closest('#found')) return;
    const at = item.tagName === 'DETAILS' ? item.firstElementChild : item;
    if (at.tabIndex < 0) at.tabIndex = -1;
    at.focus({ preventScroll: true });
  };
  // Another branch or a sub-agent has a page of its own.
  const elsewhere = (flow, name) => {
    const words = field.value.trim();
    location.href = view.base.replace(/\/$/, '') + '?flow=' + flow + (words && '&q=' + encodeURIComponent(words)) + '#' + name;
  };
  // The name of a turn or a record: in which flow, what, its number.
  const place = /^(?:([ac]\d+)-)?(L|turn-)(\d+)$/;
  // A turn or a record, loaded if it was not; nothing if it is on another page, or nowhere.
  const reach = async (name) => {
    const known = doc.getElementById(name), found = place.exec(name);
    if (known || !found) return known;
    const [, other = 'm', what, number] = found, isTurn = what === 'turn-';
    let at = null;
    if (view) {
      if (other !== view.flow) return elsewhere(other, name);
      try {
        const [flow, where] = (await get(view.base + 'where?flow=' + view.flow + (isTurn ? '&turn=' : '&line=') + number)).split(' ');
        if (flow !== view.flow) return elsewhere(flow, (flow === 'm' ? '' : flow + '-') + what + number);
        await show(Number(where));
        at = doc.getElementById(name);
      } catch { at = null; }
      // What has no place in a conversation is shown as it is.
      if (!at && !isTurn) raw(view.base + 'raw/' + view.flow + '/' + number, 'The record on line ' + number);
    }
    if (!at && (isTurn || !view)) tell(isTurn ? 'There is no turn ' + number + '.' : 'Line ' + number + ' is not in this file.');
    return at;
  };
  // Goes to a turn or a record, wherever it is, and returns what shows it.
  const go = async (name) => {
    const at = await reach(name);
    if (!at) return at;
    const shown = at.classList.contains('at') ? at.previousElementSibling || at : at;
    for (let up = shown.parentElement; up; up = up.parentElement) if (up.tagName === 'DETAILS') up.open = true;
    jumped = performance.now();
    $('.target')?.classList.remove('target');
    shown.classList.add('target');
    const put = () => { bar(); shown.scrollIntoView({ block: 'start' }); };
    put();
    current(shown.closest('.item') || shown);
    await update();
    if (shown.isConnected && Math.abs(shown.getBoundingClientRect().top - bar()) > 2) put();
    return shown;
  };
  // What was first in view, and where; above the conversation, how far the page was scrolled.
  const here = () => {
    const top = bar(), words = field?.value, place = (one) => one.getBoundingClientRect();
    const first = list && place(list).top < top && $$('#windows .item[id], #windows .turn').find((one) => one.getClientRects().length && place(one).bottom > top && !one.closest('.agent'));
    return first ? { words, name: first.id, top: place(first).top } : { words, y: scrollY };
  };
  // The way back leads to the same place.
  const jump = async (name) => {
    history.replaceState(here(), '');
    history.pushState(null, '', '#' + name);
    return go(name);
  };
  const back = async (to) => {
    if (!to) { if (location.hash.length > 1) await go(location.hash.slice(1)); return; }
    const at = to.name && await reach(to.name);
    if (!at && view?.first > 0) await show(0);
    scrollTo(0, at ? scrollY + at.getBoundingClientRect().top - to.top : to.y || 0);
    await update();
  };

  // ---- Findings of the check, at their lines.
  const markFindings = () => {
    const marks = [];
    for (const link of $$('a[data-finding]')) {
      const at = doc.getElementById('L' + link.dataset.finding);
      if (!at || at.dataset.marked) continue;
      at.dataset.marked = '1';
      if (!$('.finding', at) && !at.classList.contains('at')) marks.push([link, at]);
    }
    if (!marks.length) return;
    const before = here();
    for (const [link, at] of marks) {
      const made = doc.createElement('span');
      made.className = 'finding'; made.textContent = link.closest('li').firstElementChild.textContent; made.title = link.closest('li').textContent;
      ($('header', at) || $('summary', at) || at).append(made);
    }
    // What is read stays where it is.
    if (before.name) scrollBy(0, doc.getElementById(before.name).getBoundingClientRect().top - before.top);
  };

  // ---- Live: what is written appears.
  const lost = (words) => { const at = $('#lost'); if (at.textContent !== words) at.textContent = words; };
  const live = async () => {
    for (;;) {
      await pause(1200);
      if (doc.hidden || view.busy) continue;
      let state;
      try { state = (await get(view.base + 'state?flow=' + view.flow + '&have=' + view.stamp)).split(' '); lost(''); } catch (error) {
        lost(error.message === 'not found' ? 'This session is no longer there: its file was deleted or moved.' : 'The server does not answer: it has ended, or was started anew.');
        await pause(4000);
        continue;
      }
      const [stamp, , , heights] = state;
      if (stamp === view.stamp) continue;
      const before = view.stamp;
      view.stamp = stamp;
      try { await inTurn(() => grown((heights || '').split(',').filter(Boolean).map(Number))); } catch { tell('The server does not answer.'); view.stamp = before; await pause(4000); }
    }
  };
  const grown = async (fresh) => {
    const atEnd = scrollY + innerHeight > body.scrollHeight - 120;
    if (fresh.length < last()) {
      // It was written anew, and is shorter.
      view.heights = fresh; view.known.clear();
      await show(Math.max(0, Math.min(view.first, fresh.length - 2)));
    } else {
      view.heights = fresh.map((height, at) => view.known.has(at) ? view.heights[at] ?? height : height);
      await renew(8);
    }
    for (const agent of $$('details.agent[open][data-loaded]')) await grow(agent);
    space();
    await update();
    if (atEnd) await toEnd();
    await renewHead();
    for (const panel of $$('.panel[open][data-src]')) { const part = nodes(await get(panel.dataset.src)); panel.replaceChildren(panel.firstElementChild, part); }
  };
  // What stands above the conversation, and the numbers beside the panels.
  const renewHead = async () => {
    const source = await get(view.base + 'head?flow=' + view.flow), old = $('.headline');
    if (sources.get(old) === source) return;
    const made = nodes(source).firstElementChild;
    sources.set(made, source);
    await reopen(made, opened(old));
    still(() => { old.replaceWith(made); });
    for (const number of $$('.panel .number')) number.textContent = made.dataset[number.closest('.panel').dataset.name];
  };
  // Windows that have changed are replaced; what was open in them stays open.
  const renew = async (most = Infinity) => {
    for (let at = Math.max(view.first, last() - most); at < last(); at++) {
      const old = list.children[at - view.first], made = await fetchWindow(at);
      if (!old || !old.isConnected || old !== list.children[at - view.first] || sources.get(old) === sources.get(made)) continue;
      await reopen(made, opened(old));
      still(() => { old.replaceWith(made); });
      dress(made);
    }
  };
  // What a sub-agent has said meanwhile. Who has seen all of it sees the rest, too.
  const grow = async (agent) => {
    const [, windows] = (await get(view.base + 'state?flow=' + agent.dataset.flow)).split(' ');
    const [loaded, before] = [Number(agent.dataset.loaded), Number(agent.dataset.windows)];
    const old = $$(':scope > .window', agent).at(-1);
    agent.dataset.windows = windows;
    const source = await get(agent.dataset.src.replace(/\d+$/, loaded - 1)), made = nodes(source);
    if (old && sources.get(old) !== source) {
      const known = opened(old), fresh = made.firstElementChild;
      sources.set(fresh, source);
      await reopen(fresh, known);
      still(() => { old.replaceWith(made); });
    }
    if (loaded >= before) for (let some = 0; some < 3; some++) await next(agent);
    more(agent);
    dress(agent);
  };

  // ---- Find, also in what is folded.
  const found = $('#found'), field = $('#find'), finder = $('.find');
  let texts = null, typed = 0, looking = null, hitAt = -1;
  const hits = () => $$('.hits a', found);
  // The list lies over the page while somebody looks at it; which hit was followed stays in sight.
  const listing = (is) => finder.classList.toggle('away', !is);
  const counted = () => {
    const all = hits();
    all.forEach((one, at) => one.toggleAttribute('aria-current', at === hitAt));
    $('#hit').textContent = all.length ? (hitAt < 0 ? '' : hitAt + 1 + ' of ') + all.length + ($('.more', found) ? '+' : '') : '';
    finder.classList.toggle('has-hits', all.length > 0);
    bar();
  };
  const put = (...content) => { found.replaceChildren(...content); hitAt = -1; listing(true); counted(); };
  const look = () => { looking = looked(); };
  const looked = async () => {
    const words = field.value.trim(), run = ++typed;
    await pause(200);
    if (run !== typed) return;
    colours.find?.clear();
    if (words.length < 2) { put(); return; }
    if (!isFile) {
      try { const part = nodes(await get(view.base + 'find?flow=' + view.flow + '&q=' + encodeURIComponent(words))); if (run === typed) put(part); } catch { put('The server does not answer.'); }
      return;
    }
    texts = texts || $$('.item[id]').map((item) => [item, textOf(item)]);
    const needle = words.toLowerCase(), hits = texts.map(([item, text]) => [item, text, text.toLowerCase().indexOf(needle)]).filter((one) => one[2] >= 0);
    const number = doc.createElement('p'), all = doc.createElement('ol');
    number.textContent = hits.length + (hits.length === 1 ? ' hit' : ' hits'); all.className = 'hits';
    for (const [item, text, at] of hits.slice(0, 100)) {
      const row = doc.createElement('li'), link = doc.createElement('a'), who = doc.createElement('span'), mark = doc.createElement('mark');
      link.href = '#' + item.id; who.className = 'who'; who.textContent = $('.who, .tool', item)?.textContent || ''; mark.textContent = text.slice(at, at + needle.length);
      link.append(who, ' ' + text.slice(Math.max(0, at - 50), at), mark, text.slice(at + needle.length, at + 100)); row.append(link); all.append(row);
    }
    put(number, all);
    if (hits.length > 100) { const more = doc.createElement('p'); more.className = 'addition'; more.textContent = 'and ' + (hits.length - 100) + ' more: add a word'; found.append(more); }
  };
  // What an item says, without its heading; what is apart on the page is apart here.
  const textOf = (item) => {
    const walker = doc.createTreeWalker(item, NodeFilter.SHOW_ALL, (node) => node.nodeType === 3 ? 1 : node.matches?.('header, .tool, .who, .facts, .numbers') ? 2 : 3);
    let text = '', before = null;
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const block = node.parentElement.closest(':not(b, span, code, em, strong, a, i, s)');
      text += (block === before ? '' : ' ') + node.data;
      before = block;
    }
    return text.replace(/\s+/g, ' ');
  };
  // Marks the words in an item, and brings the first of them into view.
  const showFound = (from) => {
    if (!colours.find || !field.value.trim()) return;
    const needle = field.value.trim().toLowerCase(), walker = doc.createTreeWalker(from, NodeFilter.SHOW_TEXT);
    let first = null;
    colours.find.clear();
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const text = node.data.toLowerCase();
      if (text.length !== node.data.length) continue;
      for (let at = text.indexOf(needle); at >= 0; at = text.indexOf(needle, at + needle.length)) {
        const range = doc.createRange();
        range.setStart(node, at); range.setEnd(node, at + needle.length);
        colours.find.add(range);
        first = first || range.getClientRects().length && range;
      }
    }
    if (!first) return;
    const top = () => first.getBoundingClientRect().top;
    for (let up = first.startContainer.parentElement; up !== from.parentElement; up = up.parentElement) {
      const box = up.getBoundingClientRect();
      if (up.scrollHeight > up.clientHeight + 1 && (top() < box.top || top() > box.bottom - 20)) up.scrollTop += top() - box.top - up.clientHeight / 3;
    }
    if (top() < bar() || top() > innerHeight - 40) scrollBy(0, top() - innerHeight / 3);
  };
  const toWords = async (name, way) => {
    const item = await way(name);
    if (!item) return;
    if (item.tagName === 'DETAILS') { item.open = true; await fill(item); }
    showFound(item);
    await update();
  };
  const follow = async (link) => {
    hitAt = hits().indexOf(link);
    counted();
    await toWords(link.getAttribute('href').slice(1), jump);
    listing(false);
  };
  // The next or the previous hit, from the last one to the first.
  const toHit = async (by) => {
    await looking;
    const more = $('.more[data-more]', found);
    if (by > 0 && more && hitAt + 1 === hits().length) await append(more, more.dataset.more);
    const all = hits();
    if (all.length) await follow(all[(Math.max(hitAt, by > 0 ? -1 : 0) + by + all.length) % all.length]);
  };
  field?.addEventListener('input', look);
  for (const name of ['focus', 'click']) field?.addEventListener(name, () => listing(true));

  // ---- Everything, only what was said, or only what was asked.
  const kinds = [['', 'All', 'Everything'], ['talk', 'Talk', 'Only what was said'], ['asked', 'Prompts', 'Only what was asked']];
  let kind = 0;
  const talk = async () => {
    kind = (kind + 1) % kinds.length;
    const [name, word, words] = kinds[kind];
    body.classList.toggle('talk', kind > 0);
    body.classList.toggle('asked', name === 'asked');
    const button = $('[data-do=talk]');
    if (button) button.textContent = word;
    tell(words);
    if (!view) return;
    view.known.clear(); measure(); space();
    await renew();
    await update();
  };

  // ---- Copying.
  const copy = async (text) => {
    try { await navigator.clipboard.writeText(text); tell('Copied'); } catch {
      const area = doc.createElement('textarea'); area.value = text; body.append(area); area.select();
      const done = doc.execCommand('copy'); area.remove(); tell(done ? 'Copied' : text);
    }
  };
  const turnText = (head) => {
    const made = ['## ' + $('h2', head).textContent, ''];
    const items = $$('#windows .turn, #windows .item').filter((one) => !one.parentElement.closest('.agent'));
    for (const item of items.slice(items.indexOf(head) + 1)) {
      if (item.classList.contains('turn')) break;
      const text = $('.body', item)?.innerText ?? item.innerText;
      if (item.classList.contains('prompt')) made.push(text.split('\n').map((line) => '> ' + line).join('\n'), '');
      else if (item.classList.contains('call')) made.push('- **' + $('.tool', item).textContent + '** `' + $('.about', item).textContent + '`', '');
      else if (!item.classList.contains('thinking')) made.push(text, '');
    }
    return made.join('\n');
  };
  // The head of a turn says where its Markdown is; in a file, what it has of the turn is copied.
  const copyTurn = async (head) => {
    const from = $('.copy', head)?.dataset.copy;
    if (from === undefined) return;
    try { await copy(from ? await get(from) : turnText(head)); } catch { tell('The server does not answer.'); }
  };
  const dialog = (title, content) => { const at = $('#show'); $('h2', at).textContent = title; $('.body', at).replaceChildren(content); if (!at.open) at.showModal(); dress(at); };
  const raw = async (address, title) => { try { dialog(title, nodes(await get(address))); } catch { tell('There is no such record.'); } };
  const rawOf = (button) => { if (button) raw(button.dataset.raw, button.title); };

  // More of a list, in place of the button that asks for it.
  const append = async (button, address) => {
    button.disabled = true;
    try { button.replaceWith(nodes(await get(address))); } catch { button.disabled = false; tell('The server does not answer.'); }
  };

  doc.addEventListener('click', async (event) => {
    const on = event.target.closest('a, button');
    if (!on) return;
    const data = on.dataset;
    const href = on.getAttribute('href');
    if (on.tagName === 'A' || on.tagName === 'a') {
      if (href?.startsWith('#') && href !== '#main') {
        event.preventDefault();
        await act(() => on.closest('#found') ? follow(on) : jump(href.slice(1)));
      }
      return;
    }
    if (data.do === 'theme') theme();
    else if (data.do === 'talk') act(talk);
    else if (data.do === 'help') $('#help').showModal();
    else if (data.do === 'hit') act(() => toHit(Number(data.by)));
    else if (data.raw) rawOf(on);
    else if ('copy' in data) copyTurn(on.closest('.turn'));
    else if (data.copyText) copy(data.copyText);
    else if (data.fork) { const made = doc.createElement('pre'); made.textContent = data.fork; dialog(on.title, made); copy(data.fork); }
    else if (data.more) await append(on, data.more);
    else if (data.moreRows) { await append(on, rowsAddress(data.moreRows)); health(); }
  });

  // ---- Keys.
  const items = () => $$('#windows .item, .home .session-row a').filter((one) => one.getClientRects().length && !one.parentElement.closest('details:not([open])'));
  const now = () => {
    const at = $('.at-item');
    if (at && at.isConnected) { const box = at.getBoundingClientRect(); if (box.bottom > 0 && box.top < innerHeight) return at; }
    return items().find((one) => one.getBoundingClientRect().bottom > bar());
  };
  const move = (by, what) => {
    const all = $$(what).filter((one) => one.getClientRects().length), at = now();
    let next;
    if (by > 0) next = all.find((one) => at && (one.compareDocumentPosition(at) & Node.DOCUMENT_POSITION_PRECEDING) && one !== at && !one.contains(at));
    else next = all.filter((one) => at && (one.compareDocumentPosition(at) & Node.DOCUMENT_POSITION_FOLLOWING) && one !== at).at(-1);
    if (!$('.at-item') && what.includes('.item') && by > 0) next = at;
    if (!next) { scrollBy(0, by * innerHeight * 0.8); return update(); }
    return stand(next);
  };
  const stand = (next) => {
    current(next);
    const box = next.getBoundingClientRect(), top = bar();
    if (box.top < top || box.bottom > innerHeight - 20) scrollBy(0, box.top - top);
    return update();
  };
  // The next error, also behind the windows that are here, and in pages of a file that are closed.
  const toError = async () => {
    const at = now(), isNew = !$('.at-item');
    const isBehind = (one) => one === at ? isNew : !at || at.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING && !at.contains(one);
    const isThere = (one) => !one.parentElement.closest('details:not([open], .page), .dead:not([open])') && (one.closest('.page:not([open])') ? !(kind && one.matches('.call')) : one.getClientRects().length);
    const next = $$('#windows .bad').find((one) => isBehind(one) && isThere(one));
    if (next) { next.closest('.page')?.setAttribute('open', ''); return stand(next); }
    const found = view && await get(view.base + 'where?flow=' + view.flow + '&error=' + last() + '&only=' + kinds[kind][0]);
    return found ? go(found) : tell('No error below this.');
  };
  // The next or the previous turn, also if it is not on the page yet.
  const toTurn = (by) => {
    const at = now();
    if (!at) { scrollBy(0, by * innerHeight * 0.8); return update(); }
    const heads = $$('#windows .turn').filter((one) => !one.closest('.agent'));
    const head = heads.filter((one) => one === at || at.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_PRECEDING).at(-1);
    // The head of a turn that goes on here may be in a window before.
    const turn = Number(head ? head.dataset.turn : at.closest('#windows > .window').dataset.begins);
    // Back is first to the beginning of this turn.
    const to = by < 0 && head !== at ? turn : turn + by;
    return to > 0 ? go((view && view.flow !== 'm' ? view.flow + '-' : '') + 'turn-' + to) : null;
  };
  const keys = {
    j: () => move(1, '#windows .item, .session-row .title a'), k: () => move(-1, '#windows .item, .session-row .title a'),
    n: () => toTurn(1), p: () => toTurn(-1), x: toError,
    o: () => { const at = now(); const one = at?.tagName === 'DETAILS' ? at : $('details', at || doc); if (one) one.open = !one.open; },
    e: () => { const all = $$('#windows details.item').filter((one) => { const box = one.getBoundingClientRect(); return box.bottom > 0 && box.top < innerHeight; }); const open = all.some((one) => !one.open); all.forEach((one) => { one.open = open; }); },
    g: toStart, G: toEnd, '/': () => { const at = $('#find') || $('#search'); at?.focus(); at?.select(); },
    r: () => {
      const at = now(), found = place.exec(at?.id);
      if (view && found?.[2] === 'L') raw(view.base + 'raw/' + (found[1] || 'm') + '/' + found[3], 'The record on line ' + found[3]);
    },
    // The turn that the item is in, not one of a sub-agent that is open above it.
    c: () => {
      const at = now(), agent = isFile ? null : at?.closest('.agent');
      const before = (one) => one === at || one.compareDocumentPosition(at) & Node.DOCUMENT_POSITION_FOLLOWING;
      const head = at && $$('#windows .turn').filter((one) => one.closest('.agent') === agent && before(one)).at(-1);
      if (head) copyTurn(head);
    },
    d: diffs, m: talk, t: theme, u: () => { if (body.dataset.root) location.href = body.dataset.root; }, '?': () => $('#help').showModal(),
  };
  doc.addEventListener('keydown', (event) => {
    const on = event.target;
    if (on.closest?.('.find') && !on.matches('button')) {
      if (event.key === 'Escape') { listing(false); on.blur(); colours.find?.clear(); return; }
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key], all = [field, ...hits()];
      if (step) { event.preventDefault(); listing(true); all[all.indexOf(on) + step]?.focus(); return; }
      if (event.key === 'Enter' && on === field) { event.preventDefault(); act(() => toHit(event.shiftKey ? -1 : 1)); return; }
    }
    if (event.ctrlKey || event.metaKey || event.altKey || on.closest?.('input, select, textarea, dialog[open]')) return;
    const work = keys[event.key];
    if (!work) return;
    event.preventDefault();
    if (event.repeat && queued > 2) return;
    if ('/?tdu'.includes(event.key)) work(); else act(work);
  });

  // ---- The list of sessions.
  const filters = $('form.filters'), rows = $('#rows');
  const rowsAddress = (from) => body.dataset.root + 'rows?from=' + from + '&' + new URLSearchParams(new FormData(filters)).toString();
  let asked = 0, listed = null;
  const list2 = async () => {
    const run = ++asked;
    await pause(120);
    if (run !== asked) return;
    try {
      const source = await get(rowsAddress(0));
      if (run !== asked) return;
      if (source !== listed) rows.replaceChildren(nodes(source));
      listed = source;
      health();
      history.replaceState(null, '', '?' + new URLSearchParams(new FormData(filters)).toString());
      whileRead();
    } catch { tell('The server does not answer.'); }
  };
  // While the catalog is being read, more is found from moment to moment. Who has asked for more
  // rows keeps them.
  const whileRead = () => {
    clearTimeout(whileRead.timer);
    if ($('[data-reading]', rows)) whileRead.timer = setTimeout(() => { if ($$('.sessions', rows).length > 1) whileRead(); else list2(); }, 1500);
  };
  const health = async () => {
    const run = asked;
    for (const at of $$('[data-health]')) {
      if (run !== asked || !at.isConnected) return;
      const box = at.getBoundingClientRect();
      if (at.dataset.known || box.top > innerHeight * 2) continue;
      at.dataset.known = '1';
      try {
        const word = await get(body.dataset.root + 'health/' + at.dataset.health);
        const sign = { full: '\u2713 resumes', loss: '\u26a0 with loss', rejected: '\u2717 API refuses', refused: '\u2717 client refuses' }[word];
        if (sign) { at.textContent = sign; at.classList.add(word); }
      } catch { return; }
    }
  };
  if (filters && rows) {
    filters.addEventListener('input', list2);
    filters.addEventListener('submit', (event) => { event.preventDefault(); list2(); });
    addEventListener('scroll', () => { clearTimeout(health.timer); health.timer = setTimeout(health, 200); }, { passive: true });
    health();
    whileRead();
    const plot = $('[data-lazy]');
    get(plot.dataset.lazy).then((html) => { plot.replaceChildren(nodes(html)); if (!html.trim()) plot.classList.add('none'); }).catch(() => plot.classList.add('none'));
  }

  // ---- Pages of a file open by themselves when somebody reads on; a jump opens only what it leads to.
  let jumped = 0;
  const watchPages = () => {
    const next = $('details.page:not([open], .dead)');
    if (!next || !globalThis.IntersectionObserver) return;
    const isReached = (one) => one.isIntersecting && one.time - jumped > 500;
    const watch = new IntersectionObserver((seen) => { if (seen.some(isReached) && scrollY > 0) { watch.disconnect(); if (!next.open && next.previousElementSibling?.open) next.open = true; } }, { rootMargin: '200px' });
    watch.observe(next);
  };

  // ---- Begin.
  const begin = async () => {
    const to = location.hash.slice(1) || main?.dataset.target, state = history.state;
    if (field) field.value = state?.words || new URLSearchParams(location.search).get('q') || '';
    const words = field?.value.trim();
    if (words) look();
    bar();
    if (view) {
      // Images are in the page, and have no height before they are decoded.
      await Promise.race([pause(1000), Promise.all($$('#windows img').map((one) => one.decode().catch(() => { })))]);
      measure(); space();
    }
    let at = state;
    if (view && state) await back(state);
    else if ((view || isFile) && to && to !== 'main') at = words ? (await toWords(to, go), $('.target')) : await go(to);
    if (words) listing(false);
    if (!view) return;
    if (!at && main.dataset.start === 'end') bottom();
    else if (!at && view.first > 0) list.firstElementChild?.scrollIntoView();
    await update();
  };
  if (view) {
    history.scrollRestoration = 'manual';
    addEventListener('pagehide', () => history.replaceState(here(), ''));
    let waiting = false;
    addEventListener('scroll', () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; update(); }); } }, { passive: true });
    addEventListener('resize', () => { measure(); space(); update(); });
    live();
    const turns = $('.panel[data-name=turns]');
    if (turns && innerWidth > 900) turns.open = true;
    // What the check finds stands at its lines before anybody asks, if that is quick.
    const early = $('.panel[data-early]');
    if (early) setTimeout(() => idle(() => fill(early)), 600);
  } else if (isFile) watchPages();
  addEventListener('popstate', (event) => act(() => back(event.state)));
  dress(doc);
  act(begin).then(appear);
})();
