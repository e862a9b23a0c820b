// Tables that are sorted and searched. Rows come from the JSON block behind each table (html_table.h); only those in
// view are in the document, so that a hundred thousand of them scroll as ten do. Texts are set as texts, never as markup.
'use strict';
(function () {
  var MINUS = '\u2212', DASH = '\u2013', PRINTED = 200, SPARE = 10;
  var UNITS = ['kB', 'MB', 'GB', 'TB', 'PB', 'EB'];

  // Halves go to the even digit, as they do in C.
  function round(x, digits, way) {
    var all = x[way](60), end = all.search(/e|$/), cut = all.indexOf('.') + 1 + digits;
    if (!/^50*$/.test(all.slice(cut, end))) return x[way](digits);
    var low = all.slice(0, digits ? cut : cut - 1);
    return Number(low.slice(-1)) % 2 ? x[way](digits) : low + all.slice(end);
  }
  // As quote_bytes and html_words have them.
  function bytes(x) {
    var unit = 0;
    if (x < 1000) return x.toFixed(0) + (x === 1 ? ' byte' : ' bytes');
    for (x /= 1000; x >= 999.95 && unit + 1 < UNITS.length; unit++) x /= 1000;
    return round(x, x < 9.995 ? 2 : x < 99.95 ? 1 : 0, 'toFixed') + ' ' + UNITS[unit];
  }
  function short(x) {
    if (x === 0) return '0';
    var near = round(x, 2, 'toExponential'), parts = near.split('e'), power = Number(parts[1]);
    if (power >= -4 && power < 3) return String(Number(near));
    return Number(parts[0]) + 'e' + (power < 0 ? '-' : '+') + (Math.abs(power) < 10 ? '0' : '') + Math.abs(power);
  }
  function words(x, form) {
    if (x === null) return DASH;
    if (typeof x === 'string') return x;
    if (x !== x) return 'NaN';
    if (x === Infinity || x === -Infinity) return (x < 0 ? MINUS : '') + '\u221e';
    if (form === 'bytes') return bytes(x);
    if (form === 'count') return x.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ',');
    if (form === 'one') return round(x, 1, 'toFixed');
    if (form === 'six') return round(x, 6, 'toFixed');
    return short(x);
  }
  function isText(form) { return form === 'name' || form === 'word' || form === 'state'; }
  var STATES = {failed: 'bad', differs: 'bad', 'not verified': 'warn'};

  function read(flat, forms) {
    var special = {inf: Infinity, '-inf': -Infinity, nan: NaN}, rows = [], last = forms.map(function () { return ''; }), at = 0;
    while (at < flat.length) {
      var row = [];
      for (var c = 0; c < forms.length; c++) {
        if (isText(forms[c])) {
          var same = flat[at++];
          row.push(last[c] = last[c].slice(0, same) + flat[at++]);
        } else {
          var x = flat[at++];
          row.push(typeof x === 'string' ? special[x] : x);
        }
      }
      rows.push(row);
    }
    return rows;
  }

  // What is no number is worse than any; what there is not comes last, either way.
  function compare(form, down) {
    var sign = down ? -1 : 1;
    if (isText(form)) return function (a, b) { return a < b ? -sign : a > b ? sign : 0; };
    return function (a, b) {
      if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
      if (a !== a) a = -Infinity;
      if (b !== b) b = -Infinity;
      return a < b ? -sign : a > b ? sign : 0;
    };
  }

  function element(tag, parent, text) {
    var e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    parent.appendChild(e);
    return e;
  }

  function revive(box) {
    var table = box.querySelector('table'), view = box.querySelector('.rows'), body = table.tBodies[0];
    var heads = Array.prototype.slice.call(table.tHead.rows[0].cells);
    var forms = heads.map(function (h) { return h.getAttribute('data-form'); });
    var rows = read(JSON.parse(document.getElementById(box.id + '-rows').textContent), forms);
    var order = rows.map(function (_, i) { return i; }), shown = order, sought = '';
    var column = heads.findIndex(function (h) { return h.hasAttribute('aria-sort'); }), down = false;
    var height = 30, from = -1, to = -1, all = false;

    var tools = document.createElement('div');
    tools.className = 'tools';
    var label = element('label', tools, 'Search ');
    var input = element('input', label);
    input.type = 'search';
    input.autocomplete = 'off';
    input.spellcheck = false;
    input.placeholder = 'part of a name, or several words';
    var count = element('output', tools);
    box.insertBefore(tools, view);
    var more = box.querySelector('.more');
    if (more) more.remove();
    box.classList.add('live');

    function cells(tr, row) {
      for (var c = 0; c < forms.length; c++) {
        var td = element('td', tr), text = words(row[c], forms[c]);
        if (forms[c] === 'name') {
          td.className = 'name';
          td.title = text;
          element('bdi', td, text);
        } else {
          td.textContent = text;
          if (!isText(forms[c])) td.className = 'number';
          else if (forms[c] === 'state' && STATES[text]) td.className = STATES[text];
        }
      }
    }
    function space(rowsAway) {
      var tr = element('tr', body), td = element('td', tr);
      tr.className = 'space';
      tr.setAttribute('aria-hidden', 'true');
      td.colSpan = forms.length;
      td.style.height = rowsAway * height + 'px';
    }
    function draw(again) {
      var room = Math.ceil(view.clientHeight / height) + 1, first = Math.floor(view.scrollTop / height);
      var a = all ? 0 : Math.max(0, first - SPARE), b = Math.min(shown.length, all ? PRINTED : first + room + SPARE);
      if (!again && a === from && b === to) return;
      from = a;
      to = b;
      body.textContent = '';
      if (a > 0) space(a);
      for (var i = a; i < b; i++) {
        var tr = element('tr', body);
        tr.setAttribute('aria-rowindex', i + 2);
        cells(tr, rows[shown[i]]);
      }
      if (b < shown.length && !all) space(shown.length - b);
    }
    function measure() {
      var tr = body.querySelector('tr:not(.space)');
      if (tr && tr.offsetHeight > 10) height = tr.offsetHeight;
    }
    function seek() {
      var parts = sought.toLowerCase().split(/\s+/).filter(Boolean);
      shown = parts.length === 0 ? order : order.filter(function (i) {
        return parts.every(function (part) {
          return rows[i].some(function (x, c) { return isText(forms[c]) && x.toLowerCase().indexOf(part) >= 0; });
        });
      });
      count.textContent = (shown.length === rows.length ? '' : shown.length + ' of ') + rows.length + (rows.length === 1 ? ' row' : ' rows');
      table.setAttribute('aria-rowcount', shown.length + 1);
      box.classList.toggle('few', shown.length <= 15);
      view.scrollTop = 0;
      draw(true);
    }
    function sort() {
      if (column >= 0) {
        var by = compare(forms[column], down);
        order.sort(function (i, k) { return by(rows[i][column], rows[k][column]) || i - k; });
      }
      heads.forEach(function (h, c) {
        if (c === column) h.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        else h.removeAttribute('aria-sort');
      });
      seek();
    }
    heads.forEach(function (h, c) {
      var button = document.createElement('button');
      button.type = 'button';
      button.textContent = h.textContent;
      h.textContent = '';
      h.appendChild(button);
      button.addEventListener('click', function () {
        down = column === c ? !down : false;
        column = c;
        sort();
      });
    });
    var waiting = 0;
    input.addEventListener('input', function () {
      sought = input.value;
      clearTimeout(waiting);
      waiting = setTimeout(seek, rows.length > 5000 ? 120 : 0);
    });
    view.addEventListener('scroll', function () { draw(false); }, {passive: true});
    window.addEventListener('resize', function () { draw(false); });
    window.addEventListener('beforeprint', function () { all = true; draw(true); });
    window.addEventListener('afterprint', function () { all = false; draw(true); });
    sort();
    measure();
    draw(true);
  }

  // On paper nothing can be unfolded.
  function unfold() {
    Array.prototype.forEach.call(document.querySelectorAll('details:not([open])'), function (d) {
      d.open = true;
      d.setAttribute('data-unfolded', '');
    });
  }
  function fold() {
    Array.prototype.forEach.call(document.querySelectorAll('details[data-unfolded]'), function (d) {
      d.open = false;
      d.removeAttribute('data-unfolded');
    });
  }
  window.addEventListener('beforeprint', unfold);
  window.addEventListener('afterprint', fold);
  Array.prototype.forEach.call(document.querySelectorAll('.table'), revive);
})();
