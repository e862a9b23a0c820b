// Loads models of a folder with transformers.js, by the names that it gives to files, and runs one on a text.
//
// A job: {root, model, dtype, device, text}. What comes back: {ids, dims, values}, or {error}.

async function run(transformers, { model, dtype, device, text }) {
  const { AutoModel, AutoTokenizer } = transformers;
  const tokenizer = await AutoTokenizer.from_pretrained(model);
  const inputs = await tokenizer(text);
  const loaded = await AutoModel.from_pretrained(model, { dtype, device });
  const { last_hidden_state: state } = await loaded(inputs);
  const made = { ids: [...inputs.input_ids.data].map(Number), dims: state.dims, values: [...state.data] };
  await loaded.dispose();
  return made;
}

export async function runAll(transformers, jobs) {
  const { env } = transformers;
  Object.assign(env, { allowRemoteModels: false, allowLocalModels: true, useBrowserCache: false, useFSCache: false, useWasmCache: false });
  const found = {};
  for (const [name, job] of Object.entries(jobs)) {
    env.localModelPath = job.root;
    try {
      found[name] = await run(transformers, job);
    } catch (why) {
      found[name] = { error: String(why?.message ?? why) || "failed" };
    }
  }
  return found;
}
