// Loads models of a folder with transformers.js, by the names that it gives to files, and runs one on a text.
//
// A job: {root, model, dtype, device, session_options, text}. What comes back: {ids, dims, values}, or {error}.

async function run(transformers, { model, dtype, device, session_options = {}, text }) {
  const { AutoModel, AutoTokenizer } = transformers;
  const tokenizer = await AutoTokenizer.from_pretrained(model);
  const inputs = await tokenizer(text);
  const loaded = await AutoModel.from_pretrained(model, { dtype, device, session_options });
  const { last_hidden_state: state } = await loaded(inputs);
  const made = { ids: [...inputs.input_ids.data].map(Number), dims: state.dims, values: [...state.data] };
  await loaded.dispose();
  return made;
}

const offline = { allowRemoteModels: false, allowLocalModels: true, useBrowserCache: false, useFSCache: false, useWasmCache: false };

// Settles as `made` does, but fails where a promise of nobody does: transformers.js waits forever for a data file that is missing.
async function orUnhandled(made) {
  let stop;
  const failed = new Promise((_, reject) => {
    stop = (event) => reject(event.reason);
    globalThis.addEventListener?.("unhandledrejection", stop);
  });
  try {
    return await Promise.race([made, failed]);
  } finally {
    globalThis.removeEventListener?.("unhandledrejection", stop);
  }
}

// `load` gives transformers.js.
export async function runAll(load, jobs) {
  const found = {};
  for (const [name, job] of Object.entries(jobs)) {
    try {
      const transformers = await load();
      Object.assign(transformers.env, offline, { localModelPath: job.root });
      found[name] = await orUnhandled(run(transformers, job));
    } catch (why) {
      found[name] = { error: String(why?.message ?? why) || "failed" };
    }
  }
  return found;
}
