//! Steps with many output rows.

use super::{limits, scheduler, submit};
use crate::queue::Admission;
use crate::scheduler::{Event, Limits, Plan, RequestId};

#[test]
fn logits_of_many_rows_take_the_steps_that_have_room_for_them() {
    let limits = Limits { logit_rows: 20, ..limits(256, 3, 64, 24) };
    let logits = |id, tokens, from| Event::Submit {
        id: RequestId(id),
        tokens: vec![id as u32; tokens],
        salt: Vec::new(),
        adapter: None,
        admission: Admission::default(),
        outputs_from: Some(from),
    };
    let rows = |plan: Plan| {
        plan.chunks.iter().map(|c| (c.id.0, c.sequence.n_past, c.sequence.len, c.outputs)).collect::<Vec<_>>()
    };
    // Rows that nobody asks for go with an ordinary step, and so do as many output rows as others do not need: three.
    let mut alone = scheduler(limits);
    assert_eq!(rows(alone.plan([logits(0, 100, 50)])), [(0, 0, 53, 3)]);
    assert_eq!(rows(alone.plan([])), [(0, 53, 20, 20)]);
    assert_eq!(rows(alone.plan([])), [(0, 73, 20, 20)]);
    assert_eq!(rows(alone.plan([])), [(0, 93, 7, 7)]);
    // Others decode meanwhile, and begin.
    let mut busy = scheduler(limits);
    assert_eq!(rows(busy.plan([submit(0, vec![0; 4])])), [(0, 0, 4, 1)]);
    let token = || Event::Token { id: RequestId(0), token: 1 };
    assert_eq!(rows(busy.plan([token(), logits(1, 30, 0)])), [(0, 4, 1, 1), (1, 0, 19, 19)]);
    let third = submit(2, vec![2; 40]);
    assert_eq!(rows(busy.plan([token(), third])), [(0, 5, 1, 1), (1, 19, 11, 11), (2, 0, 8, 0)]);
}
