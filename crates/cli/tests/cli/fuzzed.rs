//! The fuzz target's body on configuration files made of pieces of others.

use std::time::Duration;

#[path = "../../../../fuzz/bodies/config.rs"]
mod body;
#[path = "../../../../fuzz/bodies/mutation.rs"]
mod mutation;

#[test]
fn pieces_of_configuration_files() {
    let corpus = [
        "model = \"~/a.gguf\"\ntemp = 0.5\n",
        "top_k = 1_0 # few\nraw = true\nmax-tokens = -1\n",
        "seed = 0x7f\nmin-p = 1e-3\ngpu-layers = \"auto\"\nmemory = \"8GiB\"\n",
        "backend = 'cpu'\ncache-type = 'f32'\nthreads = 4\nctx-size = 0\n",
        "system = \"\"\"\nBe brief.\n\"\"\"\nunknown = [1, {a = 2}]\n[table]\nx = 1979-05-27\n",
        "mirostat = 2\ndry-base = 1.75\nxtc-probability = nan\ntop-p = inf\n\u{feff}",
    ];
    let corpus = corpus.map(|file| file.as_bytes().to_vec());
    mutation::run(&corpus, Duration::from_secs(3), body::read);
}
