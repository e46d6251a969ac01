//! Models that several CPU backends compute together.

use backend::Backend;
use backend_cpu::Cpu;
use testkit::shards;

fn cpu() -> Box<dyn Backend> {
    Box::new(Cpu::new(1.try_into().ok()))
}

#[test]
fn families_are_exact_on_two_and_four_ranks() {
    for (ranks, rows) in [(2, 300), (2, 37), (4, 300)] {
        for (name, result) in shards::errors(&cpu, ranks, rows) {
            println!("{name}, {ranks} ranks, {rows} rows: {result:?}");
        }
    }
}

#[test]
fn quantized() {
    let tokens: Vec<u32> = testkit::goldens::long_tokens()[..60].to_vec();
    for (name, spec) in shards::quantized() {
        let exact = shards::logits(&spec, Box::new(backend_reference::Reference::new()), &tokens, 60);
        let alone = shards::logits(&spec, cpu(), &tokens, 60);
        for ranks in [2, 4] {
            let r = shards::logits(
                &spec,
                shards::group(&|| Box::new(backend_reference::Reference::new()), ranks),
                &tokens,
                60,
            );
            let c = shards::logits(&spec, shards::group(&cpu, ranks), &tokens, 60);
            use testkit::conformance::random::nmse;
            println!(
                "{name} {ranks} ranks: reference {:.2e}, cpu alone {:.2e}, group {:.2e}, both {:.2e}",
                nmse(&exact, &r),
                nmse(&exact, &alone),
                nmse(&exact, &c),
                nmse(&alone, &c)
            );
        }
    }
}
