// node transformers.mjs NODE_MODULES jobs.json results.json: runs models with transformers.js in node.
import { readFile, writeFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { runAll } from "./sentences.mjs";

const [modules, jobs, results] = process.argv.slice(2);
const transformers = await import(pathToFileURL(`${modules}/@huggingface/transformers/dist/transformers.node.mjs`));
const found = await runAll(() => transformers, JSON.parse(await readFile(jobs)));
await writeFile(results, JSON.stringify({ found }));
process.exit(0);
