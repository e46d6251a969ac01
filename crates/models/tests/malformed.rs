//! Files whose hyper-parameters or tensors make no model.

use gguf::Gguf;
use models::Model;
use testkit::malformed::{Stage, cases, valid};

#[test]
fn what_makes_no_model_is_refused_and_told() {
    for case in cases().into_iter().filter(|case| case.stage == Stage::Model) {
        let file = Gguf::from_bytes(case.bytes.into()).expect(case.name);
        let error = Model::new(&file).expect_err(case.name).to_string();
        for part in case.expect {
            assert!(error.contains(part), "{}: {part:?} is not in {error:?}", case.name);
        }
        assert!(!error.chars().any(char::is_control), "{}: {error:?}", case.name);
    }
    let [_, (_, tiny)] = valid();
    assert!(Model::new(&Gguf::from_bytes(tiny.into()).expect("a good file")).is_ok());
}
