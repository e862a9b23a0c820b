// node wasm.mjs NODE_MODULES jobs.json results.json: runs models in ONNX Runtime Web's WebAssembly.
import { readFile, writeFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { runAll } from "./models.mjs";

const [modules, jobs, results] = process.argv.slice(2);
const ort = await import(pathToFileURL(`${modules}/onnxruntime-web/dist/ort.node.min.mjs`));
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "fatal";
// A copy, since small files share a buffer in node.
const read = async (path) => new Uint8Array(await readFile(path));
const found = await runAll(ort, JSON.parse(await readFile(jobs)), { executionProviders: ["wasm"] }, read, writeFile);
await writeFile(results, JSON.stringify({ found }));
process.exit(0);
