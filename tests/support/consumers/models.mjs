// Loads and runs models in ONNX Runtime Web, the same in node and in a browser.
//
// A job names a model, its data files by the names that the model has for them, its inputs and where the outputs go. What
// comes back says of each job why it failed, or null.
//
//     {model, data: {name: path}, given: {input: {type, dims, path}}, out}

const Bytes = { float32: Float32Array, int64: BigInt64Array, float16: Uint16Array };

function tensor(ort, { type, dims }, bytes) {
  const words = new Bytes[type](bytes.buffer, bytes.byteOffset, bytes.byteLength / Bytes[type].BYTES_PER_ELEMENT);
  // Where the language has float16, tensors are made of it.
  const half = type === "float16" && typeof Float16Array !== "undefined";
  return new ort.Tensor(type, half ? new Float16Array(words.buffer, words.byteOffset, words.length) : words, dims);
}

async function run(ort, job, options, read, write) {
  const data = await Promise.all(Object.entries(job.data).map(async ([path, at]) => ({ path, data: await read(at) })));
  const session = await ort.InferenceSession.create(await read(job.model), { ...options, externalData: data });
  const feeds = {};
  for (const [name, given] of Object.entries(job.given)) feeds[name] = tensor(ort, given, await read(given.path));
  const made = (await session.run(feeds))[session.outputNames[0]];
  const values = await made.getData();
  await write(job.out, new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
  await session.release();
}

export async function runAll(ort, jobs, options, read, write) {
  const found = {};
  for (const [name, job] of Object.entries(jobs)) {
    try {
      await run(ort, job, options, read, write);
      found[name] = null;
    } catch (why) {
      found[name] = String(why?.message ?? why) || "failed";
    }
  }
  return found;
}
