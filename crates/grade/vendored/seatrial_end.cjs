// Tells verify.py what a JavaScript runner counted when it came to its end. The results themselves are read from the
// log, which code under test can write to as well; this line is what a program that ends early, or prints results of
// its own, does not get right.
//
// Loaded with `--require` it waits until Mocha or Jest is loaded in its process; named with `--test-reporter` it is a
// reporter of `node --test`, in the process that starts the test files. verify.py leaves a ticket: a JSON file, named
// by SEATRIAL_TICKET, with the nonce of the run and the path of a pipe. The nonce is kept in a closure. What this does
// not stop: under Mocha, and under Jest without workers, code under test shares the process, and code that looks for
// the nonce can lie. That is a trip-wire, not a wall.
//
// Lines: {"nonce", "kind": "end", "runner", "passed", "failed"}, one for each run.
'use strict';

const fs = require('fs');
const Module = require('module');

const { openSync, writeSync, closeSync, readFileSync } = fs;
const { stringify } = JSON;

const ticket = readTicket();

function readTicket() {
  try {
    return JSON.parse(readFileSync(process.env.SEATRIAL_TICKET, 'utf8'));
  } catch {
    return null;
  }
}

function line(runner, passed, failed) {
  return stringify({ nonce: ticket.nonce, kind: 'end', runner, passed, failed }) + '\n';
}

function tell(runner, passed, failed) {
  const pipe = openSync(ticket.pipe, 'w');
  writeSync(pipe, line(runner, passed, failed));
  closeSync(pipe);
}

// Children of tests are no runs of this suite.
function forget() {
  delete process.env.SEATRIAL_TICKET;
}

// Mocha: every runner, the one for parallel files included, emits `end` once.
function watchMocha(Runner) {
  const { run } = Runner.prototype;
  Runner.prototype.run = function (...rest) {
    forget();
    let passed = 0;
    let failed = 0;
    this.on('pass', () => (passed += 1));
    this.on('fail', () => (failed += 1));
    this.on('end', () => tell('mocha', passed, failed));
    return run.apply(this, rest);
  };
}

// Jest: the command line calls `runCLI` of its core and waits for the sums. Exports may be getters, so a copy is given.
function watchJest(core) {
  const { runCLI } = core;
  const watched = async function (...rest) {
    forget();
    const ended = await runCLI.apply(this, rest);
    const { numPassedTests, numFailedTests, numRuntimeErrorTestSuites } = ended.results;
    tell('jest', numPassedTests, numFailedTests + numRuntimeErrorTestSuites);
    return ended;
  };
  return Object.create(core, { runCLI: { value: watched, enumerable: true } });
}

const MOCHA = /[\\/]mocha[\\/]lib[\\/](?:runner|nodejs[\\/]parallel-buffered-runner)\.js$/;
const JEST = /[\\/]@jest[\\/]core[\\/]build[\\/](?:index|jest)\.js$/;

function watchLoading() {
  const load = Module._load;
  const seen = new Map();
  Module._load = function (request, parent, ...rest) {
    const loaded = load.call(this, request, parent, ...rest);
    if (!/runner|@jest[\\/]core/.test(request)) return loaded;
    let place;
    try {
      place = Module._resolveFilename(request, parent);
    } catch {
      return loaded;
    }
    if (!MOCHA.test(place) && !JEST.test(place)) return loaded;
    if (!seen.has(place)) {
      const isMocha = MOCHA.test(place) && typeof loaded === 'function';
      if (isMocha && Object.getOwnPropertyNames(loaded.prototype).includes('run')) watchMocha(loaded);
      seen.set(place, JEST.test(place) ? watchJest(loaded) : loaded);
    }
    return seen.get(place);
  };
}

// `node --test`: the process that reports does not run the tests. Suites count like tests, as they do in the log.
module.exports = async function* reporter(source) {
  let passed = 0;
  let failed = 0;
  for await (const { type } of source) {
    if (type === 'test:pass') passed += 1;
    else if (type === 'test:fail') failed += 1;
  }
  if (ticket) yield line('node', passed, failed);
};

if (ticket && !process.execArgv.includes('--test')) watchLoading();
