//! Files with invalid hyper-parameters or tensors.

use gguf::Gguf;
use models::Model;
use testkit::malformed::{Stage, cases, valid};

#[test]
fn invalid_models_are_refused_with_a_reason() {
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
