//! Sets `slow_kernels` where cargo compiles this crate without optimisation.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(slow_kernels)");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("OPT_LEVEL").is_ok_and(|level| level == "0") {
        println!("cargo::rustc-cfg=slow_kernels");
    }
}
