//! Files that must be refused, with a message that says what is wrong and where.

use engine::Model;
use gguf::Gguf;
use testkit::malformed::{Stage, cases, valid};

#[test]
fn every_malformed_file_is_refused_by_name() {
    for case in cases() {
        let opened = Gguf::from_bytes(case.bytes.into());
        assert_eq!(opened.is_err(), case.stage == Stage::File, "{}: {opened:?}", case.name);
        let message = match opened {
            Err(error) => error.to_string(),
            Ok(file) => match Model::new(file) {
                Err(error) => error.to_string(),
                Ok(_) => panic!("{}: accepted", case.name),
            },
        };
        for part in case.expect {
            assert!(message.contains(part), "{}: `{message}` does not say `{part}`", case.name);
        }
    }
}

#[test]
fn the_file_they_are_made_from_is_accepted() {
    let [_, (name, llama)] = valid();
    let file = Gguf::from_bytes(llama.into()).expect(name);
    assert!(Model::new(file).is_ok(), "{name}");
}
