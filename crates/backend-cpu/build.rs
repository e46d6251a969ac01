//! Sets `slow_kernels` where cargo compiles this crate without optimisation, and warns. Cargo shows the warning to those who depend
//! on a path, but not to those who depend on a git repository: `backend_cpu::IS_SLOW` lets a program say it.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(slow_kernels)");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("OPT_LEVEL").is_ok_and(|level| level == "0") {
        println!("cargo::rustc-cfg=slow_kernels");
        println!(
            "cargo::warning=without optimisation, the CPU kernels are ten to twenty times slower: add `opt-level = 3` to \
             [profile.dev.package.\"*\"] in the Cargo.toml of your workspace"
        );
    }
}
