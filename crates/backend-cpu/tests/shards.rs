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
