//! A chat whose device is lost.

use std::sync::Arc;

use backend::{Error, Outputs, Program, Step, Ticket};
use backend_cpu::Cpu;
use clap::Parser;
use engine::{Engine, Model, Options};
use testkit::wrapped;

use super::{Args, Command, Session};
use crate::advice::advice;
use crate::args::ModelArgs;
use crate::{load, output};

/// A device that can be put to use, and is lost with the first step.
struct LostProgram(Box<dyn Program>);

impl Program for LostProgram {
    fn submit(&mut self, _: &Step) -> Result<Ticket, Error> {
        Err(Error::Device { device: "a card".into(), why: "it was lost".into() })
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        self.0.wait(ticket)
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        self.0.read(name)
    }
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

#[test]
fn a_conversation_goes_on_without_a_device_that_was_lost() {
    let args = ["chat", "--backend", "cpu", "--temp", "0", "-n", "2"];
    let mut session = Session::new(Line::parse_from(args).args, false, false).expect("the embedded model");
    session.answer("Hi").expect("the CPU answers");
    let model = Arc::new(Model::new(load::file(&ModelArgs::default()).expect("a file")).expect("a model"));
    let lost = wrapped(Box::new(Cpu::new(None)), |program| Box::new(LostProgram(program)));
    let lost = Engine::new(model, lost, Options::default()).expect("room");
    session
        .go_on(rustorch::Model::from_engine(lost, None).expect("a thread"))
        .expect("it takes the conversation");
    for _ in 0..2 {
        let error = session.answer("Ho").expect_err("a step fails");
        assert!(output::message(&error).contains("a card: it was lost"), "{error:#}");
        assert!(advice(&error).is_some_and(|advice| advice.contains("/backend cpu")));
    }
    session.obey(Command::Backend, "cpu").expect("the CPU is there");
    session.answer("Hey").expect("the CPU answers");
    let said = session.chat.messages().iter().filter(|message| message.role == "user");
    let said: Vec<_> = said.map(|message| message.text()).collect();
    assert_eq!(said, ["Hi", "Hey"]);
}
